"""Clusters of both: controllers of one kind, a broker of the other.

Partitions have one replica. The controllers are formatted without share.version and
streams.version, which Penstock does not serve yet.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.servers import (
    ROOT,
    SERVER_LOGGING,
    Ports,
    ServerFailed,
    answers,
    java_class,
    properties,
    scratch,
)
from compat.data import Content, expect_content, fill, make_topic
from compat.promises import Promises, expect_promises, make_promises
from compat.report import Report

CONTROLLER, BROKER = 1, 2
CLEAN_CODES = (0, 128 + signal.SIGTERM)  # of Penstock, of a JVM
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
STEP_SECONDS = 0.05
FEATURES_OFF = ("--feature", "share.version=0", "--feature", "streams.version=0")
SINGLE_REPLICAS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
BIN = ROOT / ".venv" / "bin"


class MixedNode:
    """One process of a mixed cluster; it may run several times on its directory."""

    def __init__(self, kind: str, place: Path, settings: Mapping[str, str], port: int) -> None:
        self.kind = kind
        self.port = port
        self.name = f"{kind}-{settings['process.roles']}"
        self.log = place / f"{self.name}.log"
        self.settings = place / f"{self.name}.properties"
        directory = {"log.dirs": str(place / self.name)}
        self.settings.write_text(properties({**settings, **directory}))
        self._process: subprocess.Popen[bytes] | None = None

    def format(self, cluster_id: str, *more: str) -> None:
        arguments = ["format", "-t", cluster_id, "-c", str(self.settings), *more]
        if self.kind == "kafka":
            command = [*java_class("kafka.tools.StorageTool"), *arguments, *FEATURES_OFF]
        else:
            command = [str(BIN / "kafka-storage"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise ServerFailed(f"{self.name} cannot be formatted:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        if self.kind == "kafka":
            flags = ("-Xmx512M",)
            command = java_class(
                "kafka.Kafka", str(self.settings), logging=SERVER_LOGGING, flags=flags
            )
        else:
            override = ["--override", "metrics.listener="]
            command = [str(BIN / "kafka-server-start"), str(self.settings), *override]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(lambda: answers(self.port), f"{self.name} answers nothing", self)

    def stop(self) -> int:
        """Stop cleanly; return the exit code."""
        process = self._process
        assert process is not None, "a node that runs has a process"
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_SECONDS_MAX)
        self._process = None
        return code

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_SECONDS_MAX)
            self._process = None

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-20:])


def wait_for(condition: Callable[[], bool], failure: str, node: MixedNode) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while not condition():
        if time.monotonic() > until:
            raise ServerFailed(f"{failure}:\n{node.tail()}")
        time.sleep(STEP_SECONDS)


@contextmanager
def _cluster(controllers: str, brokers: str) -> Iterator[tuple[MixedNode, MixedNode]]:
    """A controller of one kind and a broker of the other, both running."""
    ports = Ports.free()
    common = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports.controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        **SINGLE_REPLICAS,
    }
    own = {
        "controller": ("CONTROLLER", ports.controller, CONTROLLER),
        "broker": ("PLAINTEXT", ports.client, BROKER),
    }
    nodes = []
    with scratch() as place:
        for role, kind in (("controller", controllers), ("broker", brokers)):
            listener, port, node_id = own[role]
            address = f"{listener}://127.0.0.1:{port}"
            settings = {
                **common,
                "process.roles": role,
                "node.id": str(node_id),
                "listeners": address,
                "advertised.listeners": address,
            }
            if role == "controller":
                del settings["inter.broker.listener.name"]
            nodes.append(MixedNode(kind, place, settings, port))
        controller, broker = nodes
        made = subprocess.run(
            [str(BIN / "kafka-storage"), "random-uuid"], capture_output=True, text=True, check=True
        )
        cluster_id = made.stdout.split()[-1]
        try:
            controller.format(cluster_id, "--standalone")
            broker.format(cluster_id)
            controller.start()
            broker.start()
            yield controller, broker
        finally:
            for each in (broker, controller):
                each.kill()


def _brokers(bootstrap: str) -> list[int]:
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=10)
    return sorted(metadata.brokers)


def _check(report: Report, controllers: str, brokers: str) -> None:
    what = f"{controllers} controls, {brokers} serves"
    content, promises = Content(), Promises()
    with _cluster(controllers, brokers) as (controller, broker):
        bootstrap = f"127.0.0.1:{broker.port}"
        report.expect(_brokers(bootstrap) == [BROKER], f"{what}: the broker is registered")
        fill(bootstrap, content, "first", 200)
        expect_content(report, bootstrap, content, f"{what}: topics and records")
        make_promises(bootstrap, promises, "first")
        expect_promises(report, bootstrap, promises, f"{what}: groups and transactions")
        code = broker.stop()
        report.expect(code in CLEAN_CODES, f"{what}: the broker is let go", broker.tail())
        broker.start()
        make_topic(bootstrap, content, "after-the-return", 3, {})
        expect_content(report, bootstrap, content, f"{what}: all is there after a clean stop")
        broker.kill()
        broker.start()
        expect_content(report, bootstrap, content, f"{what}: all is there after SIGKILL")
        code = controller.stop()
        report.expect(code in CLEAN_CODES, f"{what}: the controller stops", controller.tail())


def check_mixed(report: Report) -> None:
    for controllers, brokers in (("kafka", "penstock"), ("penstock", "kafka")):
        try:
            _check(report, controllers, brokers)
        except ServerFailed as failure:
            report.expect(False, f"{controllers} controls, {brokers} serves", str(failure))
