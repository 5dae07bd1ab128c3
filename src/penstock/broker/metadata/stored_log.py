"""The metadata log on a disk: a partition's log, used the way the quorum needs it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.log.checkpoints import RECOVERY_POINTS, read_offsets
from penstock.log.config import LogConfig
from penstock.log.directory import EPOCHS_FILE, LOG, parse_segment_file
from penstock.log.log import Log
from penstock.log.recovery import open_log
from penstock.log.retention import advance_start, delete_old_segments
from penstock.model import METADATA_PARTITION, METADATA_TOPIC_ID
from penstock.raft.errors import QuorumFilesCorrupt
from penstock.raft.log_view import (
    BOOTSTRAP_SNAPSHOT,
    EpochStart,
    LogView,
    StoredSnapshot,
    continues_snapshot,
)
from penstock.raft.protocols import BATCH_BYTES_MAX
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.world import Clock, Cold, Disk, DiskFailed, Done, File, FileLost

SEGMENT_BYTES = 1 << 30
# Room that the log takes in advance: a node on a disk without a byte left still starts, and its
# topics can be deleted.
AHEAD_BYTES = 256 * 1024


class StoredLog:
    """The metadata log in a directory (raft.protocols.MetadataLog).

    `snapshot_id` is the newest whole snapshot; a log that does not continue it begins again there.
    Records below `durable_to` were committed and synced: a log without them is corrupt, and is not
    truncated.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        clock: Clock,
        snapshot_id: MetadataSnapshotId | None,
        durable_to: int = 0,
    ) -> None:
        recovered_to = snapshot_id.end_offset if snapshot_id else 0
        self._clock = clock
        self._synced_to = durable_to  # a snapshot covers what was not synced
        self._durable_to = max(durable_to, recovered_to)
        # Snapshots alone decide what goes; age and size never do.
        config = replace(config, delete=True, retention_ms=-1, retention_bytes=-1)
        now_ms = clock.wall_ms()
        names = (parse_segment_file(name) for name in disk.list(directory))
        if any(name and name[1] == LOG for name in names):
            log = self._open(disk, directory, config, 0)
            if log.end_offset < recovered_to:
                # The snapshot covers the whole log and more: start the log again behind it.
                log.active.file.close()
                log = self._open(disk, directory, config, recovered_to)
            elif snapshot_id and durable_to <= recovered_to and not _continues(log, snapshot_id):
                # A crash came between the installation of the snapshot and the cut of the log.
                log.active.file.close()
                _remove_segments_now(disk, directory)
                log = Log.create(
                    disk, directory, METADATA_TOPIC_ID, config, now_ms, start_offset=recovered_to
                )
            self._check_durable(log, f"{disk.root}/{directory}")
        else:
            if recovered_to < durable_to:
                raise QuorumFilesCorrupt(
                    f"{disk.root}/{directory} holds no metadata log, and its snapshots end at "
                    f"offset {recovered_to}, while everything below {durable_to} was durable. "
                    "Nothing was changed. Restore the directory from a copy."
                )
            log = Log.create(
                disk, directory, METADATA_TOPIC_ID, config, now_ms, start_offset=recovered_to
            )
        self._log: Log = log
        self._reserved: File | None = None
        self._reserved_to = 0
        self._reserve()

    def _open(self, disk: Disk, directory: str, config: LogConfig, start_offset: int) -> Log:
        return open_log(
            disk,
            directory,
            config,
            now_ms=self._clock.wall_ms(),
            clean=False,
            recovery_point=self._synced_to,
            start_offset=start_offset,
            whole=False,  # snapshots may hold what it lacks: _check_durable knows
        )

    def _check_durable(self, log: Log, where: str) -> None:
        broken = log.recovery.corrupt[0][0] if log.recovery.corrupt else log.end_offset
        if log.recovery.corrupt or broken < self._durable_to:
            raise QuorumFilesCorrupt(
                f"The metadata log in {where} is broken at offset {broken}, which was durable. "
                "Nothing was changed. Restore the directory from a copy, or repair the disk under "
                "it."
            )

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    def epoch_starts(self) -> list[tuple[int, int]]:
        return self._log.epochs.entries()

    def append(self, data: bytes) -> None:
        self._log.append_as_follower(data, self._clock.wall_ms())
        self._reserve()

    def _reserve(self) -> None:
        """Reserve room on the disk for the next appends."""
        active = self._log.active
        if active.file is not self._reserved or active.size + AHEAD_BYTES // 2 > self._reserved_to:
            self._reserved, self._reserved_to = active.file, active.size + AHEAD_BYTES
            active.file.reserve(self._reserved_to, _no_matter)

    def read(self, offset: int, size_max: int) -> bytes:
        if offset >= self._log.end_offset:
            return b""
        found = self._log.read(
            offset, size_max, upper_offset=self._log.end_offset, min_one_batch=True
        )
        assert found.file is not None, "there is something below the end"
        return found.file.read(found.position, found.size)

    def read_now(self, offset: int, size_max: int) -> bytes:
        while True:
            try:
                return self.read(offset, size_max)
            except Cold as cold:
                cold.file.read_now(cold.position, cold.size)

    def truncate(self, offset: int, done: Done) -> None:
        self._log.truncate_to(offset, self._clock.wall_ms(), self._ended(done))
        self._reserved = None

    def begin_at(self, offset: int, done: Done) -> None:
        self._log.truncate_fully_and_start_at(offset, self._clock.wall_ms(), self._ended(done))
        self._reserved = None

    def _ended(self, done: Done) -> Done:
        """Return a callback for the end of a truncation, which a failed disk calls too."""

        def ended(failure: DiskFailed | None) -> None:
            self._log.chores.when_failed(None)
            done(failure)

        self._log.chores.when_failed(ended)
        return ended

    def retry(self) -> None:
        self._log.chores.retry()

    def flush(self, done: Done) -> None:
        files, offset = self._log.begin_sync()
        waiting = len(files)
        first_failure: DiskFailed | None = None

        def synced(file: File, failure: DiskFailed | None) -> None:
            nonlocal waiting, first_failure
            waiting -= 1
            if not (isinstance(failure, FileLost) and self._has_deleted(file)):
                first_failure = first_failure or failure
            if waiting > 0:
                return
            if first_failure is None:
                self._log.synced_to(offset)
            done(first_failure)

        for file in files:
            file.sync(partial(synced, file))
        if not files:
            done(None)

    def _has_deleted(self, file: File) -> bool:
        """Return whether a file is that of a segment that left the log, which renames it."""
        held = {self._log.active.file.path, *(each.path(LOG) for each in self._log.closed)}
        return file.path.endswith(LOG) and file.path not in held

    def delete_before(self, offset: int) -> None:
        log, now_ms = self._log, self._clock.wall_ms()
        if log.truncating:
            return  # tried again after the next snapshot
        log.roll(now_ms)
        advance_start(log, min(offset, log.end_offset))
        try:
            delete_old_segments(log, now_ms, offset, self._remove)
        except Cold:
            return  # tried again after the next snapshot

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._log.removals.remove(path)

    def close(self) -> None:
        if self._log.chores.failure is None and not self._log.busy:
            self._log.close()
        else:
            # Acknowledged records are synced; a start rebuilds the indexes beside them.
            self._log.active.file.close()


def _continues(log: Log, snapshot_id: MetadataSnapshotId) -> bool:
    """Return whether a log holds the record that a snapshot ends with. The snapshot of formatting
    ends before the first record."""
    if snapshot_id == BOOTSTRAP_SNAPSHOT:
        return True
    epochs = [EpochStart(*each) for each in log.epochs.entries()]
    snapshots = [StoredSnapshot(snapshot_id, 0)]
    return continues_snapshot(
        LogView(log.start_offset, log.end_offset, epochs, snapshots), snapshot_id
    )


def _remove_segments_now(disk: Disk, directory: str) -> None:
    """Remove the log. Snapshots stay, whose names begin with an offset too."""
    for name in sorted(disk.list(directory), reverse=True):
        parsed = parse_segment_file(name)
        if name == EPOCHS_FILE or (parsed and parsed[1].startswith(".")):
            disk.remove_now(f"{directory}/{name}")


def _no_matter(_failure: DiskFailed | None) -> None:
    """Ignore a failure: without reserved room, an append fails by itself."""


def open_stored_log(
    disk: Disk, directory: str, clock: Clock, segment_bytes: int = SEGMENT_BYTES
) -> Callable[[MetadataSnapshotId | None], StoredLog]:
    """Return a function that opens the log behind a snapshot."""
    config = LogConfig(segment_bytes=segment_bytes, message_bytes_max=BATCH_BYTES_MAX)
    points = read_offsets(disk, RECOVERY_POINTS).offsets
    durable_to = points.get(METADATA_PARTITION, 0)
    return lambda snapshot_id: StoredLog(disk, directory, config, clock, snapshot_id, durable_to)
