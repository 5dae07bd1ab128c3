"""Creates the logs of new partitions.

Partitions are announced before their creation: after a crash, the next start knows the owner of
each directory. A name is used only after all checkpoints of the directory forgot a former partition
of that name (stale_checkpoints.py). Files are made off the loop, a few partitions at a time. A name
is used by one partition at a time: a new topic waits while a directory of the name is deleted or
made.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.log.log import LogExists, make_files
from penstock.model import TopicPartition
from penstock.world import Disk, DiskFailed, DiskFull, Done, File, TooManyFiles, World

if TYPE_CHECKING:
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.hosting")

RETRY_MS = 5_000
AT_ONCE_MAX = 64  # partitions whose files are being made


@dataclass(slots=True)
class NewPartition:
    """A partition whose log is to be created."""

    topic: str
    topic_id: bytes
    index: int

    @property
    def name(self) -> str:
        """Return the name of its directory."""
        return f"{self.topic}-{self.index}"


@dataclass(slots=True)
class _FileCreation:
    """The files of one log, made on a worker."""

    disk: Disk
    wanted: NewPartition
    made: File | None = None
    failure: DiskFailed | None = None

    def run(self) -> None:
        try:
            self.made = make_files(self.disk, self.wanted.name, self.wanted.topic_id)
        except DiskFailed as failure:
            self.failure = failure


class PartitionCreation:
    """Creates logs. `announce` makes a list of new partitions durable. `choose` returns the
    directory of the next log. `forget_gone` writes the checkpoints there without deleted
    partitions. The result goes to `made`; to `unwanted` or `dropped` if the partition was deleted
    meanwhile, with or without files; to `existing` if there is a log already. `settled` is called
    when no creation is left."""

    def __init__(
        self,
        world: World,
        *,
        announce: Callable[[Sequence[NewPartition], Callable[[], None]], None],
        choose: Callable[[], "LogDirectory | None"],
        forget_gone: Callable[["LogDirectory", Done], None],
        still_wanted: Callable[[NewPartition], bool],
        made: Callable[[NewPartition, "LogDirectory", File], None],
        existing: Callable[[NewPartition, "LogDirectory", LogExists], None],
        unwanted: Callable[[NewPartition, "LogDirectory"], None],
        dropped: Callable[[NewPartition], None],
        settled: Callable[[], None],
    ) -> None:
        self._world = world
        self._announce = announce
        self._choose = choose
        self._forget_gone = forget_gone
        self._still_wanted = still_wanted
        self._made = made
        self._existing = existing
        self._unwanted = unwanted
        self._dropped = dropped
        self._settled = settled
        self._new: list[NewPartition] = []  # not announced yet
        self._announcing: list[NewPartition] = []
        self._waiting: deque[NewPartition] = deque()
        self._under_way = 0
        # Names of directories that are being made or deleted; several may share a name.
        self._names: Counter[str] = Counter()
        self._stalled: set[str] = set()  # of those names, the ones that stay in use for long
        self._shelved: dict[str, list[NewPartition]] = {}  # partitions that wait for such names
        self._due = False
        self._stopped = False

    @property
    def busy(self) -> bool:
        return bool(self._new or self._announcing or self._waiting or self._under_way)

    @property
    def working(self) -> bool:
        return self._under_way > 0

    def stop(self) -> None:
        """Begin no further creation: the logs of the node are being closed."""
        self._stopped = True

    def want(self, wanted: NewPartition) -> None:
        self._new.append(wanted)

    def hold(self, name: str) -> None:
        """Keep a name from use while its directory is renamed."""
        self._names[name] += 1

    def let_go(self, name: str) -> None:
        """Release a name, once for each `hold`."""
        self._free(name)
        self.go_on()

    def stall(self, name: str) -> None:
        """Note that a held name stays in use for long, since a disk is full. The start of the node
        does not wait for partitions of this name."""
        if name in self._names:
            self._stalled.add(name)
            self.go_on()

    def _free(self, name: str) -> None:
        assert self._names[name] > 0, "only what is held is let go"
        self._names[name] -= 1
        if not self._names[name]:
            del self._names[name]
            self._stalled.discard(name)
            self._new.extend(self._shelved.pop(name, ()))

    def go_on(self) -> None:
        """Go on with the creations on a later turn, so that the caller does not wait."""
        if not self.busy:
            self._settled()
            return
        can_announce = self._new and not self._announcing
        can_make = self._waiting and self._under_way < AT_ONCE_MAX
        if (can_announce or can_make) and not (self._due or self._stopped):
            self._due = True
            self._world.timers.soon(self._begin)

    def _announce_new(self) -> None:
        """Announce partitions whose names are free. After a loss of power, the next start then
        knows the owner of each directory."""
        wanted, self._new = self._new, []
        for each in wanted:
            if each.name in self._stalled:
                self._shelved.setdefault(each.name, []).append(each)
            elif each.name in self._names:
                self._new.append(each)
            else:
                self._announcing.append(each)
        if not self._announcing:
            return

        def announced() -> None:
            self._waiting.extend(self._announcing)
            self._announcing = []
            self.go_on()

        self._announce(self._announcing, announced)

    def _begin(self) -> None:
        self._due = False
        if self._stopped:
            return
        if self._new and not self._announcing:
            self._announce_new()
        works: dict[LogDirectory, list[_FileCreation]] = {}
        for _ in range(len(self._waiting)):
            if self._under_way == AT_ONCE_MAX:
                break
            wanted = self._waiting.popleft()
            if wanted.name in self._stalled:
                self._shelved.setdefault(wanted.name, []).append(wanted)
            elif wanted.name in self._names:
                self._waiting.append(wanted)
            elif self._still_wanted(wanted):
                directory = self._choose()
                if directory is None:
                    log.error("%s cannot be made: no log directory works", wanted.name)
                    self._dropped(wanted)
                    continue
                directory.creating += 1
                self._under_way += 1
                self._names[wanted.name] += 1
                works.setdefault(directory, []).append(_FileCreation(directory.disk, wanted))
            else:
                self._dropped(wanted)
        for directory, listed in works.items():
            self._run(directory, listed)
        if not self.busy:
            self._settled()

    def _run(self, directory: "LogDirectory", works: list[_FileCreation]) -> None:
        names = (TopicPartition(each.wanted.topic, each.wanted.index) for each in works)
        if not any(name in directory.stale_checkpoints for name in names):
            self._make(directory, works)
            return

        def forgotten(failure: DiskFailed | None) -> None:
            if failure is None:
                self._make(directory, works)
                return
            for work in works:
                work.failure = failure
            self._ended(directory, works)

        self._forget_gone(directory, forgotten)

    def _make(self, directory: "LogDirectory", works: list[_FileCreation]) -> None:
        works_run = [work.run for work in works]
        directory.disk.offload_all(works_run, lambda _failure: self._ended(directory, works))

    def _ended(self, directory: "LogDirectory", works: list[_FileCreation]) -> None:
        for work in works:
            directory.creating -= 1
            self._under_way -= 1
            self._free(work.wanted.name)
        for work in works:
            self._done(directory, work)
        self.go_on()

    def _done(self, directory: "LogDirectory", work: _FileCreation) -> None:
        wanted, failure = work.wanted, work.failure
        if work.made is not None:
            if self._still_wanted(wanted):
                self._made(wanted, directory, work.made)
            else:
                self._unwanted(wanted, directory)
        elif isinstance(failure, TooManyFiles):
            log.error("%s is not there yet: %s; raise ulimit -n", wanted.name, failure)
            self._later(wanted)
        elif isinstance(failure, DiskFull):
            directory.filled_up(failure)
            self._later(wanted)
        elif isinstance(failure, LogExists):
            log.error("%s stays offline: %s", wanted.name, failure)
            self._existing(wanted, directory, failure)
        else:
            assert failure is not None, "files are made, or it is known why not"
            directory.take_offline(failure)
            self._waiting.append(wanted)

    def _later(self, wanted: NewPartition) -> None:
        def again() -> None:
            self._waiting.append(wanted)
            self.go_on()

        self._world.timers.at(self._world.clock.mono_ms() + RETRY_MS, again)
