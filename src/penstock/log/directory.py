"""Names in a data directory: partitions, their segments, and leftovers."""

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
WINDOW_FILE = "penstock-producer-batches"  # not in Kafka, which ignores the file
DAMAGE_FILE = "penstock-damaged-batches"  # not in Kafka either
ACCEPT_LOSS = "penstock-accept-loss"  # made by an operator, to continue without the lost records
HOLES_FILE = "penstock-holes"  # offsets that the log may lack: see holes.py
MOVED_FROM_FILE = "penstock-moved-from"  # not in Kafka: see future_log_markers.py
MOVING_TO_FILE = "penstock-moving-to"  # not in Kafka either
# Of a segment behind a hole, and not part of the log. Kafka parses names that begin with digits.
KEPT_SEGMENT = "penstock-kept-segment"
METADATA_FILE = "partition.metadata"
_OFFSET_DIGITS = 20
_NAME_BYTES_MAX = 255


class DirectoryKind(Enum):
    """The purpose of a partition's directory."""

    LIVE = ""
    DELETED = "-delete"  # a deleted topic, to be removed
    FUTURE = "-future"  # a future replica, copied from another data directory
    STRAY = "-stray"  # not assigned to this node by the cluster


class PartitionDirectory(NamedTuple):
    name: str
    partition: TopicPartition
    kind: DirectoryKind


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    """Return the path of a segment's file, such as 'orders-0/00000000000000000042.log'."""
    return f"{directory}/{base_offset:020d}{suffix}"


def kept_segment(base_offset: int, number: int) -> str:
    """Return the name of a segment that is kept beside its log. Numbers tell segments of the same
    base offset apart."""
    return f"{KEPT_SEGMENT}-{base_offset:020d}-{number}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Return base offset and suffix of a segment's file; None for any other name."""
    digits, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
        return int(digits), suffix
    return None


def parse_directory(name: str) -> PartitionDirectory | None:
    """Return the parts of a partition directory's name; None for any other name."""
    for kind in (DirectoryKind.DELETED, DirectoryKind.FUTURE, DirectoryKind.STRAY):
        if name.endswith(kind.value):
            head, dot, _ = name.removesuffix(kind.value).rpartition(".")
            partition = _parse_partition(head) if dot else None
            return PartitionDirectory(name, partition, kind) if partition else None
    partition = _parse_partition(name)
    return PartitionDirectory(name, partition, DirectoryKind.LIVE) if partition else None


def _parse_partition(name: str) -> TopicPartition | None:
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def marked_name(partition: TopicPartition, kind: DirectoryKind, unique: str) -> str:
    """Return the name of a partition that waits for removal, a move or a decision."""
    tail = f"-{partition.partition}.{unique}{kind.value}"
    return partition.topic[: _NAME_BYTES_MAX - len(tail)] + tail


def partition_directories(disk: Disk) -> list[PartitionDirectory]:
    """Return all partition directories, ordered by name."""
    found = (parse_directory(name) for name in disk.list())
    return [each for each in found if each and disk.is_directory(each.name)]


def format_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}".encode()


def parse_metadata(data: bytes) -> bytes | None:
    """Return the topic id of a partition.metadata file; None if the file is damaged."""
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
    """Return the topic id of a partition's directory; None if the file is missing or damaged."""
    try:
        file = disk.open(f"{directory}/{METADATA_FILE}")
    except FileNotFoundError:
        return None
    data = file.read_now(0, file.size)
    file.close()
    return parse_metadata(data)
