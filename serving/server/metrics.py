"""Numbers about a server, as Prometheus reads them."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import prometheus_client

from serving.server import batching

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = tuple(2**power for power in range(17))


class Metrics:
    """Counters of one server; threads may count at once.

    Args:
        num_waiting: returns the requests that wait.
        version: returns the number of the version in service, 0 for none.
    """

    def __init__(self, num_waiting: Callable[[], int], version: Callable[[], int]):
        self._registry = registry = prometheus_client.CollectorRegistry()
        for collector in (
            prometheus_client.ProcessCollector,
            prometheus_client.GCCollector,
        ):
            collector(registry=registry)

        def gauge(name, text, read):
            prometheus_client.Gauge(name, text, registry=registry).set_function(read)

        def histogram(name, text, buckets, labels=()):
            return prometheus_client.Histogram(
                name, text, labels, buckets=buckets, registry=registry
            )

        gauge("bert_waiting_requests", "Requests that wait", num_waiting)
        gauge("bert_version", "Version in service, 0 for none", version)
        self._requests = prometheus_client.Counter(
            "bert_requests", "Requests", ["path", "code"], registry=registry
        )
        self._seconds = histogram(
            "bert_request_seconds", "Seconds of a request", _SECONDS, ["path"]
        )
        self._queue = histogram(
            "bert_queue_seconds", "Seconds that a request waited", _SECONDS
        )
        self._labels = prometheus_client.Counter(
            "bert_predictions", "Predictions", ["label"], registry=registry
        )
        self._names: Sequence[str] = ()
        self._by_label: dict[bytes, Any] = {}
        self._rows = histogram("bert_batch_rows", "Rows computed at once", _SIZES)
        self._tokens = histogram(
            "bert_batch_tokens", "Tokens computed at once, padding included", _SIZES
        )

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """Counts an answered request; `path` is a kind of path, one of a few."""
        self._requests.labels(path, str(int(code))).inc()
        self._seconds.labels(path).observe(seconds)

    def count_labels(self, names: Sequence[str], outputs: Mapping[str, Any]) -> None:
        """Counts predictions by `label` of outputs, as far as these are names."""
        if "label" not in outputs:
            return
        if self._names != names:  # all at 0 before, so that a rate has a first value
            self._names = names
            self._by_label = {n.encode(): self._labels.labels(n) for n in names}
        for label, count in collections.Counter(outputs["label"].tolist()).items():
            if label in self._by_label:
                self._by_label[label].inc(count)

    def count_batch(self, works: Sequence[batching.Work]) -> None:
        """Counts requests that were computed together."""
        rows = sum(work.size.rows for work in works)
        self._rows.observe(rows)
        self._tokens.observe(rows * max(work.size.longest for work in works))
        for work in works:
            self._queue.observe(work.seconds[0])

    def text(self) -> bytes:
        """All numbers in the text format of Prometheus."""
        return prometheus_client.generate_latest(self._registry)
