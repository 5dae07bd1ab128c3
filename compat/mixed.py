"""Clusters of both: controllers of one kind, a broker of the other, or a broker of each.

With a broker of each, partitions have a replica on both, and each broker leads in turn. The
controllers are formatted without share.version and streams.version, which Penstock does not serve
yet.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
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
from compat.data import Content, expect_content, fill, make_topic, produce
from compat.promises import Promises, expect_promises, make_promises
from compat.report import Report

CONTROLLER, BROKER, SECOND_BROKER = 1, 2, 3
IN_SYNC_SECONDS_MAX = 60.0
CLEAN_CODES = (0, 128 + signal.SIGTERM)  # of Penstock, of a JVM
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
STEP_SECONDS = 0.05
FEATURES_OFF = ("--feature", "share.version=0", "--feature", "streams.version=0")


def _replication(factor: int) -> dict[str, str]:
    return {
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
    }


# Nodes log in to controllers by PLAIN, brokers to each other by SCRAM, again after some seconds.
LOGIN_SECONDS = 5
LOGIN_USER = "SCRAM-SHA-512=[name=broker,password=broker-secret]"
MODULES = "org.apache.kafka.common.security"
NODE_PLAIN = (
    f'{MODULES}.plain.PlainLoginModule required username="node" password="node-secret" '
    'user_node="node-secret";'
)
LOGINS = {
    "listener.security.protocol.map": (
        "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "INTERNAL",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": NODE_PLAIN,
    "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.internal.scram-sha-512.sasl.jaas.config": (
        f'{MODULES}.scram.ScramLoginModule required username="broker" password="broker-secret";'
    ),
    "connections.max.reauth.ms": str(LOGIN_SECONDS * 1000),
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
def _cluster(
    controllers: str, *brokers: str, logins: bool = False
) -> Iterator[tuple[MixedNode, ...]]:
    """A controller of one kind and brokers, all running; the controller comes first. With `logins`
    the nodes log in to each other, on a listener of their own."""
    ports = [each.client for each in (Ports.free() for _ in (controllers, *brokers))]
    common = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[0]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        **_replication(len(brokers)),
        **(LOGINS if logins else {}),
    }
    internal = [Ports.free().client for _ in ports]
    nodes = []
    with scratch() as place:
        for offset, kind in enumerate((controllers, *brokers)):
            role = "broker" if offset else "controller"
            listener = "PLAINTEXT" if offset else "CONTROLLER"
            address = f"{listener}://127.0.0.1:{ports[offset]}"
            if logins and role == "broker":
                address += f",INTERNAL://127.0.0.1:{internal[offset]}"
            settings = {
                **common,
                "process.roles": role,
                "node.id": str(CONTROLLER + offset),
                "listeners": address,
                "advertised.listeners": address,
            }
            if role == "controller":
                del settings["inter.broker.listener.name"]
            nodes.append(MixedNode(kind, place, settings, ports[offset]))
        controller, *others = nodes
        made = subprocess.run(
            [str(BIN / "kafka-storage"), "random-uuid"], capture_output=True, text=True, check=True
        )
        cluster_id = made.stdout.split()[-1]
        try:
            users = ("--add-scram", LOGIN_USER) if logins else ()
            controller.format(cluster_id, "--standalone", *users)
            for each in others:
                each.format(cluster_id)
            for each in nodes:
                each.start()
            yield tuple(nodes)
        finally:
            for each in reversed(nodes):
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


def _out_of_sync(bootstrap: str) -> list[str]:
    """Return the partitions that lack a leader or a replica in sync."""
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=10)
    return [
        f"{topic.topic}-{number} has {partition.isrs} of {partition.replicas}"
        for topic in metadata.topics.values()
        for number, partition in topic.partitions.items()
        if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
    ]


def _leaders(bootstrap: str, content: Content) -> set[int]:
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=10)
    return {
        partition.leader
        for name in content.partitions
        for partition in metadata.topics[name].partitions.values()
    }


def _leads_all(bootstrap: str, content: Content, node_id: int) -> bool:
    return _leaders(bootstrap, content) == {node_id}


def _check_replicas(report: Report, controllers: str) -> None:
    """Partitions are copied both ways, and survive the loss of either broker."""
    what = f"{controllers} controls, both serve"
    content, promises = Content(), Promises()
    with _cluster(controllers, "penstock", "kafka") as (_, *brokers):
        both = ",".join(f"127.0.0.1:{each.port}" for each in brokers)
        wait_for(lambda: len(_brokers(both)) == 2, f"{what}: two brokers", brokers[0])
        fill(both, content, "first", 200)
        expect_content(report, both, content, f"{what}: topics and records")
        report.expect(
            _leaders(both, content) == {BROKER, SECOND_BROKER}, f"{what}: either one leads"
        )
        make_promises(both, promises, "first")
        expect_promises(report, both, promises, f"{what}: groups and transactions")
        for lost, left in (brokers, reversed(brokers)):
            alone = f"127.0.0.1:{left.port}"
            wait_for(lambda: not _out_of_sync(both), f"{what}: all replicas in sync", left)
            report.expect(True, f"{what}: all replicas are in sync")
            lost.kill()
            node_id = BROKER + brokers.index(left)
            wait_for(
                partial(_leads_all, alone, content, node_id),
                f"{what}: {left.kind} leads everything",
                left,
            )
            without = f"{what}: without the broker of {lost.kind}"
            expect_content(report, alone, content, without)
            expect_promises(report, alone, promises, without)
            name = next(each for each in content.partitions if each.endswith("-zstd"))
            produce(alone, content, name, 100, codec="zstd", chance=random.Random(lost.kind))
            lost.start()
        wait_for(lambda: not _out_of_sync(both), f"{what}: all replicas in sync again", brokers[0])
        expect_content(report, both, content, f"{what}: at the end")


def _check_logins(report: Report, controllers: str) -> None:
    """Nodes of both kinds log in to each other, and again while records are copied."""
    what = f"{controllers} controls, both serve, with logins"
    content = Content()
    with _cluster(controllers, "penstock", "kafka", logins=True) as (_, *brokers):
        both = ",".join(f"127.0.0.1:{each.port}" for each in brokers)
        wait_for(lambda: len(_brokers(both)) == 2, f"{what}: two brokers", brokers[0])
        fill(both, content, "first", 100)
        until = time.monotonic() + 3 * LOGIN_SECONDS
        name = next(each for each in content.partitions if each.endswith("-zstd"))
        chance = random.Random(controllers)
        while time.monotonic() < until:
            produce(both, content, name, 20, codec="zstd", chance=chance)
        expect_content(report, both, content, f"{what}: topics and records")
        wait_for(lambda: not _out_of_sync(both), f"{what}: all replicas in sync", brokers[0])
        report.expect(True, f"{what}: all replicas are in sync after some sessions")
        log = brokers[0].log.read_text(errors="replace")
        report.expect("login" not in log, f"{what}: no login has failed", log[-2_000:])


def check_mixed(report: Report) -> None:
    for controllers, brokers in (("kafka", "penstock"), ("penstock", "kafka")):
        try:
            _check(report, controllers, brokers)
        except ServerFailed as failure:
            report.expect(False, f"{controllers} controls, {brokers} serves", str(failure))
    for controllers in ("kafka", "penstock"):
        try:
            _check_replicas(report, controllers)
        except ServerFailed as failure:
            report.expect(False, f"{controllers} controls, both serve", str(failure))
    for controllers in ("kafka", "penstock"):
        try:
            _check_logins(report, controllers)
        except ServerFailed as failure:
            report.expect(False, f"{controllers} controls, with logins", str(failure))
