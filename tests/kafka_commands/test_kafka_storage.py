"""kafka-storage, and kafka-dump-log of what a node has written."""

import re
from pathlib import Path

import pytest
from kafka_running import Node, Ran, ran

from penstock.broker.metadata.bootstrap_files import read_bootstrap
from penstock.credentials.scram import encode_base64, salted_password, scram_keys
from penstock.real.world import RealWorld
from penstock.testing import Cluster
from penstock.wire.records.metadata import UserScramCredentialRecord

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(f"{SETTINGS}log.dirs={tmp_path}/one,{tmp_path}/two\n")
    return str(path)


def formatted(config: str, *arguments: str) -> Ran:
    return ran("storage", "format", "--standalone", "-t", CLUSTER, "-c", config, *arguments)


def test_a_random_id_is_one() -> None:
    first, second = (ran("storage", "random-uuid").out for _ in range(2))
    assert re.fullmatch(r"[\w][\w-]{21}\n", first) and first != second


def test_directories_are_formatted(config: str, tmp_path: Path) -> None:
    assert formatted(config).lines == [
        f"Formatting dynamic metadata voter directory {tmp_path}/one with metadata.version "
        "4.3-IV0.",
        f"Formatting data directory {tmp_path}/two with metadata.version 4.3-IV0.",
    ]
    for name in ("one", "two"):
        assert f"cluster.id={CLUSTER}" in (tmp_path / name / "meta.properties").read_text()


def test_a_formatted_directory_is_left_alone(config: str, tmp_path: Path) -> None:
    formatted(config)
    found = formatted(config)
    assert found.code == 1
    assert found.complaint == (
        f"Log directory {tmp_path}/one is already formatted. Use --ignore-formatted to ignore this "
        "directory and format the others."
    )
    again = formatted(config, "--ignore-formatted")
    assert again.out == "All of the log directories are already formatted.\n"


def test_a_formatted_directory_starts_a_node_of_that_cluster(config: str, tmp_path: Path) -> None:
    formatted(config)
    with Cluster(data=tmp_path / "one") as cluster:
        found = ran("cluster", "cluster-id", "--bootstrap-server", cluster.bootstrap)
    assert found.out == f"Cluster ID: {CLUSTER}\n"


def test_info_tells_of_directories(config: str, tmp_path: Path) -> None:
    missing = ran("storage", "info", "-c", config)
    assert missing.code == 1
    assert missing.lines[:2] == ["Found problems:", f"  {tmp_path}/one does not exist"]
    formatted(config)
    found = ran("storage", "info", "-c", config)
    assert found.code == 0
    assert found.lines[:3] == ["Found log directories:", f"  {tmp_path}/one", f"  {tmp_path}/two"]
    assert re.fullmatch(
        rf"Found metadata: {{cluster.id={CLUSTER}, directory.id=[\w-]{{22}}, node.id=1, "
        "version=1}",
        found.lines[4],
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-t", CLUSTER), "Because controller.quorum.voters is not set on this controller"),
        (("-t", "x", "-s"), "'x' is not a cluster id"),
        (("-t", CLUSTER, "-s", "-r", "3.0"), "Unknown metadata.version '3.0'. Supported"),
        (("-t", CLUSTER, "-s", "-f", "x=1"), "Unsupported feature: x."),
        (
            ("-t", CLUSTER, "-s", "-f", "group.version=2"),
            "Unsupported level 2 of feature group.version.",
        ),
        (("-t", CLUSTER, "-s", "-S", "x"), "Failed to find equals sign in SCRAM argument."),
        (
            ("-t", CLUSTER, "-s", "-S", "SCRAM-SHA-256=[name=alice]"),
            "You must supply one of 'password' or 'saltedpassword' to add-scram",
        ),
    ],
)
def test_a_format_that_cannot_be_is_refused(
    config: str, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    found = ran("storage", "format", "-c", config, *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)
    assert not (tmp_path / "one" / "meta.properties").exists()


@pytest.mark.parametrize("chosen", ["group.version=0", "transaction.version=1"])
def test_a_feature_of_a_new_cluster_can_be_chosen(config: str, tmp_path: Path, chosen: str) -> None:
    assert ran("storage", "format", "-c", config, "-t", CLUSTER, "-s", "-f", chosen).code == 0
    name, _, level = chosen.partition("=")
    world = RealWorld()
    found = {
        each.name: each.feature_level for each in read_bootstrap(world.disk(str(tmp_path / "one")))
    }
    world.close()
    assert found.get(name, 0) == int(level)
    assert found["metadata.version"] == 30


def test_a_cluster_may_begin_with_users(config: str, tmp_path: Path) -> None:
    password = "SCRAM-SHA-256=[name=alice,iterations=5000,salt=c2FsdA==,password=secret]"
    salted = salted_password("SCRAM-SHA-512", "secret", b"pepper", 4096)
    ready = f'SCRAM-SHA-512=[name="bob",salt=cGVwcGVy,saltedpassword={encode_base64(salted)}]'
    found = formatted(config, "-S", password, "--add-scram", ready)
    assert found.code == 0 and "secret" not in found.out
    world = RealWorld()
    records = read_bootstrap(world.disk(str(tmp_path / "one")))
    world.close()
    alice, bob = (each for each in records if isinstance(each, UserScramCredentialRecord))
    assert (alice.name, alice.mechanism, alice.salt, alice.iterations) == (
        "alice",
        1,
        b"salt",
        5_000,
    )
    keys = scram_keys("SCRAM-SHA-256", salted_password("SCRAM-SHA-256", "secret", b"salt", 5_000))
    assert (alice.stored_key, alice.server_key) == keys
    assert (bob.name, bob.mechanism, bob.iterations) == ("bob", 2, 4096)
    assert (bob.stored_key, bob.server_key) == scram_keys("SCRAM-SHA-512", salted)


def test_features_are_told() -> None:
    assert ran("storage", "version-mapping").lines[0] == "metadata.version=30 (4.3-IV0)"
    needs = ran("storage", "feature-dependencies", "-f", "transaction.version=2")
    assert needs.out == "transaction.version=2 has no dependencies.\n"


# -- kafka-dump-log


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that has stopped."""
    place = tmp_path_factory.mktemp("dump")
    with Cluster(data=place) as cluster:
        node = Node(cluster.bootstrap)
        node.done("topics", "--create", "--topic", "t", "--partitions", "1")
        keyed = ("--reader-property", "parse.key=true", "--timeout", "0")
        node.done("console-producer", "--topic", "t", *keyed, stdin=b"k\tv\nk2\tv2\n")
        reset = ("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--execute")
        node.done("consumer-groups", *reset)
    return place


def test_a_segment_is_dumped(data: Path) -> None:
    path = data / "t-0" / "00000000000000000000.log"
    first, second, batch, one, two = ran("dump-log", "--files", str(path), "--print-data-log").lines
    assert (first, second) == (f"Dumping {path}", "Log starting offset: 0")
    assert re.fullmatch(
        r"baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: \d+ "
        r"producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: false isControl: false "
        r"deleteHorizonMs: OptionalLong\.empty position: 0 CreateTime: \d+ size: \d+ magic: 2 "
        r"compresscodec: none crc: \d+ isvalid: true",
        batch,
    )
    assert re.fullmatch(
        r"\| offset: 0 CreateTime: \d+ keySize: 1 valueSize: 1 sequence: 0 headerKeys: \[\] "
        "key: k payload: v",
        one,
    )
    assert two.endswith("key: k2 payload: v2")


def test_only_batches_are_dumped_unless_told(data: Path) -> None:
    path = data / "t-0" / "00000000000000000000.log"
    assert len(ran("dump-log", "--files", str(path)).lines) == 3


def test_offsets_are_decoded(data: Path) -> None:
    logs = [path for path in data.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    found = ran("dump-log", "--offsets-decoder", "--files", ",".join(map(str, logs)))
    wanted = (
        'key: {"type":"1","data":{"group":"g","topic":"t","partition":0}} payload: {"version":"'
    )
    assert wanted in found.out and '"offset":2' in found.out


def test_metadata_is_decoded(data: Path) -> None:
    path = data / "__cluster_metadata-0" / "00000000000000000000.log"
    found = ran("dump-log", "--cluster-metadata-decoder", "--files", str(path))
    assert 'payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":' in found.out
    assert " LeaderChange: {" in found.out


def test_the_beginning_of_a_cluster_is_decoded(data: Path) -> None:
    path = data / "bootstrap.checkpoint"
    found = ran("dump-log", "--cluster-metadata-decoder", "--files", str(path))
    assert found.lines[1] == "KRaft bootstrap snapshot"
    assert '"type":"FEATURE_LEVEL_RECORD"' in found.out


def test_a_snapshot_of_producers_is_dumped(data: Path) -> None:
    (path,) = (data / "t-0").glob("*.snapshot")
    assert re.search(
        r"producerId: \d+ producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: "
        r"OptionalLong.empty lastTimestamp: \d+ firstSequence: 0 lastSequence: 1 lastOffset: 1 "
        r"offsetDelta: 1 timestamp: \d+\n",
        ran("dump-log", "--files", str(path)).out,
    )


def test_what_is_no_batch_is_told(data: Path, tmp_path: Path) -> None:
    whole = (data / "t-0" / "00000000000000000000.log").read_bytes()
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(whole + whole[:20])
    found = ran("dump-log", "--files", str(path))
    assert found.lines[-1] == f"Found 20 invalid bytes at the end of {path.name}"


def test_a_batch_that_was_changed_is_not_valid(data: Path, tmp_path: Path) -> None:
    whole = bytearray((data / "t-0" / "00000000000000000000.log").read_bytes())
    whole[-1] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(whole)
    assert ran("dump-log", "--files", str(path)).lines[2].endswith("isvalid: false")


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    found = ran("dump-log", "--files", f"{tmp_path}/00000000000000000000.log")
    assert found.code == 1 and "no such file" in found.err
