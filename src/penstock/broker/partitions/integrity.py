"""Finds logs whose files were removed, replaced, cut or extended from outside, and takes them
offline.

A damaged log takes no more records, since acknowledged records would be lost. An append checks
where its bytes are, and sync rounds check the files they sync, on their threads (real/file.py).
Checkpoints check logs written since the last checkpoint. The slow checkpoint, and every failure
that names a lost file, check all segments, off the loop.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import KafkaStorageError
from penstock.log.file_checks import FileCheck, Segment, file_checks, holds
from penstock.log.log import Log
from penstock.world import DiskFailed, FileLost

if TYPE_CHECKING:
    from penstock.broker.partitions.broker_view import PartitionsBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.integrity")

LOGGED_MAX = 100  # failures without a damaged log that are logged


class _LostFile(NamedTuple):
    """A segment whose file is missing, too short or too long."""

    partition: "Partition"
    log: Log
    segment: Segment
    failure: FileLost


class Integrity:
    """The checks of a node's logs. Used on the loop only."""

    def __init__(self, broker: "PartitionsBroker") -> None:
        self._broker = broker
        self._looking: dict[
            LogDirectory, FileLost | None
        ] = {}  # with a failure that came meanwhile
        self._logged: set[str] = set()
        self._lost: set[Partition] = set()
        self._found = 0  # damaged logs so far

    def check(
        self,
        directory: "LogDirectory",
        partitions: Iterable["Partition"],
        done: Callable[[], None],
        *,
        closed: bool,
    ) -> None:
        """Compare files with logs off the loop, with those of closed segments if `closed`. Damaged
        logs are offline when `done` is called."""
        losses: list[_LostFile] = []

        def look(partition: "Partition", opened: Log, checks: Sequence[FileCheck]) -> None:
            for each in checks:
                try:
                    each.look()
                except FileLost as failure:
                    losses.append(_LostFile(partition, opened, each.segment, failure))

        def looked(failure: DiskFailed | None) -> None:
            if failure is not None:
                directory.fail(failure)
            for loss in losses:
                # Retention, a move or a deletion may have changed the name meanwhile.
                changed = loss.log.disk is not directory.disk or loss.log.moving
                if not changed and holds(loss.log, loss.segment):
                    self._give_up(directory, loss.partition, loss.failure)
            done()

        works = [
            partial(look, each, each.log, file_checks(each.log, closed=closed))
            for each in partitions
            if not each.gone and each.directory is directory
        ]
        directory.disk.offload_all(works, looked)

    def look_through(self, directory: "LogDirectory", failure: FileLost) -> None:
        """Find the log that a lost file belongs to."""
        before = self._found
        for partition in list(directory.partitions):
            if partition.log.lost is not None:
                self._give_up(directory, partition, partition.log.lost)
        if directory in self._looking:
            self._looking[directory] = failure
            return
        self._looking[directory] = None

        def looked() -> None:
            again = self._looking.pop(directory)
            if self._found == before and not directory.failed:
                self._log_once(failure)
            if again is not None and not directory.failed:
                self.look_through(directory, again)

        self.check(directory, list(directory.partitions), looked, closed=True)

    def _give_up(
        self, directory: "LogDirectory", partition: "Partition", failure: FileLost
    ) -> None:
        if not self._note(directory, partition, failure):
            return
        self._broker.cleaner.lost(partition)
        self._broker.clear_caches()
        self._broker.placed(partition)
        error = KafkaStorageError(f"{partition} is offline: {failure}")
        # No answer before the damage is on record: a kill would forget it, and the next start find
        # a shorter log.
        self._broker.replicas.placements.write_at_once(lambda: partition.abandon(error))

    def lost_at_stop(
        self, directory: "LogDirectory", partition: "Partition", failure: FileLost
    ) -> None:
        """Take a log offline that cannot be closed. The stop puts that on record afterwards."""
        self._note(directory, partition, failure)

    def _note(self, directory: "LogDirectory", partition: "Partition", failure: FileLost) -> bool:
        """Let the log take no more records; return False if that is known or without effect."""
        if partition in self._lost or partition.gone or directory.failed:
            return False
        self._lost = {each for each in self._lost if not each.gone}
        self._lost.add(partition)
        self._found += 1
        partition.log.give_up(failure)
        log.error(
            "%s is offline and takes no more records: %s. Stop the node, restore the file from a"
            " copy, and start it again; or delete the topic",
            partition,
            failure,
        )
        return True

    def _log_once(self, failure: FileLost) -> None:
        """Log a lost file that belongs to no segment of a log, once."""
        text = str(failure)
        if text not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged.add(text)
            log.error("%s. If readers are refused, restore the file from a copy", text)
