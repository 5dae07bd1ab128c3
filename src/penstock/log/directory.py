"""Names in a data directory: partitions, their segments, and what is left of them."""

from enum import Enum
from typing import NamedTuple

from penstock.model import ZERO_ID, TopicPartition, id_from_text, id_to_text
from penstock.world import Disk

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
)
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
EPOCHS_FILE = "leader-epoch-checkpoint"
WINDOW_FILE = "penstock-producer-batches"  # ours alone; Kafka passes over it
DAMAGE_FILE = "penstock-damaged-batches"  # as well
ACCEPT_LOSS = "penstock-accept-loss"  # made by an operator, to go on with what is left
MOVED_FROM_FILE = "penstock-moved-from"  # as well: see moving_marks.py
MOVING_TO_FILE = "penstock-moving-to"  # as well
METADATA_FILE = "partition.metadata"
_OFFSET_DIGITS = 20
_NAME_BYTES_MAX = 255


class Kind(Enum):
    """What a partition's directory is there for."""

    LIVE = ""
    DELETED = "-delete"  # the topic is gone, the files follow
    FUTURE = "-future"  # being copied here from another data directory
    STRAY = "-stray"  # the cluster does not place it here


class PartitionDirectory(NamedTuple):
    name: str
    partition: TopicPartition
    kind: Kind


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    """For example 'orders-0/00000000000000000042.log'."""
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Base offset and suffix of a segment's file; None for any other name."""
    digits, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
        return int(digits), suffix
    return None


def parse_directory(name: str) -> PartitionDirectory | None:
    """What a directory's name says; None if it is no partition's."""
    for kind in (Kind.DELETED, Kind.FUTURE, Kind.STRAY):
        if name.endswith(kind.value):
            head, dot, _ = name.removesuffix(kind.value).rpartition(".")
            partition = _parse_partition(head) if dot else None
            return PartitionDirectory(name, partition, kind) if partition else None
    partition = _parse_partition(name)
    return PartitionDirectory(name, partition, Kind.LIVE) if partition else None


def _parse_partition(name: str) -> TopicPartition | None:
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def marked_name(partition: TopicPartition, kind: Kind, unique: str) -> str:
    """The name under which a partition waits for removal, a move or a decision."""
    tail = f"-{partition.partition}.{unique}{kind.value}"
    return partition.topic[: _NAME_BYTES_MAX - len(tail)] + tail


def partition_directories(disk: Disk) -> list[PartitionDirectory]:
    """All partitions' directories, in the order of their names."""
    found = (parse_directory(name) for name in disk.list())
    return [each for each in found if each and disk.is_directory(each.name)]


def format_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}".encode()


def parse_metadata(data: bytes) -> bytes | None:
    """The topic id in a partition.metadata file; None if the file is not whole."""
    try:
        lines = [line.split(":", 1) for line in data.decode().splitlines() if line]
        fields = {key.strip(): value.strip() for key, value in lines}
        if fields.get("version") != "0":
            return None
        topic_id = id_from_text(fields["topic_id"])
    except (ValueError, KeyError):
        return None
    return None if topic_id == ZERO_ID else topic_id


def read_metadata(disk: Disk, directory: str) -> bytes | None:
    """The topic id that a partition's directory belongs to; None if it does not say."""
    try:
        file = disk.open(f"{directory}/{METADATA_FILE}")
    except FileNotFoundError:
        return None
    data = file.read_now(0, file.size)
    file.close()
    return parse_metadata(data)
