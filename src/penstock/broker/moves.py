"""AlterReplicaLogDirs: moves a partition to another log directory while it is written to.

One move at a time into a directory; the others wait. The copying runs off the loop, within
replica.alter.log.dirs.io.max.bytes.per.second. For its last moment producers of the partition wait,
and readers notice nothing. A directory ending in -future stands for the wish: a node that is
stopped or killed begins the copy anew at its next start.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.progress import Progress
from penstock.log.directory import Kind, marked_name
from penstock.log.moving import Copy, OriginalStays, Piece, rehome
from penstock.model import TopicPartition, id_to_text
from penstock.world import DiskFailed, DiskFull, File, FileLost

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.moves")

HELD_BYTES_MAX = 512 * 1024  # with so little missing, the producers are asked to wait
QUIET_RETRY_MS = 2
FULL_RETRY_MS = 1_000


class Move:
    """One partition on its way."""

    def __init__(
        self, moves: "Moves", broker: "Broker", partition: "Partition", target: "Directory"
    ) -> None:
        self._moves = moves
        self._broker = broker
        self.partition = partition
        self.source = partition.directory
        self.target = target
        self.since_ms = broker.world.clock.wall_ms()
        self.cancelled: str | None = None
        place = TopicPartition(partition.topic, partition.index)
        unique = broker.world.entropy.uuid().hex()
        name = marked_name(place, Kind.FUTURE, unique)
        self._retired = marked_name(place, Kind.DELETED, unique)
        self.copy = Copy(partition.log, target.disk, name)
        self._began = False
        self.working = False
        self.finishing = False  # the files take their new names: nobody else may rename them

    def begin(self) -> None:
        self._began = True
        self.partition.log.moving = True
        # Nothing but appends may change the log meanwhile.
        self._broker.cleaning.pause(
            self.partition, lambda: self._work(self.copy.begin, self._go_on)
        )

    def cancel(self, why: str) -> None:
        if self.cancelled is None:
            self.cancelled = why
            if not self._began:
                self._moves.ended(self)
            elif not self.working:
                self._give_up()

    def _work(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Off the loop, on the thread pool of the disk that is written to."""
        if self.cancelled is not None:
            self._give_up()
            return
        self.working = True

        def done(failure: DiskFailed | None) -> None:
            self.working = False
            if isinstance(failure, DiskFull):
                self.target.heard(failure)
                self._later(FULL_RETRY_MS, self._go_on)
            elif failure is not None:
                self._failed(failure)
            elif self.cancelled is not None:
                self._give_up()
            else:
                then()

        self.target.disk.offload_all([work], done)

    def _later(self, wait_ms: float, call: Callable[[], None]) -> None:
        world = self._broker.world
        world.timers.at(world.clock.mono_ms() + wait_ms, call)

    def _go_on(self) -> None:
        if self.cancelled is not None:
            self._give_up()
            return
        if self.partition.log.failure is not None:
            self.cancel("its log takes no more records")
            return
        piece = self.copy.next_piece()
        if piece is None or self.copy.missing_bytes <= HELD_BYTES_MAX:
            self.partition.held = True
            self._hold()
        else:
            self._copy(piece, self._go_on)

    def _copy(self, piece: Piece, then: Callable[[], None]) -> None:
        began_ms = self._broker.world.clock.mono_ms()

        def copied() -> None:
            self.copy.copied(piece)
            took_ms = self._broker.world.clock.mono_ms() - began_ms
            rate = max(1, self._broker.settings.move_bytes_per_second_max)
            wait_ms = 1_000 * piece.size / rate - took_ms
            if wait_ms > 0:
                self._later(wait_ms, then)
            else:
                then()

        self._work(lambda: self.copy.copy(piece), copied)

    # -- the last moment

    def _hold(self) -> None:
        """Producers wait. What the log still does off the loop comes first."""
        if self.cancelled is not None:
            self._give_up()
        elif self.partition.log.busy:
            self._later(QUIET_RETRY_MS, self._hold)
        elif (piece := self.copy.next_piece()) is not None:
            self._work(lambda: self.copy.copy(piece), lambda: self._held_copied(piece))
        else:
            self._finish()

    def _held_copied(self, piece: Piece) -> None:
        self.copy.copied(piece)
        self._hold()

    def _finish(self) -> None:
        made: list[File] = []
        stays: list[OriginalStays] = []

        def finish() -> None:
            try:
                made.append(self.copy.finish(id_to_text(self.source.directory_id), self._retired))
            except OriginalStays as error:
                stays.append(error)
                made.append(error.active)

        self.working = self.finishing = True

        def done(failure: DiskFailed | None) -> None:
            self.working = False
            if failure is not None:
                self._failed(failure)
                return
            self._arrive(made[0])
            for error in stays:
                self.source.heard(error.failure)

        self.target.disk.offload_all([finish], done)

    def _arrive(self, active: File) -> None:
        """The copy counts, also if the move was cancelled too late."""
        partition, source, target = self.partition, self.source, self.target
        log.info("%s has moved to %s", partition, target.disk.root)
        rehome(partition.log, target.disk, target.files, active, target.fail)
        self._broker.hosting.moved(partition, source, target)
        self._broker.hosting.remove_later(source, self._retired)
        self._end()

    def _failed(self, failure: DiskFailed) -> None:
        if self.cancelled is None:
            log.error("%s stays in %s: %s", self.partition, self.source.disk.root, failure)
            if not isinstance(failure, FileLost):  # that says nothing about where it was to go
                self.target.heard(failure)
        self._give_up()

    def _give_up(self) -> None:
        if not self.target.failed and not self._moves.stopped:
            self.target.disk.offload_all([self.copy.discard], self.target.heard)
        self._end()

    def _end(self) -> None:
        partition = self.partition
        partition.log.moving = False
        self._moves.ended(self)
        if not partition.gone:
            self._broker.cleaning.resume(partition)
        elif self.finishing:
            self._broker.hosting.take_away(str(partition), partition, partition.directory)
        partition.release_held(self._broker.touch_partition)

    def progress(self) -> Progress:
        partition = self.partition
        note = "waits for another move" if not self._began else f"to {self.target.disk.root}"
        done, total = self.copy.copied_bytes, partition.log.size
        return Progress("move", str(partition), done, total, "bytes", self.since_ms, note)


class Moves:
    """All moves of a node. Used on the loop only."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._moves: dict[Partition, Move] = {}
        self._waiting: dict[Directory, deque[Move]] = {}
        self._running: dict[Directory, Move] = {}
        self.stopped = False

    @property
    def busy(self) -> bool:
        return any(each.working for each in self._running.values())

    def stop(self) -> None:
        """The node stops. Copies stay, as signs of what is wished."""
        self.stopped = True
        for move in list(self._moves.values()):
            move.cancel("the node stops")

    def ask(self, partition: "Partition", target: "Directory") -> None:
        """Move it there; if it is there, it stays, and a move that is under way ends."""
        under_way = self._moves.get(partition)
        if under_way is not None and under_way.target is target:
            return
        if under_way is not None:
            under_way.cancel("another directory is wanted")
        if partition.directory is target:
            return
        if partition in self._moves:  # the one before still ends
            self._broker.world.timers.soon(lambda: self._ask_again(partition, target))
            return
        move = self._moves[partition] = Move(self, self._broker, partition, target)
        self._waiting.setdefault(target, deque()).append(move)
        self._next(target)

    def _ask_again(self, partition: "Partition", target: "Directory") -> None:
        if not partition.gone and not target.failed:
            self.ask(partition, target)

    def _next(self, target: "Directory") -> None:
        waiting = self._waiting.get(target)
        if target not in self._running and waiting and not self.stopped:
            move = self._running[target] = waiting.popleft()
            log.info(
                "%s moves from %s to %s", move.partition, move.source.disk.root, target.disk.root
            )
            move.begin()

    def ended(self, move: Move) -> None:
        self._moves.pop(move.partition, None)
        waiting = self._waiting.get(move.target)
        if waiting and move in waiting:
            waiting.remove(move)
        if self._running.get(move.target) is move:
            del self._running[move.target]
            self._next(move.target)

    def of(self, partition: "Partition") -> Move | None:
        return self._moves.get(partition)

    def into(self, directory: "Directory") -> Iterator[Move]:
        return (each for each in self._moves.values() if each.target is directory)

    def forget(self, partition: "Partition") -> bool:
        """It is deleted. True if its files are on their way, and go when they have arrived."""
        move = self._moves.get(partition)
        if move is None:
            return False
        move.cancel("the topic is deleted")
        return move.finishing

    def directory_failed(self, directory: "Directory") -> None:
        for move in list(self._moves.values()):
            if directory in (move.source, move.target):
                move.cancel("a log directory failed")

    def progress(self) -> Iterator[Progress]:
        return (each.progress() for each in self._moves.values())
