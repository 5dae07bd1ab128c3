"""One of log.dirs: its disk, its sync rounds, and its failure.

Group commit: one round at a time, over the files written since the last round began. A request
waits for the first round that begins after its write. A failed sync fails the directory for good:
the kernel may have dropped the bytes, so asking again would only hide it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from penstock.broker.storage.stale_checkpoints import StaleCheckpoints
from penstock.errors import KafkaStorageError
from penstock.log.files import FileCache
from penstock.observe.times import Times
from penstock.world import Disk, DiskFailed, DiskFull, Done, File, FileLost, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.flushing import FlushScheduler

log = logging.getLogger("penstock.directory")

ROUND_REST_MS = 100  # after a round that lacked descriptors
# Compares the files of these partitions with their logs, and calls when damaged logs are offline.
Check: TypeAlias = Callable[[Sequence["Partition"], Callable[[], None]], None]


@dataclass(slots=True)
class _PendingStore:
    """A small file that is to be written."""

    data: bytes | Callable[[], bytes]
    as_of: int  # departures
    waiting: list[Done]


class LogDirectory:
    """A log directory while the node runs."""

    def __init__(
        self,
        disk: Disk,
        directory_id: bytes,
        *,
        waits_for_sync: bool,
        holds_metadata: bool,
        on_failed: Callable[["LogDirectory"], None],
        touch: Callable[[], None],
        failed: DiskFailed | None = None,
    ) -> None:
        """Make a directory without partitions. `failed` is the reason if the directory is offline
        from the start."""
        self.disk = disk
        self.directory_id = directory_id
        self.waits_for_sync = waits_for_sync
        self.holds_metadata = holds_metadata
        self.failed = failed
        self.is_identified = failed is None  # else its id could not be read, and this one is new
        self.files = FileCache(disk)
        self.storing: dict[
            str, _PendingStore | None
        ] = {}  # files being written, and what is to follow
        self.stale_checkpoints = StaleCheckpoints()
        self.partitions: dict[Partition, None] = {}
        self.creating = 0  # partitions whose files are being made here
        self.moved: set[Partition] = set()  # with other offsets than in the checkpoints
        self._on_failed = on_failed
        self._touch = touch
        self._written: list[Partition] = []
        self._in_round = False
        self._round_began_ms = 0.0
        self.sync_times = Times()
        self.now_ms: Callable[[], float] = float  # its node's clock, when there is a node
        self.full = False
        self.rejects_writes = False  # too little is left: see disk_reserve.py
        self.spare_bytes: int | None = None  # free above the reserve, when it was last looked at
        self.reserve_bytes = 0  # as of then
        self.unseen_bytes = 0  # of records that were written since
        self.unseen_bytes_max = inf
        self.strays: tuple[str, ...] = ()  # directories of no partition of this node
        self.strays_known = False  # False has them looked for again
        self.on_lost: Callable[[FileLost], None] = _ignore_lost  # a file of a partition
        self.on_first_sync: Callable[[], None] = _ignore_first_sync  # of a partition's records
        self.check: Check = _no_check
        self._rest_until_ms = -inf
        self.flushing: FlushScheduler  # set when the broker takes the directory over

    # -- group commit

    def wrote(self, partition: "Partition") -> None:
        """Sync a log in the next round. Under `page-cache` this syncs a closed segment, which a
        restart then need not scan."""
        if not partition.wrote:
            partition.wrote = True
            self._written.append(partition)

    def forget(self, partition: "Partition") -> None:
        """Drop a partition that moved away, and is durable, from the next round."""
        if partition.wrote:
            partition.wrote = False
            self._written.remove(partition)

    def wrote_its_own(self) -> None:
        """Have the turn end after a write of this node itself, since a sync round begins there."""
        self._touch()

    def turn_ended(self) -> None:
        if not self._written or self._in_round or self.failed:
            return
        if self.now_ms() < self._rest_until_ms:
            return
        self._in_round = True
        self._round_began_ms = self.now_ms()
        written, self._written = self._written, []
        ends: list[tuple[Partition, int]] = []
        files: list[File] = []
        unsynced_of: dict[Partition, list[File]] = {}
        for partition in written:
            partition.wrote = False
            if partition.gone:
                continue  # its files are on their way out
            try:
                unsynced, end_offset = partition.log.begin_sync()
            except TooManyFiles as failure:
                self.fail(failure)
                self.wrote(partition)  # in a later round
            except DiskFailed as failure:
                self.fail(failure)
                partition.abandon(KafkaStorageError(str(failure)))
            else:
                ends.append((partition, end_offset))
                files.extend(unsynced)
                unsynced_of[partition] = unsynced

        def ended(failure: DiskFailed | None) -> None:
            if isinstance(failure, TooManyFiles):
                self._begin_again(unsynced_of)
            self._end_round(ends, failure)

        self.disk.sync_files(files, ended)

    def _begin_again(self, unsynced_of: dict["Partition", list[File]]) -> None:
        """Put the files of a round that lacked descriptors into the next one."""
        self._rest_until_ms = self.now_ms() + ROUND_REST_MS
        for partition, files in unsynced_of.items():
            if partition.directory is self and not partition.gone:
                partition.log.not_synced(files)
                self.wrote(partition)

    def sync_recovered_now(self) -> None:
        """Sync recovered records, which readers may have seen before the crash. Without this, the
        high watermark would be smaller until the first append."""
        if not self.waits_for_sync:
            return
        written, self._written = self._written, []
        for partition in written:
            partition.wrote = False
            unsynced, end_offset = partition.log.begin_sync()
            for file in unsynced:
                file.sync_now()
            partition.log.synced_to(end_offset)
            partition.synced()

    def _end_round(self, ends: list[tuple["Partition", int]], failure: DiskFailed | None) -> None:
        self.sync_times.note(self.now_ms() - self._round_began_ms)
        if isinstance(failure, FileLost):
            self._look_for_lost(ends)  # the round ends when that is known
            return
        self._in_round = False
        if failure is None:
            self._synced(ends)
        else:
            self.fail(failure)

    def _look_for_lost(self, ends: list[tuple["Partition", int]]) -> None:
        """Find the logs of a lost file; the other logs of the round are synced. A file that
        retention or a deletion has renamed is no loss."""

        def looked() -> None:
            self._in_round = False
            if self.failed is None:
                here = [each for each in ends if each[0].directory is self and not each[0].gone]
                self._synced([each for each in here if each[0].log.lost is None])

        self.check([each for each, _ in ends], looked)

    def _synced(self, ends: list[tuple["Partition", int]]) -> None:
        if any(each.log.synced_offset == 0 < end_offset for each, end_offset in ends):
            self.on_first_sync()
        for partition, end_offset in ends:
            partition.log.synced_to(end_offset)
            partition.synced()
        self._touch()
        if self.waits_for_sync:
            self.turn_ended()  # sync records appended meanwhile

    # -- failing

    def fail(self, failure: DiskFailed) -> None:
        """Handle a failure. Too few descriptors or a lost file do not fail the whole directory."""
        if self.failed is not None:
            return
        if isinstance(failure, TooManyFiles):
            log.error("%s; nothing is lost, but raise ulimit -n", failure)
        elif isinstance(failure, FileLost):
            self.on_lost(failure)
        else:
            self.take_offline(failure)

    def take_offline(self, failure: DiskFailed) -> None:
        """Take the directory offline; its partitions answer with an error."""
        if self.failed is not None:
            return
        self.failed = failure
        log.error(
            "log directory %s failed and is offline: %s; its %d partitions are unavailable until it"
            " is repaired and the node restarted",
            self.disk.root,
            failure,
            len(self.partitions),
        )
        error = KafkaStorageError(str(failure))
        for partition in list(self.partitions):
            partition.abandon(error)
        self._on_failed(self)
        self._touch()

    def store(self, name: str, data: bytes | Callable[[], bytes], done: Done | None = None) -> None:
        """Write a small file off the loop. One write of a file runs at a time, followed by the
        newest of those that came meanwhile. Call `done` when this content, or a newer one, is
        durable."""
        store = _PendingStore(data, self.stale_checkpoints.count, [] if done is None else [done])
        if name not in self.storing:
            self._store(name, store)
            return
        replaced = self.storing[name]
        if replaced is not None:
            store.waiting[:0] = replaced.waiting
        self.storing[name] = store

    def _store(self, name: str, store: _PendingStore) -> None:
        self.storing[name] = None
        self.disk.replace(name, store.data, lambda failure: self._stored(name, store, failure))

    def _stored(self, name: str, store: _PendingStore, failure: DiskFailed | None) -> None:
        newer = self.storing.pop(name)
        if failure is None:
            self.stale_checkpoints.written(name, store.as_of)
        self.note_failure(failure)
        if newer is not None and self.failed is None:
            self._store(name, newer)
        elif newer is not None:
            store.waiting += newer.waiting
        for done in store.waiting:
            done(failure or self.failed)

    def note_failure(self, failure: DiskFailed | None) -> None:
        """Handle the result of work off the loop that reports failures only."""
        if isinstance(failure, DiskFull):
            self.filled_up(failure)
        elif isinstance(failure, FileLost):
            self.take_offline(failure)  # the directory itself is gone
        elif failure is not None:
            self.fail(failure)

    def check_writable(self) -> None:
        """Raise DiskFailed if the directory is offline, DiskFull if only the reserve is left."""
        if self.failed:
            raise DiskFailed(f"{self.disk.root} is offline")
        if self.unseen_bytes > self.unseen_bytes_max:
            self.rejects_writes = True  # until the next check
        if self.rejects_writes:
            raise DiskFull(f"the disk of {self.disk.root} is nearly full")

    def has_room(self) -> None:
        """Note that writes are possible again."""
        if self.rejects_writes or not self.full:
            return
        self.full = False
        log.info("log directory %s has room again; writes go on", self.disk.root)

    def filled_up(self, failure: DiskFull) -> None:
        """Note a full disk: producers get an error, and writes may resume later."""
        if not self.full:
            self.full = True
            log.error("log directory %s is full: %s; writes are refused", self.disk.root, failure)


def _ignore_lost(_failure: FileLost) -> None:
    """Do nothing: there is no broker yet."""


def _ignore_first_sync() -> None:
    """Do nothing: there is no broker yet."""


def _no_check(_partitions: Sequence["Partition"], done: Callable[[], None]) -> None:
    """Call `done`: there is no broker yet."""
    done()
