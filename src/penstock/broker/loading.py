"""Opens the partitions of a node at its start: what the disks hold against what the image says.

After a clean stop nothing is scanned. After a kill each log recovers from its recovery point, and
what that found is said.
"""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.directory import Directory
from penstock.controller.image import Topic
from penstock.log.checkpoints import RECOVERY_POINTS, START_OFFSETS, read_offsets, read_whole
from penstock.log.directory import (
    Kind,
    PartitionDirectory,
    marked_name,
    partition_directories,
    read_metadata,
)
from penstock.log.log import Log
from penstock.log.recovery import LogCorrupted, open_log
from penstock.model import CLUSTER_METADATA_TOPIC, TopicPartition
from penstock.world import Disk, DiskFailed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.loading")

CLEAN_MARKER = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


class _Found(NamedTuple):
    """What a directory's checkpoints say."""

    clean: bool
    recovery_points: Mapping[TopicPartition, int]
    start_offsets: Mapping[TopicPartition, int]


def read_clean_marker(disk: Disk) -> int:
    """The broker epoch of the clean stop that came before, or -1 if there was none."""
    data = read_whole(disk, CLEAN_MARKER)
    if data is None:
        return NO_BROKER_EPOCH
    try:
        epoch = json.loads(data).get("brokerEpoch", NO_BROKER_EPOCH)
        return int(epoch)
    except (ValueError, AttributeError):
        return NO_BROKER_EPOCH


def write_clean_marker(disk: Disk, broker_epoch: int) -> None:
    content = {"version": 0, "brokerEpoch": broker_epoch}
    disk.replace_now(CLEAN_MARKER, json.dumps(content, separators=(",", ":")).encode())


def load_partitions(broker: "Broker") -> None:
    """Open what is there, make what is missing. Waits for the disks; nobody is served yet."""
    for directory in broker.hosting.directories:
        try:
            _load_directory(broker, directory)
            directory.sync_recovered_now()
        except DiskFailed as failure:
            directory.fail(failure)
    broker.hosting.make_missing()


def _load_directory(broker: "Broker", directory: Directory) -> None:
    disk = directory.disk
    found = _checkpoints(disk)
    opened = 0
    for entry in partition_directories(disk):
        if entry.partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        if entry.kind is Kind.DELETED:
            broker.hosting.remove_later(directory, entry.name)
        elif entry.kind is Kind.LIVE:
            opened += _load(broker, directory, entry, found)
    # From here on a kill is a kill: the marker must not outlive the state it speaks of.
    disk.remove_now(CLEAN_MARKER)
    if opened:
        how = (
            "after a clean stop" if found.clean else "and recovered, as the last stop was not clean"
        )
        log.info("opened %d partitions in %s %s", opened, disk.root, how)


def _checkpoints(disk: Disk) -> _Found:
    offsets = {}
    for name in (RECOVERY_POINTS, START_OFFSETS):
        read = read_offsets(disk, name)
        offsets[name] = read.offsets
        if read.complaint:
            log.warning("%s/%s is not used: %s", disk.root, name, read.complaint)
    return _Found(disk.exists(CLEAN_MARKER), offsets[RECOVERY_POINTS], offsets[START_OFFSETS])


def _load(broker: "Broker", directory: Directory, entry: PartitionDirectory, found: _Found) -> int:
    """1 if the partition is open now."""
    hosting, disk = broker.hosting, directory.disk
    name, index = entry.partition
    topic = broker.image.topics.get(name)
    stored_id = read_metadata(disk, entry.name)
    if not _belongs_here(broker, topic, entry, stored_id):
        unique = broker.world.entropy.uuid().hex()
        stray = marked_name(entry.partition, Kind.STRAY, unique)
        disk.rename_now(entry.name, stray)
        log.warning(
            "%s/%s belongs to no partition of this node; it is kept as %s and not served",
            disk.root,
            entry.name,
            stray,
        )
        return 0
    assert topic is not None, "a partition that belongs here has a topic"
    try:
        opened = open_log(
            disk,
            entry.name,
            hosting.settings(name).log,
            now_ms=broker.world.clock.wall_ms(),
            clean=found.clean,
            recovery_point=found.recovery_points.get(entry.partition, 0),
            start_offset=found.start_offsets.get(entry.partition, 0),
            files=directory.files,
            failed=directory.fail,
        )
    except LogCorrupted as error:
        log.error("%s", error)
        hosting.refuse(topic.topic_id, index, str(error))
        return 0
    _say(entry.partition, opened)
    hosting.adopt(hosting.make_partition(topic, index, directory, opened))
    return 1


def _say(partition: TopicPartition, opened: Log) -> None:
    """What a recovery did that somebody may have to know."""
    report = opened.recovery
    for complaint in report.complaints:
        log.warning("%s: %s", partition, complaint)
    for offset, position, path in report.corrupt:
        log.error(
            "%s: the batch at offset %d (byte %d of %s) does not match its checksum; it was durable"
            " and is kept, and readers of it will be told",
            partition,
            offset,
            position,
            path,
        )
    if report.truncated_bytes:
        log.warning(
            "%s: %d bytes at the end were not whole and are cut off (%d whole segments removed);"
            " the log now ends at offset %d",
            partition,
            report.truncated_bytes,
            report.segments_removed,
            opened.end_offset,
        )


def _belongs_here(
    broker: "Broker", topic: Topic | None, entry: PartitionDirectory, stored_id: bytes | None
) -> bool:
    if topic is None or entry.partition.partition not in topic.partitions:
        return False
    if broker.node_id not in topic.partitions[entry.partition.partition].replicas:
        return False
    return stored_id is None or stored_id == topic.topic_id
