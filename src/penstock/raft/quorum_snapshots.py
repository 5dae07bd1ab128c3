"""Snapshots of a quorum on the disk: written in slices, or downloaded and installed."""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from penstock.raft.protocols import MetadataLog, QuorumFiles, SnapshotWriter
from penstock.raft.quorum_events import (
    QuorumEvent,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotWritten,
)
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot
from penstock.world import DiskFailed, DiskFull, Done

log = logging.getLogger("penstock.quorum")


class QuorumSnapshots:
    """`opened` returns the log, None after the end; `step` gives an event to the machine; `fail`
    reports a failure of the disk; `retry` lets the log go on when a full disk has room again."""

    def __init__(
        self,
        files: QuorumFiles,
        opened: Callable[[], MetadataLog | None],
        step: Callable[[QuorumEvent], None],
        fail: Callable[[DiskFailed], None],
        retry: Callable[[], None],
    ) -> None:
        self._files = files
        self._opened = opened
        self._step = step
        self._fail = fail
        self._retry = retry
        self.begins_log = False  # behind a downloaded snapshot
        self._writing: SnapshotWriter | None = None
        self.loaded: Snapshot | None = None  # let go when it is taken
        self.bytes_since = 0  # appended since the newest snapshot

    def take(self, newest: MetadataSnapshotId | None) -> Snapshot | None:
        """Return the newest snapshot, None without any. Waits for the disk, unless a start or a
        download has just read it."""
        loaded, self.loaded = self.loaded, None
        if newest is not None and (loaded is None or loaded.id != newest):
            return self._files.read_snapshot_now(newest)
        return loaded

    # -- own snapshots

    @property
    def is_writing(self) -> bool:
        return self._writing is not None

    def write(self, snapshot_id: MetadataSnapshotId, batches: Iterator[bytes], done: Done) -> None:
        assert self._writing is None, "one snapshot at a time"
        size_bytes = 0

        def counted() -> Iterator[bytes]:
            nonlocal size_bytes
            for batch in batches:
                size_bytes += len(batch)
                yield batch

        bytes_before = self.bytes_since

        def written(failure: DiskFailed | None) -> None:
            self._writing = None
            # After a full disk too: the next attempt waits until it is due again.
            self.bytes_since -= bytes_before
            if failure is None:
                self._step(SnapshotWritten(snapshot_id, size_bytes))
            elif not isinstance(failure, DiskFull):
                self._fail(failure)
            done(failure)

        self._writing = self._files.snapshot_writer(snapshot_id, counted(), written)
        self._writing.start()

    def cancel(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    # -- downloads

    def install(self, snapshot_id: MetadataSnapshotId) -> None:
        """Make a complete download durable, and begin the log again behind it."""
        self._files.install(snapshot_id, partial(self._checked, snapshot_id))

    def _checked(
        self,
        snapshot_id: MetadataSnapshotId,
        failure: Exception | None,
        snapshot: Snapshot | None,
        size_bytes: int,
    ) -> None:
        opened = self._opened()
        if opened is None:
            return
        if isinstance(failure, DiskFailed):
            self._fail(failure)
        elif snapshot is None:
            log.warning("a downloaded snapshot of the metadata is dropped: %s", failure)
            self._step(SnapshotRejected(snapshot_id))
        else:
            self.cancel()
            self.begins_log = True
            opened.begin_at(snapshot_id.end_offset, partial(self._begun, snapshot, size_bytes))
            self._retry()

    def _begun(self, snapshot: Snapshot, size_bytes: int, failure: DiskFailed | None) -> None:
        self.begins_log = False
        if self._opened() is None:
            return
        if failure is not None:
            self._fail(failure)
            return
        self._files.delete_snapshots_before(snapshot.id)
        self.bytes_since = 0
        self.loaded = snapshot
        self._step(
            SnapshotInstalled(snapshot.id, size_bytes, snapshot.kraft_version, snapshot.voters)
        )
