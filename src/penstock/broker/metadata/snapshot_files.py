"""Snapshots of the metadata as files named `OFFSET-EPOCH.checkpoint`.

A snapshot is written under a name that ends in `.part`, synced, and then renamed.
"""

import re
from collections.abc import Callable, Iterator

from penstock.log.checkpoints import read_whole
from penstock.raft.errors import QuorumFilesCorrupt
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot, parse_snapshot
from penstock.wire.primitives import Malformed
from penstock.world import Disk, DiskFailed, Done, File

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
PART_SUFFIX = ".part"


def list_snapshots(disk: Disk, directory: str) -> list[MetadataSnapshotId]:
    """Return the snapshots that are complete by their names, oldest first."""
    names = (_NAME.fullmatch(name) for name in disk.list(directory))
    return sorted(MetadataSnapshotId(int(name[1]), int(name[2])) for name in names if name)


def remove_parts_now(disk: Disk, directory: str) -> None:
    """Remove snapshots that a crash left half written."""
    for name in disk.list(directory):
        if name.endswith(PART_SUFFIX) and _NAME.fullmatch(name.removesuffix(PART_SUFFIX)):
            disk.remove_now(f"{directory}/{name}")


def read_snapshot(disk: Disk, path: str, snapshot_id: MetadataSnapshotId) -> Snapshot:
    """Return one snapshot; raise QuorumFilesCorrupt if the file is not whole. Waits for the
    disk."""
    try:
        return parse_snapshot(read_whole(disk, path) or b"", snapshot_id)
    except Malformed as error:
        raise QuorumFilesCorrupt(
            f"{disk.root}/{path} is not a whole snapshot: {error}. Restore it from a copy, or "
            "remove it if an older snapshot and the log behind it are there."
        ) from error


class SnapshotFileWriter:
    """Writes one snapshot, a batch per turn of the loop, then syncs and renames the file."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        batches: Iterator[bytes],
        *,
        soon: Callable[[Callable[[], None]], None],
        done: Done,
    ) -> None:
        self._disk = disk
        self._path = path
        self._batches = batches
        self._soon = soon
        self._done = done
        self._cancelled = False
        self._file: File | None = None

    def start(self) -> None:
        """Remove what a failed attempt left, since files are only appended to; then write."""
        self._disk.remove(self._path + PART_SUFFIX, self._cleared)

    def _cleared(self, failure: DiskFailed | None) -> None:
        if failure is not None:
            self._done(failure)
        else:
            self._soon(self._slice)

    def cancel(self) -> None:
        """Stop writing. The next start removes the unfinished file."""
        self._cancelled = True
        if self._file is not None:
            self._file.close()

    def _slice(self) -> None:
        if self._cancelled:
            return
        try:
            if self._file is None:
                self._file = self._disk.open(self._path + PART_SUFFIX, create=True)
            batch = next(self._batches, None)
            if batch is not None:
                self._file.append([batch])
        except DiskFailed as failure:
            if self._file is not None:
                self._file.close()
            self._done(failure)
            return
        if batch is None:
            self._file.sync(self._synced)
        else:
            self._soon(self._slice)

    def _synced(self, failure: DiskFailed | None) -> None:
        if self._cancelled:
            return
        assert self._file is not None, "it was open when the sync began"
        self._file.close()
        if failure is not None:
            self._done(failure)
        else:
            self._disk.rename(self._path + PART_SUFFIX, self._path, self._done)


def write_snapshot_now(disk: Disk, path: str, batches: Iterator[bytes]) -> None:
    """Write a whole snapshot, for a directory that is being formatted. Waits for the disk."""
    disk.replace_now(path, b"".join(batches))
