"""Opens the partitions of a node at its start: compares the disks with the image.

After a clean stop no log is scanned. After a kill each log recovers from its recovery point, and
the node logs the result. A missing partition goes offline. A start never recreates it empty, since
its offsets would be used twice.
"""

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partition_creation import NewPartition
from penstock.broker.partitions.replicas import OfflineReplica
from penstock.broker.startup.duplicate_dirs import resolve_duplicates
from penstock.broker.startup.missing_partitions import keep_lost_offline
from penstock.broker.startup.move_recovery import (
    StaleCopy,
    drop_marks,
    resolve_moves,
    restart_moves,
    retire_sources,
)
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.storage.placements import (
    Placement,
    PlacementState,
    Sizes,
    format_sizes,
    parse_sizes,
)
from penstock.controller.image import Topic
from penstock.log.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    read_offsets,
    read_whole,
)
from penstock.log.directory import (
    ACCEPT_LOSS,
    LOG,
    DirectoryKind,
    PartitionDirectory,
    marked_name,
    partition_directories,
    read_metadata,
    segment_file,
)
from penstock.log.log import Log
from penstock.log.missing_segments import LogCorrupted
from penstock.log.recovery import open_log
from penstock.model import CLUSTER_METADATA_TOPIC, ZERO_ID, TopicPartition, id_from_text
from penstock.world import Disk, DiskFailed, DiskFull, FileLost, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.startup.broker_view import StartupBroker

log = logging.getLogger("penstock.loading")

CLEAN_MARKER = ".kafka_cleanshutdown"
SIZES = "penstock-segment-sizes"
_SIZES_VERSION = "0"
NO_BROKER_EPOCH = -1


class _LogDirCheckpoints(NamedTuple):
    """The checkpoints of a directory."""

    clean: bool
    recovery_points: Mapping[TopicPartition, int]
    start_offsets: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    sizes: Mapping[str, Sizes]  # of the segments at the clean stop, by partition directory

    @property
    def named(self) -> Collection[TopicPartition]:
        return self.recovery_points.keys() | self.start_offsets.keys()

    def offline_replica(
        self, reason: str, directory: LogDirectory, partition: TopicPartition
    ) -> OfflineReplica:
        return OfflineReplica(
            reason,
            directory.directory_id,
            partition,
            self.recovery_points.get(partition, 0),
            self.start_offsets.get(partition, 0),
            self.sizes.get(str(partition)),
        )


def read_clean_marker(disk: Disk) -> int:
    """Return the broker epoch of the last clean stop, or -1 without one."""
    data = read_whole(disk, CLEAN_MARKER)
    if data is None:
        return NO_BROKER_EPOCH
    try:
        epoch = json.loads(data).get("brokerEpoch", NO_BROKER_EPOCH)
        return int(epoch)
    except (ValueError, AttributeError):
        return NO_BROKER_EPOCH


def write_clean_marker(disk: Disk, broker_epoch: int, closed: Iterable[Partition]) -> None:
    """Write the sizes of all segments, then the marker of a clean stop. `closed` are the partitions
    whose logs are closed."""
    lines = [_SIZES_VERSION, str(broker_epoch)]
    lines += [f"{each} {format_sizes(each.log.sizes())}" for each in closed]
    disk.replace_now(SIZES, "\n".join([*lines, ""]).encode())
    content = {"version": 0, "brokerEpoch": broker_epoch}
    disk.replace_now(CLEAN_MARKER, json.dumps(content, separators=(",", ":")).encode())


def _read_sizes(disk: Disk) -> dict[str, Sizes]:
    """Return the sizes of all segments at the last clean stop. If Apache Kafka ran since, the epoch
    of the marker differs, and the sizes are not used."""
    data = read_whole(disk, SIZES)
    if data is None or not disk.exists(CLEAN_MARKER):
        return {}
    try:
        version, epoch, *lines = data.decode().split("\n")
        if version != _SIZES_VERSION or int(epoch) != read_clean_marker(disk):
            return {}
        named = (line.partition(" ") for line in lines if line)
        return {name: parse_sizes(text) for name, _, text in named}
    except ValueError as error:
        log.warning("%s/%s is not used: %s", disk.root, SIZES, error)
        return {}


def load_partitions(broker: "StartupBroker") -> Iterator[None]:
    """Open all partitions and create missing ones; yield after each partition. Waits for the disks,
    before clients are served. Between two steps the node can report its progress.

    Raise TooManyFiles if the directories cannot be read at all.
    """
    replicas = broker.replicas
    replicas.placements.load()
    entries: dict[LogDirectory, list[PartitionDirectory]] = {}
    checkpoints: dict[LogDirectory, _LogDirCheckpoints] = {}
    for directory in replicas.directories:
        if directory.failed:
            continue
        with _failing(directory):
            checkpoints[directory] = _checkpoints(directory.disk)
            entries[directory] = partition_directories(directory.disk)
    keep_offline = partial(_keep_offline, broker, checkpoints)
    settled = resolve_moves(broker, entries, partial(_topic_of, broker), keep_offline)
    resolve_duplicates(broker, entries, partial(_topic_of, broker), keep_offline)
    broker.recovery_progress.begin(sum(map(_partitions_in, entries.values())))
    for directory, listed in entries.items():
        with _failing(directory):
            found = checkpoints[directory]
            yield from _load_directory(broker, directory, listed, found, settled.starts)
            directory.sync_recovered_now()
    keep_lost_offline(
        broker,
        {each: found.recovery_points for each, found in checkpoints.items()},
        {each: found.start_offsets for each, found in checkpoints.items()},
        _moved_to(settled.originals),
    )
    broker.recovery_progress.end()
    _keep_leaving(broker)
    replicas.store_offline_now()
    _note_used_elsewhere(broker)
    kept = retire_sources(broker, settled.originals)
    full: set[LogDirectory] = set()
    for directory in {directory: None for directory, _ in settled.finished}:
        if not directory.failed:
            with _failing(directory):
                if not replicas.checkpoints.start_offsets_now(directory):
                    full.add(directory)  # its markers have the starts of its logs
    finished = {each: marks for each, marks in settled.finished.items() if each[0] not in full}
    drop_marks(finished, kept)
    for directory in replicas.directories:
        if not directory.failed:
            with _failing(directory):
                # From here on a kill is not a clean stop: remove the marker.
                directory.disk.remove_now(CLEAN_MARKER)
                replicas.checkpoints.forget_gone_now(directory, checkpoints[directory].named)
                _remove_acceptances(directory)
    if not any(each.failed for each in replicas.directories):
        replicas.placements.all_seen(sought=replicas.sought)
    replicas.create_missing()
    yield from replicas.take_roles()
    restart_moves(broker, settled.wishes)


@contextmanager
def _failing(directory: LogDirectory) -> Iterator[None]:
    """Take a directory offline that cannot be loaded."""
    try:
        yield
    except TooManyFiles as failure:
        raise TooManyFiles(f"{failure}. Raise the limit (ulimit -n) and start again") from failure
    except DiskFailed as failure:
        directory.take_offline(failure)


def _load_directory(
    broker: "StartupBroker",
    directory: LogDirectory,
    entries: list[PartitionDirectory],
    found: _LogDirCheckpoints,
    arrived: Mapping[tuple[LogDirectory, str], int],
) -> Iterator[None]:
    """Load one directory. `arrived` has the start offsets of logs that a move has put here."""
    disk = directory.disk
    opened = 0
    for entry in entries:
        if entry.partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        if entry.kind is DirectoryKind.DELETED:
            broker.replicas.remove_later(directory, entry.name)
        elif entry.kind is DirectoryKind.LIVE:
            broker.recovery_progress.open(f"{disk.root}/{entry.name}")
            moved_start = arrived.get((directory, entry.name))
            opened += _load(broker, directory, entry, found, moved_start)
            broker.recovery_progress.opened()
            yield
    if not found.clean:
        # One sync for what recovery wrote beside the records, not one for each of its files.
        disk.sync_everything_now()
        for partition in directory.partitions:
            partition.log.metadata_unsynced = False
    if opened:
        how = (
            "after a clean stop" if found.clean else "and recovered, as the last stop was not clean"
        )
        log.info("opened %d partitions in %s %s", opened, disk.root, how)


def _moved_to(originals: Sequence[StaleCopy]) -> Mapping[str, Sequence[bytes]]:
    """Return the directories of moved partitions, by partition name."""
    found: dict[str, list[bytes]] = {}
    for _, entry, departure in originals:
        with suppress(ValueError):  # a damaged marker names no directory
            found.setdefault(entry.name, []).append(id_from_text(departure.target_id))
    return found


def _partitions_in(entries: list[PartitionDirectory]) -> int:
    return sum(
        each.kind is DirectoryKind.LIVE and each.partition.topic != CLUSTER_METADATA_TOPIC
        for each in entries
    )


def _checkpoints(disk: Disk) -> _LogDirCheckpoints:
    offsets = {}
    for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS):
        read = read_offsets(disk, name)
        offsets[name] = read.offsets
        if read.complaint:
            log.warning("%s/%s is not used: %s", disk.root, name, read.complaint)
    clean = disk.exists(CLEAN_MARKER)
    return _LogDirCheckpoints(
        clean,
        offsets[RECOVERY_POINTS],
        offsets[START_OFFSETS],
        offsets[HIGH_WATERMARKS],
        _read_sizes(disk),
    )


def _load(
    broker: "StartupBroker",
    directory: LogDirectory,
    entry: PartitionDirectory,
    found: _LogDirCheckpoints,
    moved_start: int | None,
) -> int:
    """Return 1 if the partition is open now, else 0."""
    replicas = broker.replicas
    name, index = entry.partition
    topic = broker.image.topics.get(name)
    stored_id = _stored_id(broker, directory, entry)
    if not _belongs_here(broker, topic, entry, stored_id):
        if stored_id is not None and _was_deleted(broker, stored_id, index):
            _retire(broker, directory, entry, stored_id)
        else:
            _keep_stray(broker, directory, entry)
        return 0
    assert topic is not None, "a partition that belongs here has a topic"
    if replicas.is_kept_offline(topic.topic_id, index):
        replicas.keep_offline_too(
            topic, index, found.offline_replica("", directory, entry.partition)
        )
        return 0
    return _open(broker, directory, entry, found, moved_start, topic)


def _open(
    broker: "StartupBroker",
    directory: LogDirectory,
    entry: PartitionDirectory,
    found: _LogDirCheckpoints,
    moved_start: int | None,
    topic: Topic,
) -> int:
    replicas, disk = broker.replicas, directory.disk
    name, index = entry.partition
    before = replicas.placements.before.get((topic.topic_id, index))
    # A partition that was offline was not written to: the stop says nothing about its log.
    was_offline = before is not None and before.is_offline
    sizes = found.sizes.get(entry.name)
    # The same holds for a partition that moved here while the node stopped.
    clean = found.clean and not was_offline and (moved_start is None or sizes is not None)
    if was_offline:
        sizes = replicas.placements.sizes.get((topic.topic_id, index))
    # The first sync is on record before the first checkpoint of the recovery point.
    durable_to = int(before is not None and before.state is PlacementState.DURABLE)
    accepted = disk.exists(f"{entry.name}/{ACCEPT_LOSS}")
    lost = None if accepted else _lost_records(directory, entry, before)
    try:
        if lost:
            raise LogCorrupted(
                f"{disk.root}/{entry.name} holds no segment, and the partition had records. Restore"
                f" its {LOG} files from a copy"
            )
        opened = open_log(
            disk,
            entry.name,
            replicas.settings(name).log,
            now_ms=broker.world.clock.wall_ms(),
            clean=clean,
            recovery_point=max(found.recovery_points.get(entry.partition, 0), durable_to),
            start_offset=max(found.start_offsets.get(entry.partition, 0), moved_start or 0),
            salvage=accepted,
            sizes=sizes,
            files=directory.files,
            failed=directory.fail,
            scanned=broker.recovery_progress.scanned,
            sync_follows=True,
            may_wait=True,
            # Apache Kafka's logs may lack offsets without a trace of a compaction.
            compacted=before is None or entry.partition in broker.cleaned_offsets.names(directory),
        )
    except (LogCorrupted, FileLost, DiskFull, TooManyFiles) as error:
        what = _why_offline(directory, entry, error)
        log.error("%s", what)
        offline_replica = found.offline_replica(what, directory, entry.partition)._replace(
            sizes=sizes, used_in=lost, may_return=isinstance(error, DiskFull | TooManyFiles)
        )
        replicas.keep_offline(topic, index, offline_replica)
        return 0
    if accepted:
        _log_accepted(entry.partition, opened, found.recovery_points.get(entry.partition, 0))
    if opened.recovery.full is not None:
        directory.filled_up(opened.recovery.full)
    _log_recovery(entry.partition, opened)
    high_watermark = found.high_watermarks.get(entry.partition, 0)
    replicas.adopt(
        replicas.make_partition(topic, index, directory, opened, high_watermark=high_watermark)
    )
    return 1


def _lost_records(
    directory: LogDirectory, entry: PartitionDirectory, before: Placement | None
) -> bytes | None:
    """Return the directory that the placements give for the records, if this one holds no segment.
    The checkpoints of this directory do not name records that were in another one."""
    if before is None or before.state is PlacementState.MADE:
        return None
    is_elsewhere = before.directory_id not in (directory.directory_id, ZERO_ID)
    if not is_elsewhere and before.state is not PlacementState.DURABLE:
        return None  # perhaps without a record: the checkpoints tell
    if any(name.endswith(LOG) for name in directory.disk.list(entry.name)):
        return None
    return before.directory_id


def _log_accepted(partition: TopicPartition, opened: Log, durable_to: int) -> None:
    log.warning(
        "%s goes on with what is left of its records, as %s/%s/%s asks for: it starts at offset %d"
        " and ends at %d, and offsets below %d were durable. The file is removed",
        partition,
        opened.disk.root,
        opened.directory,
        ACCEPT_LOSS,
        opened.start_offset,
        opened.end_offset,
        durable_to,
    )


def _remove_acceptances(directory: LogDirectory) -> None:
    """Remove the requests to give up records, when the logs and the checkpoints without those
    records are durable. A kill before that finds the request again."""
    accepted = [each for each in directory.partitions if each.log.recovery.salvaged]
    if accepted:
        directory.disk.sync_everything_now()
    for each in accepted:
        directory.disk.remove_now(f"{each.log.directory}/{ACCEPT_LOSS}")


def _retire(
    broker: "StartupBroker", directory: LogDirectory, entry: PartitionDirectory, topic_id: bytes
) -> None:
    log.info("%s/%s: its topic was deleted before the stop", directory.disk.root, entry.name)
    name, index = entry.partition
    broker.replicas.deletion.take_now(NewPartition(name, topic_id, index), directory)


def _keep_stray(
    broker: "StartupBroker", directory: LogDirectory, entry: PartitionDirectory
) -> None:
    stray = marked_name(entry.partition, DirectoryKind.STRAY, broker.world.entropy.uuid().hex())
    try:
        directory.disk.rename_now(entry.name, stray)
    except (DiskFull, TooManyFiles) as failure:
        directory.note_failure(failure)
        stray = entry.name
    log.warning(
        "%s/%s belongs to no partition of this node; it is kept as %s and not served",
        directory.disk.root,
        entry.name,
        stray,
    )


def _why_offline(directory: LogDirectory, entry: PartitionDirectory, error: DiskFailed) -> str:
    what = f"{entry.partition} stays offline: {error}"
    if isinstance(error, TooManyFiles):
        return what + ". Nothing is lost: raise the limit (ulimit -n) and start again"
    if isinstance(error, DiskFull):
        return what + ". Nothing is lost: make room there and start again"
    return what + (
        "; or, to go on with what is left, make an empty file"
        f" {directory.disk.root}/{entry.name}/{ACCEPT_LOSS}; then start again"
    )


def _topic_of(
    broker: "StartupBroker", directory: LogDirectory, entry: PartitionDirectory
) -> Topic | None:
    topic = broker.image.topics.get(entry.partition.topic)
    stored_id = _stored_id(broker, directory, entry)
    return topic if _belongs_here(broker, topic, entry, stored_id) else None


def _keep_offline(
    broker: "StartupBroker",
    checkpoints: Mapping[LogDirectory, _LogDirCheckpoints],
    directory: LogDirectory,
    entry: PartitionDirectory,
    reason: str,
    used_in: bytes | None,
) -> None:
    topic = broker.image.topics[entry.partition.topic]
    offline_replica = checkpoints[directory].offline_replica(reason, directory, entry.partition)
    offline_replica = offline_replica._replace(used_in=used_in)
    broker.replicas.keep_offline(topic, entry.partition.partition, offline_replica)


def _note_used_elsewhere(broker: "StartupBroker") -> None:
    """Store the placements if a partition is used in another directory than before, or was offline:
    its former disk may come back with an old copy."""
    placements = broker.replicas.placements
    for partition in broker.replicas.all():
        before = placements.before.get((partition.topic_id, partition.index))
        if before is None:
            continue
        same = before.directory_id in (partition.directory.directory_id, ZERO_ID)
        if not same or before.is_offline:
            placements.store_now()
            return


def _log_recovery(partition: TopicPartition, opened: Log) -> None:
    """Log the result of a recovery that operators may need."""
    report = opened.recovery
    if report.set_aside:
        log.error(
            "%s ended at offset %d, and starts at %d by %s of its directory: it goes on there,"
            " without records. Those that it had are kept in %s. If they were deleted before power"
            " was lost, remove that; else read them from there",
            partition,
            report.ended_at,
            opened.start_offset,
            START_OFFSETS,
            report.set_aside,
        )
    for complaint in report.complaints:
        log.warning("%s: %s", partition, complaint)
    for offset, position, segment_base in opened.damaged:
        log.error(
            "%s: the batch at offset %d (byte %d of %s) does not match its checksum; it was durable"
            " and is kept, and readers of it get CORRUPT_MESSAGE",
            partition,
            offset,
            position,
            f"{opened.disk.root}/{segment_file(opened.directory, segment_base, LOG)}",
        )
    if report.kept_segments:
        log.error(
            "%s now ends at offset %d: the next records are missing or damaged. Its %d later"
            " segments are outside of the log and were kept as %s. If power was lost, remove them."
            " If not, files were cut or removed from outside: stop the node, restore these files"
            " from a copy, give the kept segments their names back (%s), and start it again",
            partition,
            opened.end_offset,
            len(report.kept_segments),
            " to ".join(dict.fromkeys((report.kept_segments[0], report.kept_segments[-1]))),
            f"OFFSET{LOG}",
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


def _stored_id(
    broker: "StartupBroker", directory: LogDirectory, entry: PartitionDirectory
) -> bytes | None:
    """Return the topic id of a directory. Without partition.metadata, lost with the power before it
    was durable, the placements tell: the directory may belong to a former topic of the name."""
    stored_id = read_metadata(directory.disk, entry.name)
    if stored_id is not None:
        return stored_id
    ids = broker.replicas.placements.ids_of(*entry.partition, directory.directory_id)
    known = [each for each in ids if broker.image.topic(each) is not None]
    return next(iter(known or ids), None)


def _was_deleted(broker: "StartupBroker", topic_id: bytes, index: int) -> bool:
    """Return whether a directory belongs to a topic that was here and was deleted. Any other
    unknown directory is kept."""
    if broker.image.topic(topic_id) is not None:
        return False
    return broker.replicas.placements.outlived((topic_id, index), broker.image.offset)


def _keep_leaving(broker: "StartupBroker") -> None:
    """Note files of deleted topics in directories that are away, so that a later start deletes
    them."""
    replicas = broker.replicas
    seen = {each.directory_id for each in replicas.directories if not each.failed}
    for place, placed in replicas.placements.before.items():
        if placed.directory_id not in seen and _was_deleted(broker, *place):
            name = replicas.placements.names.get(place[0], "")
            is_known = placed.directory_id != ZERO_ID
            perhaps_in = [placed.directory_id] if is_known else [*replicas.placements.paths]
            for directory_id in perhaps_in:
                if directory_id not in seen:
                    replicas.still_left(place, name, directory_id)
    for place, directory_ids in replicas.placements.left.items():
        for directory_id in directory_ids:
            if directory_id not in seen:
                name = replicas.placements.names.get(place[0], "")
                replicas.still_left(place, name, directory_id)


def _belongs_here(
    broker: "StartupBroker", topic: Topic | None, entry: PartitionDirectory, stored_id: bytes | None
) -> bool:
    if topic is None or entry.partition.partition not in topic.partitions:
        return False
    if broker.node_id not in topic.partitions[entry.partition.partition].replicas:
        return False
    return stored_id is None or stored_id == topic.topic_id
