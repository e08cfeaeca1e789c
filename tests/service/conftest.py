"""Without the packages of the service there is nothing to test."""

from importlib.util import find_spec

NEEDED = ("fastapi", "uvicorn", "prometheus_client", "httpx2")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]
