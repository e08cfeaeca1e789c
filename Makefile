.PHONY: install test check

install:  ## the library with TensorFlow and the tools for the tests
	pip install -e ".[tensorflow,test]"

test:  ## the fast tests
	pytest

check:  ## style, spelling, types and imports
	ruff check .
	ruff format --check .
	typos
	.ci/static
