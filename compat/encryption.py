"""Java's clients and tools over TLS to a Penstock node, whose stores keytool has written."""

from collections.abc import Iterator
from pathlib import Path

from bench.servers import scratch
from compat.report import Report
from compat.security import PASSWORD, Keys
from compat.tools import Tool, expect_tool, has, lacks
from penstock.testing.cluster import Cluster, SettingValue

CONFIGS = "kafka.admin.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
RECORDS = 20_000
FAILURES = r"ERROR|Exception"
LOCATION = "listener.name.mtls.ssl.keystore.location"


def check_encryption(report: Report) -> None:
    with scratch() as place:
        keys = Keys(place / "keys")
        with Cluster(_settings(keys)) as cluster:
            cluster.create_topic("t")
            for tool in _tools(cluster, keys):
                expect_tool(report, tool)


def _settings(keys: Keys) -> dict[str, SettingValue]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0,MTLS://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MTLS:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.mtls.ssl.client.auth": "required",
        "ssl.keystore.location": keys.path("server.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": keys.path("trust.jks"),
        "ssl.truststore.password": PASSWORD,
    }


def _client_file(keys: Keys, name: str, *, shows: bool = False, **more: str) -> str:
    path = Path(keys.path(f"{name}.properties"))
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": keys.path("trust.jks"),
        "ssl.truststore.password": PASSWORD,
        **{key.replace("_", "."): text for key, text in more.items()},
    }
    if shows:
        properties["ssl.keystore.location"] = keys.path("client.p12")
        properties["ssl.keystore.password"] = PASSWORD
    path.write_text("".join(f"{key}={text}\n" for key, text in properties.items()))
    return str(path)


def _tools(cluster: Cluster, keys: Keys) -> Iterator[Tool]:
    ssl, mutual = (
        ("--bootstrap-server", f"localhost:{cluster.addresses[name][1]}")
        for name in ("SSL", "MTLS")
    )
    plain = _client_file(keys, "plain")
    shown = _client_file(keys, "shown", shows=True)
    for version in ("TLSv1.2", "TLSv1.3"):
        path = _client_file(keys, version, ssl_enabled_protocols=version)
        listed = (TOPICS, *ssl, "--command-config", path, "--list")
        yield Tool(f"kafka-topics over {version}", listed, has("^t$"))
    listed = (TOPICS, *mutual, "--command-config", shown, "--list")
    yield Tool("kafka-topics with a certificate", listed, has("^t$"))
    listed = (TOPICS, *mutual, "--command-config", plain, "--list")
    yield Tool("kafka-topics without a certificate fails", listed, has("SslAuth"), code=1)
    for name, at, path in (("TLS", ssl, plain), ("mutual TLS", mutual, shown)):
        yield Tool(
            f"kafka-producer-perf-test over {name}",
            (
                *(PERFORMANCE, "--topic", "t", "--num-records", str(RECORDS)),
                *("--record-size", "1000", "--throughput", "-1"),
                *("--command-config", path, *at),
            ),
            lambda output: has(f"^{RECORDS} records sent")(output) and lacks(FAILURES)(output),
        )
    yield Tool(
        "kafka-console-consumer over mutual TLS",
        (
            *(CONSUMER, *mutual, "--command-config", shown, "--topic", "t"),
            *("--from-beginning", "--max-messages", str(2 * RECORDS)),
        ),
        has(f"Processed a total of {2 * RECORDS} messages"),
    )
    yield Tool(
        "kafka-configs has a broker read its key store again",
        (
            *(CONFIGS, *ssl, "--command-config", plain, "--alter", "--entity-type", "brokers"),
            *("--entity-name", "1", "--add-config", f"{LOCATION}={keys.path('server.p12')}"),
        ),
        has("Completed updating config for broker 1"),
    )
