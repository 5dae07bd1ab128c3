"""kafka-python moves partitions between log directories while librdkafka writes to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaAdminClient
from kafka.errors import LogDirNotFoundError, NoError
from node_clients import create_topic
from node_process import NodeProcess, read_all

RECORDS = 3_000
RECORD_BYTES = 2_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    directories = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
    with NodeProcess(tmp_path / "data", directories) as node:
        yield node


@pytest.fixture
def admin(node: NodeProcess) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    yield admin
    admin.close()


def where(tmp_path: Path) -> Path:
    (found,) = [path for path in (tmp_path / "one", tmp_path / "two") if (path / "t-0").exists()]
    return found


def test_a_partition_moves_under_load_and_loses_nothing(
    node: NodeProcess, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    create_topic(node, "t")
    source = where(tmp_path)
    target = next(path for path in (tmp_path / "one", tmp_path / "two") if path != source)
    values = [b"%d" % number + bytes(RECORD_BYTES) for number in range(RECORDS)]
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for place, value in enumerate(values):
        producer.produce("t", value, on_delivery=delivered)
        producer.poll(0)
        if place == RECORDS // 4:
            producer.flush(30)
            told = admin.alter_replica_log_dirs({("t", 0, 1): str(target)})
            assert list(told.values()) == [NoError]
    assert producer.flush(60) == 0
    while (source / "t-0").exists():  # until the move is done
        producer.produce("t", b"more")
        producer.flush(30)
        values.append(b"more")
    assert failures == []
    assert where(tmp_path) == target
    assert read_all(node.bootstrap, "t") == values


def test_a_directory_that_is_not_the_nodes_is_refused(
    node: NodeProcess, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    create_topic(node, "t")
    told = admin.alter_replica_log_dirs({("t", 0, 1): str(tmp_path / "three")})
    assert list(told.values()) == [LogDirNotFoundError]
