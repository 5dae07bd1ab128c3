"""Opens the partitions of a node at its start: what the disks hold against what the image says.

After a clean stop nothing is scanned. After a kill each log recovers from its recovery point, and
what that found is said. A partition that was here and is not found, or cannot be opened, stays
offline: made anew it would be empty, and its offsets would be given out twice.
"""

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.arrivals import (
    Departed,
    begin_anew,
    drop_marks,
    put_originals_away,
    settle_moves,
)
from penstock.broker.directory import Directory
from penstock.broker.doubles import settle_doubles
from penstock.broker.hosting import Refused
from penstock.broker.losses import refuse_lost
from penstock.broker.making import Wanted
from penstock.broker.partition import Partition
from penstock.broker.placements import Placed, Sizes, State, format_sizes, parse_sizes
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
    Kind,
    PartitionDirectory,
    marked_name,
    partition_directories,
    read_metadata,
    segment_file,
)
from penstock.log.log import Log
from penstock.log.recovery import LogCorrupted, open_log
from penstock.model import CLUSTER_METADATA_TOPIC, ZERO_ID, TopicPartition, id_from_text
from penstock.world import Disk, DiskFailed, DiskFull, FileLost, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.loading")

CLEAN_MARKER = ".kafka_cleanshutdown"
SIZES = "penstock-segment-sizes"
_SIZES_VERSION = "0"
NO_BROKER_EPOCH = -1


class _Found(NamedTuple):
    """What a directory's checkpoints say."""

    clean: bool
    recovery_points: Mapping[TopicPartition, int]
    start_offsets: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    sizes: Mapping[str, Sizes]  # of the segments at the clean stop, by partition directory

    @property
    def named(self) -> Collection[TopicPartition]:
        return self.recovery_points.keys() | self.start_offsets.keys()

    def refused(self, reason: str, directory: Directory, partition: TopicPartition) -> Refused:
        return Refused(
            reason,
            directory.directory_id,
            partition,
            self.recovery_points.get(partition, 0),
            self.start_offsets.get(partition, 0),
            self.sizes.get(str(partition)),
        )


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


def write_clean_marker(disk: Disk, broker_epoch: int, closed: Iterable[Partition]) -> None:
    """What a start may rely on, and last the word that it may; `closed` are the partitions of which
    all is written."""
    lines = [_SIZES_VERSION, str(broker_epoch)]
    lines += [f"{each} {format_sizes(each.log.sizes())}" for each in closed]
    disk.replace_now(SIZES, "\n".join([*lines, ""]).encode())
    content = {"version": 0, "brokerEpoch": broker_epoch}
    disk.replace_now(CLEAN_MARKER, json.dumps(content, separators=(",", ":")).encode())


def _read_sizes(disk: Disk) -> dict[str, Sizes]:
    """How long each segment was at the clean stop that came before. Another server may have run
    since: then the stop was that one's, with another epoch, and the sizes are old."""
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


def load_partitions(broker: "Broker") -> Iterator[None]:
    """Open what is there, make what was never made; a step for each partition. Waits for the
    disks; nobody is served yet, but those who ask how far it is can be answered between two steps.

    TooManyFiles if the directories cannot even be looked at.
    """
    hosting = broker.hosting
    hosting.placements.load()
    entries: dict[Directory, list[PartitionDirectory]] = {}
    checkpoints: dict[Directory, _Found] = {}
    for directory in hosting.directories:
        if directory.failed:
            continue
        with _failing(directory):
            checkpoints[directory] = _checkpoints(directory.disk)
            entries[directory] = partition_directories(directory.disk)
    refuse = partial(_refuse, broker, checkpoints)
    settled = settle_moves(broker, entries, partial(_ours, broker), refuse)
    settle_doubles(broker, entries, partial(_ours, broker), refuse)
    broker.recovering.begin(sum(map(_partitions_in, entries.values())))
    for directory, listed in entries.items():
        with _failing(directory):
            found = checkpoints[directory]
            yield from _load_directory(broker, directory, listed, found, settled.starts)
            directory.sync_recovered_now()
    refuse_lost(
        broker,
        {each: found.recovery_points for each, found in checkpoints.items()},
        {each: found.start_offsets for each, found in checkpoints.items()},
        _moved_to(settled.originals),
    )
    broker.recovering.end()
    _keep_leaving(broker)
    hosting.note_refused_now()
    _note_used_elsewhere(broker)
    kept = put_originals_away(broker, settled.originals)
    full: set[Directory] = set()
    for directory in {directory: None for directory, _ in settled.finished}:
        if not directory.failed:
            with _failing(directory):
                if not hosting.checkpoints.start_offsets_now(directory):
                    full.add(directory)  # its marks say where its logs start
    finished = {each: marks for each, marks in settled.finished.items() if each[0] not in full}
    drop_marks(finished, kept)
    for directory in hosting.directories:
        if not directory.failed:
            with _failing(directory):
                # From here on a kill is a kill: the marker must not outlive what it speaks of.
                directory.disk.remove_now(CLEAN_MARKER)
                hosting.checkpoints.forget_gone_now(directory, checkpoints[directory].named)
                _remove_acceptances(directory)
    if not any(each.failed for each in hosting.directories):
        hosting.placements.all_seen(sought=hosting.sought)
    hosting.make_missing()
    begin_anew(broker, settled.wishes)


@contextmanager
def _failing(directory: Directory) -> Iterator[None]:
    """A directory that cannot be loaded is offline, and so is all that may be in it."""
    try:
        yield
    except TooManyFiles as failure:
        raise TooManyFiles(f"{failure}. Raise the limit (ulimit -n) and start again") from failure
    except DiskFailed as failure:
        directory.take_offline(failure)


def _load_directory(
    broker: "Broker",
    directory: Directory,
    entries: list[PartitionDirectory],
    found: _Found,
    arrived: Mapping[tuple[Directory, str], int],
) -> Iterator[None]:
    """`arrived` says where the logs start that a move has put here."""
    disk = directory.disk
    opened = 0
    for entry in entries:
        if entry.partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        if entry.kind is Kind.DELETED:
            broker.hosting.remove_later(directory, entry.name)
        elif entry.kind is Kind.LIVE:
            broker.recovering.open(f"{disk.root}/{entry.name}")
            moved_start = arrived.get((directory, entry.name))
            opened += _load(broker, directory, entry, found, moved_start)
            broker.recovering.opened()
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


def _moved_to(originals: Sequence[Departed]) -> Mapping[str, Sequence[bytes]]:
    """Where those may be that were found to have moved, by their names."""
    found: dict[str, list[bytes]] = {}
    for _, entry, departure in originals:
        with suppress(ValueError):  # a mark that makes no sense names no directory
            found.setdefault(entry.name, []).append(id_from_text(departure.target_id))
    return found


def _partitions_in(entries: list[PartitionDirectory]) -> int:
    return sum(
        each.kind is Kind.LIVE and each.partition.topic != CLUSTER_METADATA_TOPIC
        for each in entries
    )


def _checkpoints(disk: Disk) -> _Found:
    offsets = {}
    for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS):
        read = read_offsets(disk, name)
        offsets[name] = read.offsets
        if read.complaint:
            log.warning("%s/%s is not used: %s", disk.root, name, read.complaint)
    clean = disk.exists(CLEAN_MARKER)
    return _Found(
        clean,
        offsets[RECOVERY_POINTS],
        offsets[START_OFFSETS],
        offsets[HIGH_WATERMARKS],
        _read_sizes(disk),
    )


def _load(
    broker: "Broker",
    directory: Directory,
    entry: PartitionDirectory,
    found: _Found,
    moved_start: int | None,
) -> int:
    """1 if the partition is open now."""
    hosting, disk = broker.hosting, directory.disk
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
    if hosting.is_refused(topic.topic_id, index):
        hosting.refuse_too(topic, index, found.refused("", directory, entry.partition))
        return 0
    before = hosting.placements.before.get((topic.topic_id, index))
    # One that was offline was not written to at the stop: the stop says nothing about it.
    was_offline = before is not None and before.state in (State.OFFLINE, State.SOUGHT)
    sizes = found.sizes.get(entry.name)
    # Nor about one that came here while the node stopped.
    clean = found.clean and not was_offline and (moved_start is None or sizes is not None)
    if was_offline:
        sizes = hosting.placements.sizes.get((topic.topic_id, index))
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
            hosting.settings(name).log,
            now_ms=broker.world.clock.wall_ms(),
            clean=clean,
            recovery_point=found.recovery_points.get(entry.partition, 0),
            start_offset=max(found.start_offsets.get(entry.partition, 0), moved_start or 0),
            salvage=accepted,
            sizes=sizes,
            files=directory.files,
            failed=directory.fail,
            scanned=broker.recovering.scanned,
            sync_follows=True,
            may_wait=True,
        )
    except (LogCorrupted, FileLost, DiskFull, TooManyFiles) as error:
        what = _why_refused(directory, entry, error)
        log.error("%s", what)
        refused = found.refused(what, directory, entry.partition)
        hosting.refuse(topic, index, refused._replace(sizes=sizes, used_in=lost))
        return 0
    if accepted:
        _say_accepted(entry.partition, opened, found.recovery_points.get(entry.partition, 0))
    if opened.recovery.full is not None:
        directory.filled_up(opened.recovery.full)
    _say(entry.partition, opened)
    high_watermark = found.high_watermarks.get(entry.partition, 0)
    hosting.adopt(
        hosting.make_partition(topic, index, directory, opened, high_watermark=high_watermark)
    )
    return 1


def _lost_records(
    directory: Directory, entry: PartitionDirectory, before: Placed | None
) -> bytes | None:
    """Return the directory that the placements give for the records, if this one holds no segment.
    The checkpoints of this directory do not name records that were in another one."""
    if before is None or before.state is State.MADE:
        return None
    is_elsewhere = before.directory_id not in (directory.directory_id, ZERO_ID)
    if not is_elsewhere and before.state is not State.DURABLE:
        return None  # perhaps without a record: the checkpoints beside the directory tell
    if any(name.endswith(LOG) for name in directory.disk.list(entry.name)):
        return None
    return before.directory_id


def _say_accepted(partition: TopicPartition, opened: Log, durable_to: int) -> None:
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


def _remove_acceptances(directory: Directory) -> None:
    """Remove the requests to give up records, when the logs and the checkpoints without those
    records are durable. A kill before that finds the request again."""
    accepted = [each for each in directory.partitions if each.log.recovery.salvaged]
    if accepted:
        directory.disk.sync_everything_now()
    for each in accepted:
        directory.disk.remove_now(f"{each.log.directory}/{ACCEPT_LOSS}")


def _retire(
    broker: "Broker", directory: Directory, entry: PartitionDirectory, topic_id: bytes
) -> None:
    log.info("%s/%s: its topic was deleted before the stop", directory.disk.root, entry.name)
    name, index = entry.partition
    broker.hosting.leaving.take_now(Wanted(name, topic_id, index), directory)


def _keep_stray(broker: "Broker", directory: Directory, entry: PartitionDirectory) -> None:
    stray = marked_name(entry.partition, Kind.STRAY, broker.world.entropy.uuid().hex())
    try:
        directory.disk.rename_now(entry.name, stray)
    except (DiskFull, TooManyFiles) as failure:
        directory.heard(failure)
        stray = entry.name
    log.warning(
        "%s/%s belongs to no partition of this node; it is kept as %s and not served",
        directory.disk.root,
        entry.name,
        stray,
    )


def _why_refused(directory: Directory, entry: PartitionDirectory, error: DiskFailed) -> str:
    what = f"{entry.partition} stays offline: {error}"
    if isinstance(error, TooManyFiles):
        return what + ". Nothing is lost: raise the limit (ulimit -n) and start again"
    if isinstance(error, DiskFull):
        return what + ". Nothing is lost: make room there and start again"
    return what + (
        "; or, to go on with what is left, make an empty file"
        f" {directory.disk.root}/{entry.name}/{ACCEPT_LOSS}; then start again"
    )


def _ours(broker: "Broker", directory: Directory, entry: PartitionDirectory) -> Topic | None:
    topic = broker.image.topics.get(entry.partition.topic)
    stored_id = _stored_id(broker, directory, entry)
    return topic if _belongs_here(broker, topic, entry, stored_id) else None


def _refuse(
    broker: "Broker",
    checkpoints: Mapping[Directory, _Found],
    directory: Directory,
    entry: PartitionDirectory,
    reason: str,
    used_in: bytes | None,
) -> None:
    topic = broker.image.topics[entry.partition.topic]
    refused = checkpoints[directory].refused(reason, directory, entry.partition)
    refused = refused._replace(used_in=used_in)
    broker.hosting.refuse(topic, entry.partition.partition, refused)


def _note_used_elsewhere(broker: "Broker") -> None:
    """A partition that is used in another directory than before, or that was offline, as its disk
    is away and somebody gave it up: when the disk is back, that must be known from the first record
    on."""
    placements = broker.hosting.placements
    for partition in broker.hosting.all():
        before = placements.before.get((partition.topic_id, partition.index))
        if before is None:
            continue
        same = before.directory_id in (partition.directory.directory_id, ZERO_ID)
        if not same or before.state in (State.OFFLINE, State.SOUGHT):
            placements.store_now()
            return


def _say(partition: TopicPartition, opened: Log) -> None:
    """What a recovery did that somebody may have to know."""
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
    if report.truncated_bytes:
        log.warning(
            "%s: %d bytes at the end were not whole and are cut off (%d whole segments removed);"
            " the log now ends at offset %d",
            partition,
            report.truncated_bytes,
            report.segments_removed,
            opened.end_offset,
        )


def _stored_id(broker: "Broker", directory: Directory, entry: PartitionDirectory) -> bytes | None:
    """The id of a partition, also if its own file does not tell, since power was lost before
    anything of it was durable. It may be what is left of a topic that had the name before."""
    stored_id = read_metadata(directory.disk, entry.name)
    if stored_id is not None:
        return stored_id
    ids = broker.hosting.placements.ids_of(*entry.partition, directory.directory_id)
    known = [each for each in ids if broker.image.topic(each) is not None]
    return next(iter(known or ids), None)


def _was_deleted(broker: "Broker", topic_id: bytes, index: int) -> bool:
    """Whether a directory is what is left of a topic that was here and is no more. Anything else
    that does not belong here is nobody's to remove."""
    if broker.image.topic(topic_id) is not None:
        return False
    return broker.hosting.placements.outlived((topic_id, index), broker.image.offset)


def _keep_leaving(broker: "Broker") -> None:
    """What was deleted and lies in a directory that cannot be looked at is still known for that
    when it can be."""
    hosting = broker.hosting
    seen = {each.directory_id for each in hosting.directories if not each.failed}
    for place, placed in hosting.placements.before.items():
        if placed.directory_id not in seen and _was_deleted(broker, *place):
            name = hosting.placements.names.get(place[0], "")
            is_known = placed.directory_id != ZERO_ID
            perhaps_in = [placed.directory_id] if is_known else [*hosting.placements.paths]
            for directory_id in perhaps_in:
                if directory_id not in seen:
                    hosting.still_left(place, name, directory_id)
    for place, directory_ids in hosting.placements.left.items():
        for directory_id in directory_ids:
            if directory_id not in seen:
                name = hosting.placements.names.get(place[0], "")
                hosting.still_left(place, name, directory_id)


def _belongs_here(
    broker: "Broker", topic: Topic | None, entry: PartitionDirectory, stored_id: bytes | None
) -> bool:
    if topic is None or entry.partition.partition not in topic.partitions:
        return False
    if broker.node_id not in topic.partitions[entry.partition.partition].replicas:
        return False
    return stored_id is None or stored_id == topic.topic_id
