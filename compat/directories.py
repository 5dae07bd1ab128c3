"""A directory changes hands between Apache Kafka and Penstock, and nothing is lost.

The ports stay with the directory, because the metadata log holds the controller's address.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.servers import Ports, Server, node_settings, properties, running, scratch, stand_in
from compat.compacted import check_compacted
from compat.data import Content, expect_content, fill
from compat.promises import Promises, expect_promises, make_promises
from compat.report import Report

SELF_VARIABLE = "PENSTOCK_COMPAT_SELF"


def ourselves() -> str:
    return stand_in("penstock", SELF_VARIABLE)


@contextmanager
def node(
    kind: str,
    data: Path,
    ports: Ports,
    *,
    clean: bool = True,
    changes: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Either server with the same settings, so that they can follow one another."""
    config = data.parent / f"{data.name}-node.properties"
    data.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(properties(node_settings(data, ports, changes or {})))
    with running(kind, data, ports=ports, config=config, changes=changes, clean=clean) as server:
        yield server


def _kafka_first(report: Report, place: Path, *, clean: bool) -> None:
    how = "after a clean stop" if clean else "after SIGKILL"
    data, ports, content = place / f"kafka-{clean}", Ports.free(), Content()
    promises = Promises()
    with node("kafka", data, ports, clean=clean) as server:
        fill(server.bootstrap, content, "first")
        make_promises(server.bootstrap, promises, "first")
    with node(ourselves(), data, ports) as server:
        expect_content(report, server.bootstrap, content, f"Penstock opens Kafka's, {how}")
        expect_promises(report, server.bootstrap, promises, f"Penstock opens Kafka's, {how}")
        fill(server.bootstrap, content, "second", 500)
        make_promises(server.bootstrap, promises, "second")
    with node("kafka", data, ports) as server:
        expect_content(report, server.bootstrap, content, f"Kafka has it back, {how}")
        expect_promises(report, server.bootstrap, promises, f"Kafka has it back, {how}")


def _ours_first(report: Report, place: Path, *, clean: bool) -> None:
    how = "after a clean stop" if clean else "after SIGKILL"
    data, ports, content = place / f"ours-{clean}", Ports.free(), Content()
    promises = Promises()
    with node(ourselves(), data, ports, clean=clean) as server:
        fill(server.bootstrap, content, "first")
        make_promises(server.bootstrap, promises, "first")
    with node("kafka", data, ports) as server:
        expect_content(report, server.bootstrap, content, f"Kafka opens Penstock's, {how}")
        expect_promises(report, server.bootstrap, promises, f"Kafka opens Penstock's, {how}")


def check_directories(report: Report) -> None:
    with scratch() as place:
        for clean in (True, False):
            _kafka_first(report, place, clean=clean)
        for clean in (True, False):
            _ours_first(report, place, clean=clean)
        for clean in (True, False):
            check_compacted(report, place, clean=clean)
