"""A node on a disk that fills up: a small file system that only the node's process sees."""

import shutil
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from node_clients import create_topic
from node_process import NodeProcess, own_disk, produce_all, read_all

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic

DISK_BYTES = 24 * 1024 * 1024
BALLAST_BYTES = 8 * 1024 * 1024
NO_RESERVE = {"log.disk.reserve.bytes": "0"}


def send_one(bootstrap: str, value: bytes) -> KafkaError | None:
    """One attempt, without retries: what the broker says to it."""
    said: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "retries": 0, "acks": "all"})
    producer.produce("t", value, on_delivery=lambda error, _message: said.append(error))
    producer.flush(20)
    return said[0]


def fill(node: NodeProcess) -> list[bytes]:
    """Write until the disk takes no more, not even small records; return what was acknowledged.

    A node that is late with its look at the disk rejects large records early: they are tried again.
    """
    stored: list[bytes] = []
    for size in [200_000, 10_000, 100] * 10:
        for number in range(1_000):
            value = b"%d" % number + bytes(size)
            if (error := send_one(node.bootstrap, value)) is not None:
                assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
                if size == 100:
                    return stored
                break
            stored.append(value)
    raise AssertionError("the disk did not fill up")


def test_a_stop_on_a_full_disk_says_what_it_could_not_write(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    before = own_disk(disk, f"size={DISK_BYTES}")
    with NodeProcess(disk / "data", NO_RESERVE, before=before) as node:
        create_topic(node, "t")
        fill(node)
        code, seconds = node.terminate()
        said = node.stderr
    assert code == 1
    assert seconds < 5.0
    assert str(disk / "data") in said
    assert "was not stopped cleanly" in said
    assert "All that was written is synced" in said
    assert "fault of penstock" not in said
    assert "Traceback" not in said


def test_records_stop_before_the_disk_is_full_and_go_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    before = own_disk(disk, f"size={DISK_BYTES}")
    with NodeProcess(disk / "data", before=before) as node:
        inside = Path(f"/proc/{node.process.pid}/root{disk}")
        ballast = inside / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        create_topic(node, "t")
        stored = fill(node)
        assert shutil.disk_usage(inside).free > 0
        create_topic(node, "another")
        ballast.unlink()
        assert produce_all(node.bootstrap, "t", [b"after"]) == [None]
        assert read_all(node.bootstrap, "t") == [*stored, b"after"]
        assert node.terminate()[0] == 0


def test_a_topic_that_is_made_on_a_full_disk_can_be_used_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    checkpoints = NO_RESERVE | {"log.flush.offset.checkpoint.interval.ms": "100"}
    before = own_disk(disk, f"size={DISK_BYTES}")
    with NodeProcess(disk / "data", checkpoints, before=before) as node:
        inside = Path(f"/proc/{node.process.pid}/root{disk}")
        ballast = inside / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        create_topic(node, "t")
        stored = fill(node)
        with Admin(bootstrap=node.bootstrap) as admin:
            admin.create_topics([NewTopic("new", partitions=30)])
        assert read_all(node.bootstrap, "t") == stored
        assert "offline" not in node.stderr
        assert list(inside.rglob("*.tmp")) == []
        ballast.unlink()
        assert send_one(node.bootstrap, b"after") is None
        assert produce_all(node.bootstrap, "new", [b"x"] * 30) == [None] * 30
        assert node.terminate()[0] == 0


def test_a_full_disk_refuses_writes_keeps_reads_and_recovers_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    before = own_disk(disk, f"size={DISK_BYTES}")
    with NodeProcess(disk / "data", NO_RESERVE, before=before) as node:
        inside = Path(f"/proc/{node.process.pid}/root{disk}")
        ballast = inside / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        create_topic(node, "t")
        assert produce_all(node.bootstrap, "t", [b"before"]) == [None]
        stored = [b"before"]
        for number in range(200):
            value = b"%d" % number + bytes(200_000)
            error = send_one(node.bootstrap, value)
            if error is not None:
                break
            stored.append(value)
        assert error is not None, "the disk did not fill up"
        assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        assert read_all(node.bootstrap, "t") == stored
        assert "full" in node.stderr
        ballast.unlink()
        assert shutil.disk_usage(inside).free > 1_000_000
        assert send_one(node.bootstrap, b"after") is None
        assert read_all(node.bootstrap, "t") == [*stored, b"after"]
        assert node.terminate()[0] == 0
