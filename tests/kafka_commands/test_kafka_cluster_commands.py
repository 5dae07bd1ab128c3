"""The smaller commands: offsets, records, directories, versions, quorum, elections, moves."""

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_running import Node, ran


def filled(node: Node, topic: str, count: int = 5) -> None:
    hasty = ("--timeout", "0", "--command-property", "enable.idempotence=false")
    node.done("console-producer", "--topic", topic, *hasty, stdin=b"x\n" * count)


def written(path: Path, value: object) -> str:
    path.write_text(json.dumps(value))
    return str(path)


# -- kafka-get-offsets


@pytest.mark.parametrize(
    ("time", "offset"), [("latest", 5), ("-1", 5), ("earliest", 0), ("-2", 0), ("max-timestamp", 4)]
)
def test_offsets_are_lines_with_colons(node: Node, topic: str, time: str, offset: int) -> None:
    filled(node, topic)
    found = node.done("get-offsets", "--topic", topic, "--time", time)
    if time == "max-timestamp":
        assert re.fullmatch(rf"{topic}:0:\d\n", found.out)
    else:
        assert found.out == f"{topic}:0:{offset}\n"


@pytest.mark.parametrize(("rule", "partitions"), [(":1", [1]), (":0-2", [0, 1]), (":1-", [1, 2])])
def test_partitions_are_chosen_by_rules(
    node: Node, name: str, rule: str, partitions: list[int]
) -> None:
    node.done("topics", "--create", "--topic", name, "--partitions", "3")
    found = node.done("get-offsets", "--topic-partitions", name + rule)
    assert found.lines == [f"{name}:{number}:0" for number in partitions]


def test_a_timestamp_after_all_records_has_no_offset(node: Node, topic: str) -> None:
    assert node.done("get-offsets", "--topic", topic, "--time", str(2**50)).out == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--time", "x"), "Error occurred: Malformed time argument x."),
        (("--topic", "no-such"), "Error occurred: Could not match any topic-partitions"),
        (("--topic", "a", "--topic-partitions", "b"), "Error occurred: --topic-partitions cannot"),
        (("--partitions", "x"), "Error occurred: --partitions expects a comma separated list"),
    ],
)
def test_offsets_of_nothing_are_refused(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("get-offsets", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)


# -- kafka-delete-records


def test_records_are_deleted(node: Node, topic: str, tmp_path: Path) -> None:
    filled(node, topic)
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}
    path = written(tmp_path / "records.json", wanted)
    assert node.done("delete-records", "--offset-json-file", path).lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {topic}-0\tlow_watermark: 3",
    ]
    assert node.done("get-offsets", "--topic", topic, "--time", "earliest").out == f"{topic}:0:3\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"version": 2}, "Not supported version field value 2"),
        ({"version": 1}, "Missing partitions field"),
        ({"partitions": [{"topic": "t"}]}, "is not topic and partition"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "offset": 1}] * 2},
            "Offset json file contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_a_list_of_records_that_cannot_be_is_refused(
    node: Node, tmp_path: Path, content: object, complaint: str
) -> None:
    found = node.ran("delete-records", "--offset-json-file", written(tmp_path / "x.json", content))
    assert found.code == 1 and complaint in found.err


# -- kafka-log-dirs, kafka-cluster, kafka-broker-api-versions, kafka-metadata-quorum


def test_directories_are_a_line_of_json(node: Node, topic: str) -> None:
    first, second, third = node.done("log-dirs", "--describe", "--topic-list", topic).lines
    assert first == "Querying brokers for log directories information"
    assert second == "Received log directory information from brokers 1"
    told = json.loads(third)
    assert told["version"] == 1
    (broker,) = told["brokers"]
    (directory,) = broker["logDirs"]
    assert broker["broker"] == 1 and directory["error"] is None
    assert directory["partitions"] == [
        {"partition": f"{topic}-0", "size": 0, "offsetLag": 0, "isFuture": False}
    ]


def test_a_broker_that_is_not_there_has_no_directories(node: Node) -> None:
    found = node.ran("log-dirs", "--describe", "--broker-list", "7")
    assert found.code == 1
    assert found.complaint == (
        "ERROR: The given brokers do not exist from --broker-list: 7. Current existent brokers: 1"
    )


def test_the_cluster_has_an_id(node: Node) -> None:
    found = ran("cluster", "cluster-id", "--bootstrap-server", node.bootstrap)
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", found.out)


def test_endpoints_are_a_table(node: Node) -> None:
    heads, row = ran("cluster", "list-endpoints", "-b", node.bootstrap).lines
    host, _, port = node.bootstrap.partition(":")
    assert heads.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert row.split() == ["1", host, port, "null", "unfenced", "broker"]


def test_a_controller_is_no_way_in(node: Node) -> None:
    found = ran("cluster", "cluster-id", "--bootstrap-controller", node.bootstrap)
    assert found.code == 1 and found.complaint.startswith(
        "--bootstrap-controller is not taken here"
    )


@pytest.mark.parametrize("name", ["acls", "cluster cluster-id", "configs", "metadata-quorum"])
def test_the_help_tells_that_a_controller_is_no_way_in(name: str) -> None:
    found = ran(*name.split(), "--help")
    assert "Rejected: a broker passes" in " ".join(f"{found.out} {found.err}".split())


def test_every_api_is_a_line(node: Node) -> None:
    first, *lines, last = node.done("broker-api-versions").lines
    assert first == f"{node.bootstrap} (id: 1 rack: null isFenced: false) -> ("
    assert lines[0] == "\tProduce(0): 0 to 13 [usable: 13]," and last == ")"
    assert all(
        re.match(r"\t\w+\(\d+\): (UNSUPPORTED|\d+( to \d+)? \[usable: \d+\])", x) for x in lines
    )


def test_the_quorum_is_described(node: Node) -> None:
    at = ("metadata-quorum", "--bootstrap-server", node.bootstrap, "describe")
    status = ran(*at, "--status").lines
    assert [line.partition(":")[0] for line in status] == [
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    ]
    assert status[1] == "LeaderId:               1"
    heads, row = ran(*at, "--replication").lines
    assert heads.split()[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    assert heads.split()[4:] == ["LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"]
    assert row.split()[0] == "1" and row.split()[-1] == "Leader"


# -- kafka-leader-election, kafka-reassign-partitions


def test_a_leader_that_leads_need_not_be_elected(node: Node, topic: str) -> None:
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    found = node.done("leader-election", *election)
    assert found.out == f"Valid replica already elected for partitions {topic}-0\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--topic", "t"), "Missing required option(s): election-type"),
        (("--election-type", "x", "--all-topic-partitions"), "Cannot parse argument 'x' of option"),
        (("--election-type", "unclean"), "One and only one of the following options is required"),
        (("--election-type", "unclean", "--topic", "t"), "Missing required option(s): partition"),
    ],
)
def test_an_election_that_cannot_be_is_refused(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("leader-election", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)


def test_no_move_is_under_way(node: Node) -> None:
    assert node.done("reassign-partitions", "--list").out == "No partition reassignments found.\n"


def test_a_plan_is_generated(node: Node, topic: str, tmp_path: Path) -> None:
    path = written(tmp_path / "topics.json", {"topics": [{"topic": topic}], "version": 1})
    found = node.done(
        "reassign-partitions",
        "--generate",
        "--topics-to-move-json-file",
        path,
        "--broker-list",
        "1",
    )
    assert found.lines[0] == "Current partition replica assignment"
    assert found.lines[3] == "Proposed partition reassignment configuration"
    partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    assert json.loads(found.lines[4]) == {"version": 1, "partitions": [partition]}


def test_what_is_in_its_place_is_verified(node: Node, topic: str, tmp_path: Path) -> None:
    plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": [1]}], "version": 1}
    path = written(tmp_path / "plan.json", plan)
    at = ("reassign-partitions", "--reassignment-json-file", path)
    begun = node.done(at[0], "--execute", *at[1:])
    assert begun.lines[-1] == f"Successfully started partition reassignment for {topic}-0"
    assert node.done(at[0], "--verify", *at[1:]).lines == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
        "",
        "Clearing broker-level throttles on broker 1",
        f"Clearing topic-level throttles on topic {topic}",
    ]


def test_a_plan_for_brokers_that_are_not_there_is_refused(
    node: Node, topic: str, tmp_path: Path
) -> None:
    plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": [9]}], "version": 1}
    path = written(tmp_path / "plan.json", plan)
    found = node.ran("reassign-partitions", "--execute", "--reassignment-json-file", path)
    assert found.code == 1 and found.out == "Error: Unknown broker id 9\n"


# -- kafka-transactions, kafka-acls


def test_transactions_are_tables(node: Node, topic: str) -> None:
    at = ("transactions", "--bootstrap-server", node.bootstrap)
    assert ran(*at, "list").lines[0].split() == [
        "TransactionalId",
        "Coordinator",
        "ProducerId",
        "TransactionState",
    ]
    told = ran(*at, "describe-producers", "--topic", topic, "--partition", "0")
    assert told.lines[0].split()[-1] == "CurrentTransactionStartOffset"
    hanging = ran(*at, "find-hanging", "--topic", topic)
    assert hanging.lines == [hanging.lines[0]] and hanging.lines[0].startswith("Topic\tPartition\t")


def test_an_id_that_nobody_knows_is_told(node: Node, name: str) -> None:
    at = ("transactions", "--bootstrap-server", node.bootstrap)
    found = ran(*at, "describe", "--transactional-id", name)
    assert found.code == 1
    assert found.complaint.startswith("Failed to describe transaction state of transactional-id")


def test_rules_need_an_authorizer(node: Node) -> None:
    found = node.ran("acls", "--list")
    assert found.code == 1 and found.out.startswith("Error while executing ACL command: ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--add", "--topic", "t"), "You must specify one of: --allow-principal, --deny-principal"),
        (("--add", "--allow-principal", "User:a"), "You must provide at least one resource"),
        (
            (
                "--add",
                "--topic",
                "t",
                "--allow-principal",
                "User:a",
                "--operation",
                "ClusterAction",
            ),
            "ResourceType TOPIC only supports operations",
        ),
        (("--add", "--producer"), "With --producer you must specify a --topic"),
        (("--list", "--add"), "Command must include exactly one action: --list, --add, --remove"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("acls", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)


# -- kafka-producer-perf-test, kafka-consumer-perf-test


def test_performance_is_a_line(node: Node, topic: str) -> None:
    sent = ran(
        "producer-perf-test", "--bootstrap-server", node.bootstrap, "--topic", topic,
        "--num-records", "500", "--record-size", "50", "--throughput", "-1",
        "--command-property", "enable.idempotence=false",
    )  # fmt: skip
    assert re.fullmatch(
        r"500 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
        r"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99.9th\.\n",
        sent.out,
    )
    heads, row = node.done("consumer-perf-test", "--topic", topic, "--num-records", "500").lines
    assert heads == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )
    cells = row.split(", ")
    assert cells[4] == "500"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", cells[0])


def test_batches_that_are_too_large_for_the_topic_are_split(node: Node, name: str) -> None:
    node.done("topics", "--create", "--topic", name, "--config", "max.message.bytes=2000")
    at = ("producer-perf-test", "--bootstrap-server", node.bootstrap, "--topic", name)
    sent = ran(*at, "--num-records", "300", "--record-size", "500", "--throughput", "-1")
    assert sent.out.startswith("300 records sent")
    assert sent.complaint.count("are split") == 1


def test_payloads_are_numbers_or_come_from_a_file(node: Node, topic: str, tmp_path: Path) -> None:
    (tmp_path / "payloads").write_text("only\n")
    common = (
        "--topic",
        topic,
        "--throughput",
        "-1",
        "--command-property",
        "enable.idempotence=false",
    )
    at = ("producer-perf-test", "--bootstrap-server", node.bootstrap, *common)
    ran(*at, "--num-records", "2", "--payload-monotonic")
    ran(*at, "--num-records", "1", "--payload-file", str(tmp_path / "payloads"))
    begin = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "10000")
    read = node.done("console-consumer", "--topic", topic, "--max-messages", "3", *begin)
    assert read.lines == ["0", "1", "only"]


# -- an open transaction


def test_an_open_transaction_is_shown_and_ended(node: Node, topic: str, name: str) -> None:
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.flush(30)
    at = ("transactions", "--bootstrap-server", node.bootstrap)
    state = {line.split("\t")[0].strip(): line.split() for line in ran(*at, "list").lines}[name]
    assert state[-1] == "Ongoing"
    described = ran(*at, "describe", "--transactional-id", name).lines[1].split()
    assert described[1] == name and described[-1] == f"{topic}-0"
    told = ran(*at, "describe-producers", "--topic", topic, "--partition", "0").lines[1].split()
    assert told[0] == state[2] and told[-1] == "0"
    assert ran(*at, "forceTerminateTransaction", "--transactionalId", name).code == 0
    waiting = ("--isolation-level", "read_committed", "--timeout-ms", "100")
    read = node.done("console-consumer", "--topic", topic, "--partition", "0", *waiting)
    assert read.out == ""
    assert "Ongoing" not in ran(*at, "describe", "--transactional-id", name).out


def test_a_transaction_that_is_not_there_is_not_aborted(node: Node, topic: str) -> None:
    at = ("transactions", "--bootstrap-server", node.bootstrap, "abort", "--topic", topic)
    found = ran(*at, "--partition", "0", "--start-offset", "7")
    assert found.code == 1
    assert found.complaint == (
        f"Could not find any open transactions starting at offset 7 on partition {topic}-0"
    )
    assert ran(*at, "--partition", "0").complaint.startswith("The transaction to abort must be")
