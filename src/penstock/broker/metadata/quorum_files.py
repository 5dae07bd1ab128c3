"""Files of the metadata quorum on a disk: `quorum-state`, snapshots, and the log.

Satisfies raft.protocols.QuorumFiles. Methods that end in `_now` wait for the disk.
"""

from collections.abc import Callable, Iterator

from penstock.broker.metadata.snapshot_files import (
    PART_SUFFIX,
    SnapshotFileWriter,
    list_snapshots,
    read_snapshot,
    remove_parts_now,
)
from penstock.log.checkpoints import read_whole
from penstock.raft.errors import QuorumFilesCorrupt
from penstock.raft.log_view import StoredSnapshot
from penstock.raft.protocols import InstallDone, MetadataLog
from penstock.raft.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot
from penstock.wire.primitives import Buffer
from penstock.world import Disk, DiskFailed, Done, Timers

METADATA_DIRECTORY = "__cluster_metadata-0"
QUORUM_STATE = "quorum-state"
SNAPSHOTS_KEPT = 2  # the newest, and one to fall back to


def missing_state_text(directory: str) -> str:
    """Return why a controller of several does not start without `quorum-state`."""
    return (
        f"{directory}/{QUORUM_STATE} is missing, but this node has taken part in the quorum: the "
        "metadata log beside it has records. The file holds the epoch and vote of this node. "
        "Restore its latest copy: with an older one, or without the file, the node could vote "
        "twice in one epoch. The other controllers serve without it."
    )


class DiskQuorumFiles:
    """The directory of the metadata partition. `open_log` gets the newest whole snapshot."""

    def __init__(
        self,
        disk: Disk,
        timers: Timers,
        open_log: Callable[[MetadataSnapshotId | None], MetadataLog],
        directory: str = METADATA_DIRECTORY,
    ) -> None:
        self._disk = disk
        self._timers = timers
        self._directory = directory
        self.open_log = open_log

    @property
    def path(self) -> str:
        return f"{self._disk.root}/{self._directory}"

    def prepare_now(self) -> None:
        self._disk.make_directory(self._directory)
        remove_parts_now(self._disk, self._directory)

    # -- snapshots

    def load_newest_snapshot_now(self) -> Snapshot | None:
        failure: QuorumFilesCorrupt | None = None
        for snapshot_id in reversed(list_snapshots(self._disk, self._directory)):
            try:
                return self.read_snapshot_now(snapshot_id)
            except QuorumFilesCorrupt as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return None

    def read_snapshot_now(self, snapshot_id: MetadataSnapshotId) -> Snapshot:
        return read_snapshot(self._disk, self._path_of(snapshot_id), snapshot_id)

    def stored_snapshots(self) -> list[StoredSnapshot]:
        return [
            StoredSnapshot(snapshot_id, self._disk.size(self._path_of(snapshot_id)))
            for snapshot_id in list_snapshots(self._disk, self._directory)
        ]

    def snapshot_writer(
        self, snapshot_id: MetadataSnapshotId, batches: Iterator[bytes], done: Done
    ) -> SnapshotFileWriter:
        path = self._path_of(snapshot_id)
        return SnapshotFileWriter(self._disk, path, batches, soon=self._timers.soon, done=done)

    # -- downloads

    def read_slice(self, snapshot_id: MetadataSnapshotId, position: int, size_max: int) -> bytes:
        file = self._disk.open(self._path_of(snapshot_id))
        try:
            return file.read(position, min(size_max, file.size - position))
        finally:
            file.close()

    def store_slice(self, snapshot_id: MetadataSnapshotId, position: int, data: Buffer) -> None:
        path = self._path_of(snapshot_id) + PART_SUFFIX
        if position == 0 and self._disk.exists(path):
            self._disk.remove_now(path)
        file = self._disk.open(path, create=True)
        try:
            file.append([data])
        finally:
            file.close()

    def drop_download(self, snapshot_id: MetadataSnapshotId) -> None:
        # A part that cannot be removed is removed by the next start.
        self._disk.remove(self._path_of(snapshot_id) + PART_SUFFIX, lambda _failure: None)

    def install(self, snapshot_id: MetadataSnapshotId, done: InstallDone) -> None:
        path = self._path_of(snapshot_id)
        part = path + PART_SUFFIX
        found: list[Snapshot] = []
        rejections: list[QuorumFilesCorrupt] = []

        def check() -> None:
            try:
                found.append(read_snapshot(self._disk, part, snapshot_id))
            except QuorumFilesCorrupt as rejection:
                rejections.append(rejection)
                self._disk.remove_now(part)
                return
            file = self._disk.open(part)
            try:
                file.sync_now()
            finally:
                file.close()
            self._disk.rename_now(part, path)

        def checked(failure: DiskFailed | None) -> None:
            if failure is not None or rejections:
                done(failure or rejections[0], None, 0)
            else:
                done(None, found[0], self._disk.size(path))

        self._disk.offload_all([check], checked)

    def delete_snapshots_before(self, snapshot_id: MetadataSnapshotId) -> None:
        for known in list_snapshots(self._disk, self._directory):
            if known < snapshot_id:
                self._disk.remove(self._path_of(known), lambda _failure: None)

    def delete_old_snapshots(self) -> MetadataSnapshotId:
        known = list_snapshots(self._disk, self._directory)
        for snapshot_id in known[:-SNAPSHOTS_KEPT]:
            # A snapshot that cannot be removed is removed after the next one.
            self._disk.remove(self._path_of(snapshot_id), lambda _failure: None)
        return known[-SNAPSHOTS_KEPT:][0]

    def _path_of(self, snapshot_id: MetadataSnapshotId) -> str:
        return f"{self._directory}/{snapshot_id.file_name}"

    # -- the epoch and the vote

    def load_state_now(self, *, may_be_empty: bool, may_be_missing: bool) -> QuorumState | None:
        path = f"{self._directory}/{QUORUM_STATE}"
        data = read_whole(self._disk, path)
        if data is None and not may_be_missing:
            raise QuorumFilesCorrupt(missing_state_text(self.path))
        if data is None or (may_be_empty and not data.strip(b"\0")):
            return None
        try:
            return parse_quorum_state(data)
        except (ValueError, KeyError, TypeError) as error:
            raise QuorumFilesCorrupt(
                f"{self._disk.root}/{path} is damaged ({error}). It holds the epoch and vote of "
                "this node. Restore its latest copy: with an older one, or without the file, the "
                "node could vote twice in one epoch. The other controllers serve without it."
            ) from error

    def store_state(
        self, state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int, done: Done
    ) -> None:
        data = format_quorum_state(state, voter_ids, kraft_version)
        self._disk.replace(f"{self._directory}/{QUORUM_STATE}", data, done)

    def store_state_now(
        self, state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int
    ) -> None:
        """Write the file durably: an epoch must never be used twice."""
        data = format_quorum_state(state, voter_ids, kraft_version)
        self._disk.replace_now(f"{self._directory}/{QUORUM_STATE}", data)
