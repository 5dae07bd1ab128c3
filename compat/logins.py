"""Java's clients and tools that log in to a Penstock node: every mechanism, sessions that end."""

from collections.abc import Iterator
from pathlib import Path

from bench.servers import scratch
from compat.report import Report
from compat.tools import Tool, expect_tool, has, lacks
from penstock.client.admin.access_values import ScramMechanism, ScramUpsertion
from penstock.client.admin.blocking import Admin
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


def check_logins(report: Report) -> None:
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
