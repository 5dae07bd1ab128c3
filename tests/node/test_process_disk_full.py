"""A node on a disk that fills up: a small file system that only the node's process sees."""

import shutil
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from node_process import NodeProcess, own_disk, produce_all, read_all
from test_process import create_topic

DISK_BYTES = 24 * 1024 * 1024
BALLAST_BYTES = 8 * 1024 * 1024


def send_one(bootstrap: str, value: bytes) -> KafkaError | None:
    """One attempt, without retries: what the broker says to it."""
    said: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "retries": 0, "acks": "all"})
    producer.produce("t", value, on_delivery=lambda error, _message: said.append(error))
    producer.flush(20)
    return said[0]


def test_a_full_disk_refuses_writes_keeps_reads_and_recovers_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with NodeProcess(disk / "data", before=own_disk(disk, f"size={DISK_BYTES}")) as node:
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
