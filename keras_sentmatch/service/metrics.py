"""What the service counts, as Prometheus reads it."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU seconds, open files
        PlatformCollector(registry=self.registry)
        at: Any = {"registry": self.registry}
        self.requests = Counter("sentmatch_requests", "Requests.", ("path", "status"), **at)
        self.seconds = Histogram(
            "sentmatch_request_seconds", "From headers to answer.", ("path",), buckets=SECONDS, **at
        )
        self.pairs = Counter("sentmatch_pairs", "Pairs scored.", ("run",), **at)
        self.batch_pairs = Histogram(
            "sentmatch_batch_pairs", "Pairs scored together.", ("run",), buckets=PAIRS, **at
        )
        self.batch_requests = Histogram(
            "sentmatch_batch_requests", "Requests answered together.", ("run",), buckets=PAIRS, **at
        )
        self.batch_seconds = Histogram(
            "sentmatch_batch_seconds", "Scoring a batch.", ("run",), buckets=SECONDS, **at
        )
        self.waiting = Gauge("sentmatch_waiting_pairs", "Pairs that wait.", ("run",), **at)
        self.reloads = Counter("sentmatch_reloads", "Runs loaded again.", ("run", "result"), **at)

    def batch(self, run: str, requests: int, pairs: int, seconds: float) -> None:
        """Counts a batch of scores."""
        self.pairs.labels(run).inc(pairs)
        self.batch_pairs.labels(run).observe(pairs)
        self.batch_requests.labels(run).observe(requests)
        self.batch_seconds.labels(run).observe(seconds)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)
