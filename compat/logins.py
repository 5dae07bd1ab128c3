"""Java's clients and tools that log in to a Penstock node: every mechanism, sessions that end. And
users in directories that Kafka or Penstock has written."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.servers import (
    Ports,
    ServerFailed,
    java_class,
    node_settings,
    properties,
    running,
    scratch,
)
from compat.report import Report
from compat.tools import Tool, expect_tool, has, lacks
from penstock.client.admin.access_values import ScramMechanism, ScramUpsertion
from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import CannotReach
from penstock.config.broker import BrokerConfig
from penstock.formatting import format_directories, new_cluster_id
from penstock.testing.cluster import Cluster, SettingValue

MODULES = "org.apache.kafka.common.security"
PASSWORD = "login-secret"
LIFETIME_MS = 2_000
RECORDS = 4_000
PER_SECOND = 500  # some sessions long
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS: dict[str, SettingValue] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SHORT://127.0.0.1:0",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.short.connections.max.reauth.ms": LIFETIME_MS,
    **{
        f"listener.name.{each}.plain.sasl.jaas.config": (
            f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
        )
        for each in ("sasl", "short")
    },
}
CONFIGS = "kafka.admin.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"
FAILURES = r"ERROR|Exception"


SCRAM = "SCRAM-SHA-512"
TOOL_SECONDS_MAX = 120
# A node reads its users a moment after it opens its listeners.
LOGIN_SECONDS_MAX = 20


def check_logins(report: Report) -> None:
    _check_tools(report)
    _check_directories(report)


def _check_tools(report: Report) -> None:
    with scratch() as place, Cluster(SETTINGS) as cluster:
        with Admin(bootstrap=cluster.bootstrap) as admin:
            for each in (ScramMechanism.SHA_256, ScramMechanism.SHA_512):
                admin.scram.alter([ScramUpsertion("alice", each, PASSWORD)])
        cluster.create_topic("t")
        for tool in _tools(cluster, place):
            expect_tool(report, tool)
        short = next(each for each in cluster.broker.listeners if each.name == "SHORT")
        assert short.logins is not None
        again, expired = short.logins.successful_again, short.logins.expired
        report.expect(
            again > 0 and not expired,
            "a Java producer logs in again before its session ends",
            f"{again} later logins, {expired} connections closed",
        )


def _address(cluster: Cluster, listener: str) -> str:
    return ":".join(map(str, cluster.addresses[listener]))


def _client_file(place: Path, mechanism: str, user: str, password: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path = place / f"{mechanism}-{user}-{password}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={MODULES}.{module} required "
        f'username="{user}" password="{password}";\n'
    )
    return str(path)


def _tools(cluster: Cluster, place: Path) -> Iterator[Tool]:
    sasl = ("--bootstrap-server", _address(cluster, "SASL"))
    for mechanism in MECHANISMS:
        path = _client_file(place, mechanism, "alice", PASSWORD)
        listed = (TOPICS, *sasl, "--command-config", path, "--list")
        yield Tool(f"kafka-topics logs in by {mechanism}", listed, has("^t$"))
        path = _client_file(place, mechanism, "alice", "wrong")
        listed = (TOPICS, *sasl, "--command-config", path, "--list")
        yield Tool(
            f"kafka-topics with a wrong password for {mechanism} is told so",
            listed,
            has("SaslAuthenticationException: Authentication failed"),
            code=1,
        )
    change = ("--alter", "--entity-type", "users", "--entity-name", "guest")
    secret = f"SCRAM-SHA-512=[iterations=8192,password={PASSWORD}]"
    yield Tool(
        "kafka-configs adds a user",
        (CONFIGS, "--bootstrap-server", cluster.bootstrap, *change, "--add-config", secret),
        has("Completed updating config for user guest"),
    )
    path = _client_file(place, "SCRAM-SHA-512", "guest", PASSWORD)
    listed = (TOPICS, *sasl, "--command-config", path, "--list")
    yield Tool("the user of kafka-configs logs in", listed, has("^t$"))
    yield Tool(
        "kafka-configs describes a user",
        (
            *(CONFIGS, "--bootstrap-server", cluster.bootstrap),
            *("--describe", "--entity-type", "users", "--entity-name", "guest"),
        ),
        has("user-principal 'guest' are SCRAM-SHA-512=iterations=8192"),
    )
    yield Tool(
        "kafka-configs removes a user",
        (
            *(CONFIGS, "--bootstrap-server", cluster.bootstrap, *change),
            *("--delete-config", "SCRAM-SHA-512"),
        ),
        has("Completed updating config for user guest"),
    )
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        path = _client_file(place, mechanism, "alice", PASSWORD)
        yield Tool(
            f"kafka-producer-perf-test over sessions of {LIFETIME_MS} ms by {mechanism}",
            (
                *(PERFORMANCE, "--topic", "t", "--num-records", str(RECORDS)),
                *("--record-size", "100", "--throughput", str(PER_SECOND)),
                *("--command-config", path),
                *("--bootstrap-server", _address(cluster, "SHORT")),
            ),
            lambda output: has(f"^{RECORDS} records sent")(output) and lacks(FAILURES)(output),
        )


def _check_directories(report: Report) -> None:
    """Users of a format with --add-scram, and of a running node, are users of the other server."""
    ports, others = Ports.free(), Ports.free()
    changes = _with_logins(ports, others)
    alice, carol = (f"{SCRAM}=[name={name},password={PASSWORD}]" for name in ("alice", "carol"))
    port = others.client
    with scratch() as place:
        data, settings = place / "kafkas", place / "node.properties"
        settings.write_text(properties(node_settings(data, ports, changes)))
        _format_by_kafka(settings, alice)
        with running("penstock", data, ports=ports, config=settings) as server:
            report.expect(_logs_in(port, "alice"), "Penstock knows a user of Kafka's format")
            with Admin(bootstrap=server.bootstrap) as admin:
                admin.scram.alter([ScramUpsertion("bob", ScramMechanism.SHA_512, PASSWORD)])
        with running("kafka", data, ports=ports, changes=changes, clean=False):
            for name in ("alice", "bob"):
                report.expect(_logs_in(port, name), f"Kafka knows {name} after Penstock")
    with scratch() as place:
        data = place / "ours"
        config = BrokerConfig.of(node_settings(data, ports, changes))
        format_directories(config, new_cluster_id(), standalone=True, users=[carol])
        with running("kafka", data, ports=ports, changes=changes, clean=False):
            report.expect(_logs_in(port, "carol"), "Kafka knows a user of Penstock's format")
            report.expect(not _logs_in(port, "carol", "wrong"), "and no other password")


def _with_logins(ports: Ports, others: Ports) -> dict[str, str]:
    listeners = (
        f"PLAINTEXT://127.0.0.1:{ports.client},CONTROLLER://127.0.0.1:{ports.controller},"
        f"SASL://127.0.0.1:{others.client}"
    )
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": SCRAM,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": (
            f"{MODULES}.scram.ScramLoginModule required;"
        ),
    }


def _format_by_kafka(settings: Path, user: str) -> None:
    arguments = ("format", "--standalone", "-t", new_cluster_id(), "-c", str(settings))
    done = subprocess.run(
        [*java_class("kafka.tools.StorageTool"), *arguments, "--add-scram", user],
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise ServerFailed(f"StorageTool failed:\n{done.stdout}{done.stderr}")


def _logs_in(port: int, user: str, password: str = PASSWORD) -> bool:
    """Return whether a user can log in, now or within some seconds."""
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": SCRAM,
        "sasl.jaas.config": (
            f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{password}";'
        ),
    }
    until = time.monotonic() + (LOGIN_SECONDS_MAX if password == PASSWORD else 0)
    while True:
        try:
            with Admin(keys, bootstrap=f"127.0.0.1:{port}") as admin:
                admin.list_topics()
                return True
        except CannotReach:
            if time.monotonic() >= until:
                return False
            time.sleep(0.1)
