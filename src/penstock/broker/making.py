"""Makes the logs of new partitions, and takes those of deleted ones away.

What is to be made is announced first: whenever the node dies, the next start knows whose the
directories are that it finds. A name is used only where no checkpoint says anything of one that had
it before (departures.py). The files are made off the loop, a few partitions at a time, so that a
topic of ten thousand stalls nobody. A name is used for one thing at a time: while a directory under
it is on its way out, or being made, a topic made anew under the same name waits.
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
    from penstock.broker.directory import Directory

log = logging.getLogger("penstock.hosting")

RETRY_MS = 5_000
AT_ONCE_MAX = 64  # partitions whose files are being made


@dataclass(slots=True)
class Wanted:
    """A partition whose log is to be made."""

    topic: str
    topic_id: bytes
    index: int

    @property
    def name(self) -> str:
        """Of its directory."""
        return f"{self.topic}-{self.index}"


@dataclass(slots=True)
class _Work:
    """The files of one log, made on a worker."""

    disk: Disk
    wanted: Wanted
    made: File | None = None
    failure: DiskFailed | None = None

    def run(self) -> None:
        try:
            self.made = make_files(self.disk, self.wanted.name, self.wanted.topic_id)
        except DiskFailed as failure:
            self.failure = failure


class Making:
    """`announce` writes down what will be made, and calls back when that is durable; `choose` says
    where the next log goes; `forget_gone` has the checkpoints there say nothing of partitions that
    are gone, and calls back when that is durable. How it went is heard by `made`; by `unwanted`
    when the partition was deleted meanwhile, or by `dropped` when nothing of it was made; by
    `refused` when there is a log already. `settled` is called when nothing is left to make."""

    def __init__(
        self,
        world: World,
        *,
        announce: Callable[[Sequence[Wanted], Callable[[], None]], None],
        choose: Callable[[], "Directory | None"],
        forget_gone: Callable[["Directory", Done], None],
        still_wanted: Callable[[Wanted], bool],
        made: Callable[[Wanted, "Directory", File], None],
        refused: Callable[[Wanted, "Directory", LogExists], None],
        unwanted: Callable[[Wanted, "Directory"], None],
        dropped: Callable[[Wanted], None],
        settled: Callable[[], None],
    ) -> None:
        self._world = world
        self._announce = announce
        self._choose = choose
        self._forget_gone = forget_gone
        self._still_wanted = still_wanted
        self._made = made
        self._refused = refused
        self._unwanted = unwanted
        self._dropped = dropped
        self._settled = settled
        self._new: list[Wanted] = []  # to be announced
        self._announcing: list[Wanted] = []
        self._waiting: deque[Wanted] = deque()
        self._under_way = 0
        # Of directories that are being made or taken away: several may have had the same.
        self._names: Counter[str] = Counter()
        self._stalled: set[str] = set()  # of those names, the ones that nobody can free soon
        self._shelved: dict[str, list[Wanted]] = {}  # who waits for them
        self._due = False
        self._stopped = False

    @property
    def busy(self) -> bool:
        return bool(self._new or self._announcing or self._waiting or self._under_way)

    @property
    def working(self) -> bool:
        return self._under_way > 0

    def stop(self) -> None:
        """Begin nothing more: what is made after the logs were closed would not be one of them."""
        self._stopped = True

    def want(self, wanted: Wanted) -> None:
        self._new.append(wanted)

    def hold(self, name: str) -> None:
        """A directory of this name is on its way to another one."""
        self._names[name] += 1

    def let_go(self, name: str) -> None:
        """Once for each time it was held."""
        self._free(name)
        self.go_on()

    def stall(self, name: str) -> None:
        """If it is held, then for long, as a disk is full: whoever waits until all is made, be it
        the node itself at its start, does not wait for what is to have this name."""
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
        """On a later turn, so that whoever asks for much is not the one who waits for it."""
        if not self.busy:
            self._settled()
            return
        can_announce = self._new and not self._announcing
        can_make = self._waiting and self._under_way < AT_ONCE_MAX
        if (can_announce or can_make) and not (self._due or self._stopped):
            self._due = True
            self._world.timers.soon(self._begin)

    def _announce_new(self) -> None:
        """Only those whose names are free: a directory that does not say whose it is, as power was
        lost, must not look as if it could be that of the next one to have its name."""
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
        works: dict[Directory, list[_Work]] = {}
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
                directory.making += 1
                self._under_way += 1
                self._names[wanted.name] += 1
                works.setdefault(directory, []).append(_Work(directory.disk, wanted))
            else:
                self._dropped(wanted)
        for directory, listed in works.items():
            self._run(directory, listed)
        if not self.busy:
            self._settled()

    def _run(self, directory: "Directory", works: list[_Work]) -> None:
        names = (TopicPartition(each.wanted.topic, each.wanted.index) for each in works)
        if not any(name in directory.departures for name in names):
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

    def _make(self, directory: "Directory", works: list[_Work]) -> None:
        works_run = [work.run for work in works]
        directory.disk.offload_all(works_run, lambda _failure: self._ended(directory, works))

    def _ended(self, directory: "Directory", works: list[_Work]) -> None:
        for work in works:
            directory.making -= 1
            self._under_way -= 1
            self._free(work.wanted.name)
        for work in works:
            self._done(directory, work)
        self.go_on()

    def _done(self, directory: "Directory", work: _Work) -> None:
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
            self._refused(wanted, directory, failure)
        else:
            assert failure is not None, "files are made, or it is known why not"
            directory.take_offline(failure)
            self._waiting.append(wanted)

    def _later(self, wanted: Wanted) -> None:
        def again() -> None:
            self._waiting.append(wanted)
            self.go_on()

        self._world.timers.at(self._world.clock.mono_ms() + RETRY_MS, again)
