.PHONY: install test check site

install:  ## the library with PyTorch and what the tests need (`.[dev]`: everything)
	pip install -e ".[torch,test]"

test:  ## the fast tests
	pytest

check:  ## style, spelling, types and imports
	ruff check .
	ruff format --check .
	typos
	.ci/static

site:  ## the documentation, as pages of build/site (pip install -e ".[docs]")
	mkdocs build --strict
