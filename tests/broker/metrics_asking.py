"""A node's port for metrics as a scraper sees it, read by Prometheus' own parser."""

import json
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text

from penstock.testing import Cluster

SETTINGS = {"metrics.listener": "127.0.0.1:0"}
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}

Labels = tuple[tuple[str, str], ...]


class Page:
    """Samples by name and labels."""

    def __init__(self, text: str, *, openmetrics: bool = False) -> None:
        self.text = text
        read: Callable[[str], Iterable[Any]] = read_openmetrics if openmetrics else read_text
        self.kinds: dict[str, str] = {}
        self.values: dict[tuple[str, Labels], float] = {}
        for family in read(text):
            self.kinds[family.name] = family.type
            for sample in family.samples:
                place = (sample.name, tuple(sorted(sample.labels.items())))
                assert place not in self.values, f"{place} is there twice"
                self.values[place] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self.values[name, tuple(sorted(labels.items()))]

    def get(self, name: str, **labels: str) -> float:
        return self.values.get((name, tuple(sorted(labels.items()))), 0.0)

    def has(self, name: str) -> bool:
        return any(each == name for each, _ in self.values)


def get(
    url: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def scrape(cluster: Cluster, query: str = "", headers: Mapping[str, str] | None = None) -> Page:
    status, _, body = get(cluster.metrics_url, f"/metrics{query}", headers)
    assert status == 200, body
    return Page(body.decode(), openmetrics=headers is OPENMETRICS)


def get_json(cluster: Cluster, path: str) -> tuple[int, Any]:
    status, headers, body = get(cluster.metrics_url, path)
    assert headers["Content-Type"] == "application/json"
    return status, json.loads(body)
