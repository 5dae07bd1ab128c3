"""Kafka's own clients and tools on groups and transactions of a running node.

Every expectation was seen to hold against Apache Kafka itself (PENSTOCK_COMPAT_SELF=kafka).
"""

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import topics
from bench.servers import Ports, scratch
from compat.data import quiet
from compat.directories import node, ourselves
from compat.report import Report
from compat.tools import TOOL_SECONDS_MAX, Tool, expect_tool, has, lacks

LINES = 1000
READ_SECONDS_MAX = 30.0
_TOOLS = "org.apache.kafka.tools"


def _fill(bootstrap: str, topic: str) -> None:
    producer = Producer(quiet({"bootstrap.servers": bootstrap}))
    for number in range(LINES):
        producer.produce(topic, str(number).encode(), partition=0)
    if producer.flush(READ_SECONDS_MAX):
        raise RuntimeError(f"{topic} could not be filled")


def _read_committed(bootstrap: str, topic: str) -> list[int]:
    """Everything up to the end of a topic of one partition, in order."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-{uuid4().hex}",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    found: list[int] = []
    with closing(Consumer(quiet(settings))) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(READ_SECONDS_MAX)) is not None:
            if message.error() is not None:
                return found
            found.append(int(message.value() or b"-1"))
    raise RuntimeError(f"the end of {topic} did not come")


def _group_tools(at: tuple[str, ...], topic: str, protocol: str) -> Iterator[Tool]:
    group = f"{topic}-{protocol}"
    command = (f"{_TOOLS}.consumer.group.ConsumerGroupCommand", *at)
    of_group = ("--group", group)
    yield Tool(
        f"kafka-console-consumer in a group, {protocol} protocol",
        (
            f"{_TOOLS}.consumer.ConsoleConsumer",
            *at,
            "--topic",
            topic,
            *of_group,
            "--from-beginning",
            "--max-messages",
            str(LINES),
            "--timeout-ms",
            "30000",
            "--command-property",
            f"group.protocol={protocol}",
        ),
        has("^0$", f"^{LINES - 1}$", f"Processed a total of {LINES} messages"),
    )
    yield Tool("kafka-consumer-groups --list", (*command, "--list"), has(f"^{group}$"))
    yield Tool(
        f"kafka-consumer-groups --describe, {protocol} protocol",
        (*command, "--describe", *of_group),
        has(rf"{topic}\s+0\s+{LINES}\s+{LINES}\s+0\s"),
    )
    yield Tool(
        f"kafka-consumer-groups --describe --state, {protocol} protocol",
        (*command, "--describe", "--state", *of_group),
        has(rf"{group}\s+\S+.*Empty\s"),
    )
    reset = (*command, "--reset-offsets", *of_group, "--topic", topic)
    yield Tool(
        "kafka-consumer-groups --reset-offsets --dry-run",
        (*reset, "--to-earliest", "--dry-run"),
        has(rf"{group}\s+{topic}\s+0\s+0"),
    )
    yield Tool(
        "kafka-consumer-groups --reset-offsets --execute",
        (*reset, "--shift-by", "-10", "--execute"),
        has(rf"{group}\s+{topic}\s+0\s+{LINES - 10}"),
    )
    yield Tool(
        "kafka-consumer-groups --describe sees the reset",
        (*command, "--describe", *of_group),
        has(rf"{topic}\s+0\s+{LINES - 10}\s+{LINES}\s+10\s"),
    )
    yield Tool(
        "kafka-consumer-groups --delete-offsets",
        (*command, "--delete-offsets", *of_group, "--topic", topic),
        has("Request succeeded for deleting offsets"),
    )
    yield Tool(
        "kafka-consumer-groups --delete",
        (*command, "--delete", *of_group),
        has("Deletion of requested consumer groups .* was successful|Deletion of some"),
    )
    yield Tool("it is gone", (*command, "--list"), lacks(f"^{group}$"))
    yield Tool(
        "kafka-groups --list", (f"{_TOOLS}.GroupsCommand", *at, "--list"), lacks("Exception")
    )


def _client_tools(address: str, topic: str) -> Iterator[Tool]:
    at = ("--bootstrap-server", address)
    yield Tool(
        "kafka-consumer-perf-test",
        (
            f"{_TOOLS}.ConsumerPerformance",
            *at,
            "--topic",
            topic,
            "--messages",
            str(LINES),
            "--timeout",
            "30000",
        ),
        has(rf"{LINES}, \d"),
    )
    yield Tool(
        "kafka-verifiable-producer",
        (f"{_TOOLS}.VerifiableProducer", *at, "--topic", f"{topic}-v", "--max-messages", "500"),
        has(r'"name":"tool_data".*"acked":500|"acked":500'),
    )
    yield Tool(
        "kafka-verifiable-consumer",
        (
            f"{_TOOLS}.VerifiableConsumer",
            *at,
            "--topic",
            f"{topic}-v",
            "--group-id",
            f"{topic}-verifiable",
            "--reset-policy",
            "earliest",
            "--max-messages",
            "500",
        ),
        has('"name":"partitions_assigned"', '"name":"offsets_committed"', '"success":true'),
    )


def _transaction_tools(at: tuple[str, ...], transactional_id: str, topic: str) -> Iterator[Tool]:
    command = (f"{_TOOLS}.TransactionsCommand", *at)
    yield Tool("kafka-transactions list", (*command, "list"), has(transactional_id))
    yield Tool(
        "kafka-transactions describe",
        (*command, "describe", "--transactional-id", transactional_id),
        has(transactional_id, "Ongoing", rf"{topic}-0"),
    )
    yield Tool(
        "kafka-transactions describe-producers",
        (*command, "describe-producers", "--topic", topic, "--partition", "0"),
        has(r"ProducerId\s+ProducerEpoch", r"^\d+\s+\d+"),
    )
    yield Tool(
        "kafka-transactions find-hanging finds nothing that its coordinator knows",
        (*command, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0"),
        lacks(rf"^{topic}\s"),
    )


def _copy(address: str, topic: str, output: str, mode: tuple[str, ...]) -> Tool:
    return Tool(
        f"TransactionalMessageCopier with random aborts {' '.join(mode)}",
        (
            f"{_TOOLS}.TransactionalMessageCopier",
            "--broker-list",
            address,
            "--input-topic",
            topic,
            "--input-partition",
            "0",
            "--output-topic",
            output,
            "--transactional-id",
            f"copier-{output}",
            "--consumer-group",
            f"copiers-{output}",
            "--transaction-size",
            "37",
            "--enable-random-aborts",
            *mode,
        ),
        has('"remaining":"?0"?'),
    )


def check_delivery(report: Report, bootstrap: str | None = None) -> None:
    """Groups and transactions, against a node of our own or whatever runs at `bootstrap`."""
    with scratch() as place:
        if bootstrap:
            _check(report, bootstrap)
            return
        with node(ourselves(), place / "data", Ports.free()) as server:
            _check(report, server.bootstrap)


def _check(report: Report, address: str) -> None:
    topic = f"delivery-{uuid4().hex[:8]}"
    at = ("--bootstrap-server", address)
    topics.create(address, topic, 1)
    topics.create(address, f"{topic}-v", 2)
    _fill(address, topic)
    for protocol in ("classic", "consumer"):
        for tool in _group_tools(at, topic, protocol):
            expect_tool(report, tool)
    for tool in _client_tools(address, topic):
        expect_tool(report, tool)
    for number, mode in enumerate(((), ("--group-mode", "--use-group-metadata"))):
        output = f"{topic}-copy-{number}"
        topics.create(address, output, 1)
        expect_tool(report, _copy(address, topic, output, mode))
        copied = _read_committed(address, output)
        report.expect(
            copied == list(range(LINES)),
            f"every record was copied exactly once {' '.join(mode)}",
            f"{len(copied)} records, {len(set(copied))} different",
        )
    _check_transactions(report, address, at)


def _check_transactions(report: Report, address: str, at: tuple[str, ...]) -> None:
    """With a transaction that stays open meanwhile."""
    transactional_id, topic = f"open-{uuid4().hex[:8]}", f"open-{uuid4().hex[:8]}"
    topics.create(address, topic, 1)
    settings = {"bootstrap.servers": address, "transactional.id": transactional_id}
    producer = Producer(quiet({**settings, "transaction.timeout.ms": TOOL_SECONDS_MAX * 1000}))
    producer.init_transactions(READ_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(READ_SECONDS_MAX)
    for tool in _transaction_tools(at, transactional_id, topic):
        expect_tool(report, tool)
    producer.commit_transaction(READ_SECONDS_MAX)
