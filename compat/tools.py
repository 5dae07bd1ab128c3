"""Kafka's own Java tools against a running node: each must say something meaningful.

Every expectation was seen to hold against Apache Kafka itself (PENSTOCK_COMPAT_SELF=kafka).
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from bench.servers import Ports, java_class, scratch
from compat.directories import node, ourselves
from compat.report import Report

TOOL_SECONDS_MAX = 120
LINES = [f"line-{number}" for number in range(20)]


@dataclass(frozen=True, slots=True)
class Tool:
    """One call of one tool, and what its output must show."""

    fact: str
    arguments: tuple[str, ...]
    holds: Callable[[str], bool]
    given: str = ""
    code: int = 0


def has(*patterns: str) -> Callable[[str], bool]:
    return lambda output: all(re.search(pattern, output, re.MULTILINE) for pattern in patterns)


def lacks(pattern: str) -> Callable[[str], bool]:
    return lambda output: re.search(pattern, output, re.MULTILINE) is None


def run_tool(tool: Tool) -> tuple[int, str]:
    done = subprocess.run(
        java_class(*tool.arguments),
        input=tool.given,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def expect_tool(report: Report, tool: Tool) -> None:
    try:
        code, output = run_tool(tool)
    except subprocess.TimeoutExpired:
        report.expect(False, tool.fact, f"no end after {TOOL_SECONDS_MAX} s")
    else:
        good = tool.holds(output) and code == tool.code
        report.expect(good, tool.fact, f"exit code {code}\n{output}")


def _topic_tools(at: tuple[str, ...], topic: str) -> Iterator[Tool]:
    command = ("org.apache.kafka.tools.TopicCommand", *at)
    yield Tool(
        "kafka-topics --create",
        (
            *command,
            "--create",
            "--topic",
            topic,
            "--partitions",
            "3",
            "--config",
            "retention.ms=100000000",
        ),
        has(f"Created topic {topic}"),
    )
    yield Tool("kafka-topics --list", (*command, "--list"), has(f"^{topic}$"))
    yield Tool(
        "kafka-topics --describe",
        (*command, "--describe", "--topic", topic),
        has("PartitionCount: 3", "retention.ms=100000000", r"Partition: 2\s+Leader: \d"),
    )
    yield Tool(
        "kafka-topics --alter",
        (*command, "--alter", "--topic", topic, "--partitions", "4"),
        lacks("Exception|Error"),
    )
    yield Tool(
        "kafka-topics --describe sees the new partition",
        (*command, "--describe", "--topic", topic),
        has("PartitionCount: 4"),
    )
    yield Tool(
        "kafka-topics --create again is refused",
        (*command, "--create", "--topic", topic),
        has("already exists"),
        code=1,
    )


def _data_tools(at: tuple[str, ...], topic: str, place: Path) -> Iterator[Tool]:
    one = f"{topic}-one"
    topics = "org.apache.kafka.tools.TopicCommand"
    create = (topics, *at, "--create", "--topic", one, "--partitions", "1")
    yield Tool("kafka-topics --create for data", create, has("Created topic"))
    yield Tool(
        "kafka-console-producer",
        ("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", one),
        lacks("ERROR|Exception"),
        "".join(f"{line}\n" for line in LINES),
    )
    consumer = ("org.apache.kafka.tools.consumer.ConsoleConsumer", *at, "--topic", one)
    yield Tool(
        "kafka-console-consumer --partition --offset earliest",
        (
            *consumer,
            "--partition",
            "0",
            "--offset",
            "earliest",
            "--max-messages",
            "20",
            "--timeout-ms",
            "20000",
        ),
        lambda output: [text for text in output.splitlines() if text in LINES] == LINES,
    )
    yield Tool(
        "kafka-console-consumer --partition --offset 15",
        (
            *consumer,
            "--partition",
            "0",
            "--offset",
            "15",
            "--max-messages",
            "5",
            "--timeout-ms",
            "20000",
        ),
        lambda output: [text for text in output.splitlines() if text in LINES] == LINES[15:],
    )
    yield Tool(
        "kafka-get-offsets",
        ("org.apache.kafka.tools.GetOffsetShell", *at, "--topic", one, "--time", "latest"),
        has(f"^{one}:0:20$"),
    )
    wanted = {"partitions": [{"topic": one, "partition": 0, "offset": 5}], "version": 1}
    offsets = place / "delete-records.json"
    offsets.write_text(json.dumps(wanted))
    yield Tool(
        "kafka-delete-records",
        ("org.apache.kafka.tools.DeleteRecordsCommand", *at, "--offset-json-file", str(offsets)),
        has(rf"partition: {one}-0\s+low_watermark: 5"),
    )
    yield Tool(
        "kafka-get-offsets --time earliest sees it",
        ("org.apache.kafka.tools.GetOffsetShell", *at, "--topic", one, "--time", "earliest"),
        has(f"^{one}:0:5$"),
    )
    performance = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    yield Tool(
        "kafka-producer-perf-test",
        ("org.apache.kafka.tools.ProducerPerformance", "--topic", one, *performance, *at),
        has("20000 records sent", "99.9th"),
    )


def _config_tools(at: tuple[str, ...], topic: str) -> Iterator[Tool]:
    command = ("kafka.admin.ConfigCommand", *at)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    yield Tool(
        "kafka-configs --alter a topic",
        (*command, "--alter", *entity, "--add-config", "max.message.bytes=123456"),
        has("Completed updating config for topic"),
    )
    yield Tool(
        "kafka-configs --describe a topic",
        (*command, "--describe", *entity),
        has("max.message.bytes=123456"),
    )
    yield Tool(
        "kafka-configs --delete-config of a topic",
        (*command, "--alter", *entity, "--delete-config", "max.message.bytes"),
        has("Completed updating config for topic"),
    )
    yield Tool(
        "kafka-configs --describe shows it gone",
        (*command, "--describe", *entity),
        lacks("max.message.bytes=123456"),
    )
    broker = ("--entity-type", "brokers", "--entity-default")
    yield Tool(
        "kafka-configs --alter all brokers",
        (*command, "--alter", *broker, "--add-config", "log.cleaner.threads=2"),
        has("Completed updating default config for brokers"),
    )
    yield Tool(
        "kafka-configs --describe all brokers",
        (*command, "--describe", *broker),
        has("log.cleaner.threads=2"),
    )
    every = ("--entity-type", "brokers", "--all")
    yield Tool(
        "kafka-configs --describe --all of a broker",
        (*command, "--describe", *every),
        has("num.io.threads=", "log.segment.bytes="),
    )


def _cluster_tools(at: tuple[str, ...], topic: str) -> Iterator[Tool]:
    tools = "org.apache.kafka.tools"
    yield Tool(
        "kafka-broker-api-versions",
        (f"{tools}.BrokerApiVersionsCommand", *at),
        has(r"Produce\(0\): 0 to \d+ \[usable", r"Fetch\(1\):", r"ApiVersions\(18\):"),
    )
    yield Tool(
        "kafka-metadata-quorum describe --status",
        (f"{tools}.MetadataQuorumCommand", *at, "describe", "--status"),
        has(r"ClusterId:\s+\S+", r"LeaderId:\s+\d+", r"CurrentVoters:\s+\[.*\d"),
    )
    yield Tool(
        "kafka-metadata-quorum describe --replication",
        (f"{tools}.MetadataQuorumCommand", *at, "describe", "--replication"),
        has(r"NodeId\s+DirectoryId\s+LogEndOffset", r"^\d+\s.*Leader"),
    )
    yield Tool(
        "kafka-log-dirs --describe",
        (f"{tools}.LogDirsCommand", *at, "--describe"),
        has('"logDirs"', f'"partition":"{topic}-0"'),
    )
    yield Tool(
        "kafka-features describe",
        (f"{tools}.FeatureCommand", *at, "describe"),
        has(r"Feature: metadata.version\s", r"Feature: transaction.version\s", "FinalizedVersion"),
    )
    yield Tool(
        "kafka-cluster cluster-id",
        (f"{tools}.ClusterTool", "cluster-id", *at),
        has(r"Cluster ID: [\w-]{22}"),
    )
    yield Tool(
        "kafka-cluster list-endpoints",
        (f"{tools}.ClusterTool", "list-endpoints", *at),
        has(r"ID\s+HOST\s+PORT", r"^\d+\s+\S+\s+\d+"),
    )
    command = (f"{tools}.TopicCommand", *at)
    yield Tool(
        "kafka-topics --delete",
        (*command, "--delete", "--topic", topic),
        lacks("Exception|Error"),
    )
    yield Tool("kafka-topics --list shows it gone", (*command, "--list"), lacks(f"^{topic}$"))


@contextmanager
def _target(bootstrap: str | None, place: Path) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    with node(ourselves(), place / "data", Ports.free()) as server:
        yield server.bootstrap


def check_tools(report: Report, bootstrap: str | None = None) -> None:
    """Against a node of our own, or against whatever runs at `bootstrap`."""
    topic = f"tools-{uuid4().hex[:8]}"
    with scratch() as place, _target(bootstrap, place) as address:
        at = ("--bootstrap-server", address)
        for tool in (
            *_topic_tools(at, topic),
            *_data_tools(at, topic, place),
            *_config_tools(at, topic),
            *_cluster_tools(at, topic),
        ):
            expect_tool(report, tool)
