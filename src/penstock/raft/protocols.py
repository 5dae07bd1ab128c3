"""Files and links under the quorum. broker/metadata and broker/links implement the protocols.

Methods that end in `_now` wait for the disk.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.raft.log_view import StoredSnapshot
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot
from penstock.raft.voters import VoterEndpoint
from penstock.wire.primitives import Buffer
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

    def read(self, offset: int, size_max: int) -> bytes:
        """Return whole batches, at least one, the first holding `offset`; nothing at the end. Raise
        Cold if they are not in memory."""
        ...

    def read_now(self, offset: int, size_max: int) -> bytes:
        """Return what `read` returns."""
        ...

    def truncate(self, offset: int, done: Done) -> None:
        """Drop all records from `offset` on, durably. Raise Cold before any change."""
        ...

    def begin_at(self, offset: int, done: Done) -> None:
        """Drop all records, and begin again at `offset`."""
        ...

    def retry(self) -> None:
        """Go on with a truncation that a full disk has stopped."""
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


# Gets the failure, or the snapshot and the size of its file.
InstallDone = Callable[[Exception | None, Snapshot | None, int], None]


class QuorumFiles(Protocol):
    """The directory of the metadata partition."""

    @property
    def path(self) -> str:
        """Return the directory, for error messages."""
        ...

    def prepare_now(self) -> None:
        """Make the directory; remove snapshots that are half written."""
        ...

    def open_log(self, snapshot_id: MetadataSnapshotId | None, /) -> MetadataLog:
        """Open the log behind a snapshot. A log that does not continue it begins again there."""
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

    def read_slice(self, snapshot_id: MetadataSnapshotId, position: int, size_max: int) -> bytes:
        """Return a part of a snapshot; raise Cold if the part is not in memory."""
        ...

    def store_slice(self, snapshot_id: MetadataSnapshotId, position: int, data: Buffer) -> None:
        """Write a part of a download; position 0 begins the download again."""
        ...

    def drop_download(self, snapshot_id: MetadataSnapshotId) -> None: ...

    def install(self, snapshot_id: MetadataSnapshotId, done: InstallDone) -> None:
        """Check a complete download and make it durable under its name. A download that is no whole
        snapshot is removed, and gives QuorumFilesCorrupt."""
        ...

    def delete_snapshots_before(self, snapshot_id: MetadataSnapshotId) -> None: ...

    def delete_old_snapshots(self) -> MetadataSnapshotId:
        """Remove all but the newest snapshots; return the oldest one that stays."""
        ...

    def load_state_now(self, *, may_be_empty: bool, may_be_missing: bool) -> QuorumState | None:
        """Return the stored state; None if there is none. An empty file is damage, unless
        `may_be_empty`: an only voter finds its epoch in the log. So is a missing file, unless
        `may_be_missing`."""
        ...

    def store_state(
        self, state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int, done: Done
    ) -> None:
        """Write epoch, leader and vote; `done` follows when they are durable."""
        ...

    def store_state_now(
        self, state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int
    ) -> None: ...


class QuorumTransport(Protocol):
    """The links to the other nodes of the quorum."""

    def send(
        self,
        node_id: int,
        endpoint: VoterEndpoint | None,
        request: QuorumRequest,
        timeout_ms: float,
        answered: Callable[[QuorumResponse | None], None],
    ) -> None:
        """Send a request to a voter. An id below -1 is the address -2 - id of
        controller.quorum.bootstrap.servers. `answered` gets the response on a later turn, or
        None."""
        ...
