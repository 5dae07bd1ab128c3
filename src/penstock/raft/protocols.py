"""Files under the quorum. broker/metadata implements both protocols on a disk.

Methods that end in `_now` wait for the disk.
"""

from collections.abc import Iterator
from typing import Protocol

from penstock.raft.log_view import StoredSnapshot
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot
from penstock.world import Done

BATCH_BYTES_MAX = 8 * 1024 * 1024


class MetadataLog(Protocol):
    """The log of the metadata partition."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def epoch_starts(self) -> list[tuple[int, int]]:
        """Return each epoch in the log with the offset of its first record, oldest first."""
        ...

    def append(self, data: bytes) -> None:
        """Append one whole batch that carries its offsets and epoch, or raise DiskFailed."""
        ...

    def read_now(self, offset: int, size_max: int) -> bytes:
        """Return whole batches, at least one, the first holding `offset`; nothing at the end."""
        ...

    def flush(self, done: Done) -> None:
        """Sync what was appended before this call."""
        ...

    def delete_before(self, offset: int) -> None:
        """Let go of whole segments below `offset`."""
        ...

    def close(self) -> None: ...


class SnapshotWriter(Protocol):
    """One snapshot on its way to the disk."""

    def start(self) -> None: ...

    def cancel(self) -> None: ...


class QuorumFiles(Protocol):
    """The directory of the metadata partition."""

    @property
    def path(self) -> str:
        """Return the directory, for error messages."""
        ...

    def prepare_now(self) -> None:
        """Make the directory; remove snapshots that are half written."""
        ...

    def open_log(self, covered_to: int, /) -> MetadataLog:
        """Open the log. A snapshot covers every record below `covered_to`."""
        ...

    def load_newest_snapshot_now(self) -> Snapshot | None:
        """Return the newest whole snapshot; raise QuorumFilesCorrupt if none of several is
        whole."""
        ...

    def read_snapshot_now(self, snapshot_id: MetadataSnapshotId) -> Snapshot: ...

    def stored_snapshots(self) -> list[StoredSnapshot]:
        """Return the snapshots that are complete by their names, oldest first."""
        ...

    def snapshot_writer(
        self, snapshot_id: MetadataSnapshotId, batches: Iterator[bytes], done: Done
    ) -> SnapshotWriter: ...

    def delete_old_snapshots(self) -> MetadataSnapshotId:
        """Remove all but the newest snapshots; return the oldest one that stays."""
        ...

    def load_state_now(self) -> QuorumState | None: ...

    def store_state_now(
        self, state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int
    ) -> None: ...
