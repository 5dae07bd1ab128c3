"""Kafka's sample server.properties starts a Penstock node unchanged."""

from bench.servers import SAMPLE_SETTINGS, Ports, properties, running, scratch
from compat.data import Content, expect_content, fill
from compat.directories import ourselves
from compat.report import Report


def check_sample(report: Report) -> None:
    ports, content = Ports.free(), Content()
    with scratch() as place:
        config = place / "server.properties"
        config.write_text(properties(SAMPLE_SETTINGS))
        listeners = (
            f"PLAINTEXT://127.0.0.1:{ports.client},CONTROLLER://127.0.0.1:{ports.controller}"
        )
        changes = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports.controller}",
            "log.dirs": str(place / "data"),
        }
        with running(
            ourselves(), place / "data", ports=ports, config=config, changes=changes
        ) as server:
            report.expect(True, "the sample settings start a node")
            fill(server.bootstrap, content, "sample", 100)
            expect_content(report, server.bootstrap, content, "and it serves")
