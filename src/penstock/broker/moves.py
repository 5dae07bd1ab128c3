"""AlterReplicaLogDirs: moves a partition to another log directory while it is written to.

One move at a time into a directory; the others wait. The copying runs off the loop, within
replica.alter.log.dirs.io.max.bytes.per.second. For its last moment producers of the partition wait,
and readers notice nothing. A directory ending in -future stands for the wish: a node that is
stopped or killed begins the copy anew at its next start.

A move takes nothing of the target's reserve. One that does not fit is refused; one that meets the
reserve on its way, as others fill the disk, gives back what it has taken and waits: the partitions
that live there come first.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.progress import Progress
from penstock.errors import KafkaStorageError
from penstock.log.directory import Kind, marked_name
from penstock.log.moving import Copy, OriginalStays, Piece, rehome
from penstock.model import TopicPartition, id_to_text
from penstock.world import DiskFailed, DiskFull, File, FileLost, Timer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.moves")

HELD_BYTES_MAX = 512 * 1024  # with so little missing, the producers are asked to wait
QUIET_RETRY_MS = 2
ROOM_LOOK_MS = 1_000  # how often those that wait for room look for it
ROOM_REST_MS = 10_000  # at least, after what was copied had to be given back


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
        self._over = False
        self._made = False  # something of it lies in the target
        self.not_before_ms = 0.0  # monotonic
        self.waits_for_room = False
        self.working = False
        self.finishing = False  # the files take their new names: nobody else may rename them

    def begin(self) -> None:
        self._began = self._made = True
        self.waits_for_room = False
        self.partition.log.moving = True
        # Nothing but appends may change the log meanwhile.
        self._broker.cleaning.pause(
            self.partition, lambda: self._work(self.copy.begin, self._go_on)
        )

    def cancel(self, why: str) -> None:
        if self.cancelled is None:
            self.cancelled = why
            if self.working:
                return  # who waits for it sees that it is cancelled
            if self._began:
                self._give_up()
            else:
                self._over = True
                self._discard()
                self._moves.ended(self)

    def _work(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Off the loop, on the threads of the disk that is written to."""
        if self._over:
            return
        if self.cancelled is not None:
            self._give_up()
            return
        self.working = True

        def done(failure: DiskFailed | None) -> None:
            self.working = False
            if isinstance(failure, DiskFull):
                self.target.heard(failure)
                self._step_back()
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
        if self._over:
            return
        if self.cancelled is not None:
            self._give_up()
            return
        if self.partition.log.failure is not None:
            self.cancel("its log takes no more records")
            return
        piece = self.copy.next_piece()
        if piece is not None and self._lacks_room(piece.size):
            self._step_back()
        elif piece is None or self.copy.missing_bytes <= HELD_BYTES_MAX:
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
        if self._over:
            return
        if self.cancelled is not None:
            self._give_up()
        elif self.partition.log.busy:
            self._later(QUIET_RETRY_MS, self._hold)
        elif (piece := self.copy.next_piece()) is not None:
            if self._lacks_room(piece.size):
                self._step_back()
                return
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
            if isinstance(failure, DiskFull):
                self.finishing = False
                self.target.heard(failure)
                self._step_back()
                return
            if failure is not None:
                self._failed(failure)
                return
            self._arrive(made[0])
            for error in stays:
                self.source.heard(error.failure)

        self.target.disk.offload_all([finish], done)

    # -- too little room

    def _lacks_room(self, size: int) -> bool:
        spare_bytes = self.target.spare_bytes
        return self.target.refuses_writes or (spare_bytes is not None and spare_bytes < size)

    def _step_back(self) -> None:
        """What was copied is given back, and the log may change again until there is room."""
        self.partition.release_held(self._broker.touch_partition)
        if self.cancelled is not None:
            self._give_up()
            return
        self.copy.reset()
        self.working = True

        def done(failure: DiskFailed | None) -> None:
            self.working = False
            if failure is not None:
                self._failed(failure)
            elif self.cancelled is not None:
                self._give_up()
            else:
                self._began = False
                self.partition.log.moving = False
                self._broker.cleaning.resume(self.partition)
                self.not_before_ms = self._broker.world.clock.mono_ms() + ROOM_REST_MS
                self.say_that_it_waits()
                self._moves.wait_again(self)

        self.target.disk.offload_all([self.copy.start_over], done)

    def say_that_it_waits(self) -> None:
        if not self.waits_for_room:
            self.waits_for_room = True
            log.warning(
                "%s stays in %s until there is room for its %d bytes in %s, above what is kept"
                " there (log.disk.reserve.bytes)",
                self.partition,
                self.source.disk.root,
                self.partition.log.size,
                self.target.disk.root,
            )

    # -- ends

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
        self._discard()
        self._end()

    def _discard(self) -> None:
        if self._made and not self.target.failed and not self._moves.stopped:
            self.target.disk.offload_all([self.copy.discard], self.target.heard)

    def _end(self) -> None:
        self._over = True
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
        where = self.target.disk.root
        note = f"to {where}"
        if self.waits_for_room:
            note = f"waits for room in {where} above log.disk.reserve.bytes"
        elif not self._began:
            note = "waits for another move"
        done, total = self.copy.copied_bytes, partition.log.size
        return Progress("move", str(partition), done, total, "bytes", self.since_ms, note)


class Moves:
    """All moves of a node. Used on the loop only."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._moves: dict[Partition, Move] = {}
        self._waiting: dict[Directory, deque[Move]] = {}
        self._running: dict[Directory, Move] = {}
        self._looks: dict[Directory, Timer] = {}  # for room
        self.stopped = False

    @property
    def busy(self) -> bool:
        return any(each.working for each in self._running.values())

    def stop(self) -> None:
        """The node stops. Copies stay, as signs of what is wished."""
        self.stopped = True
        for timer in self._looks.values():
            timer.cancel()
        for move in list(self._moves.values()):
            move.cancel("the node stops")

    def check_room(self, partition: "Partition", target: "Directory") -> None:
        """KafkaStorageError if what it has does not fit there, beside the others on their way."""
        if target.spare_bytes is None or target is partition.directory:
            return
        others = (each for each in self.into(target) if each.partition is not partition)
        promised = sum(each.copy.missing_bytes for each in others)
        promised += self._broker.cleaning.claimed_bytes(target)
        size, spare = partition.log.size, max(0, target.spare_bytes - promised)
        if target.refuses_writes or size > spare:
            raise KafkaStorageError(
                f"{partition} has {size} bytes, and {spare} are free in {target.disk.root} above"
                " what is kept (log.disk.reserve.bytes) and what others were promised"
            )

    def claimed_bytes(self, directory: "Directory") -> int:
        """What the move that is under way will still write there."""
        move = self._running.get(directory)
        return 0 if move is None else max(0, move.copy.missing_bytes)

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
        if target in self._running or not waiting or self.stopped:
            return
        move = next((each for each in waiting if self._may_begin(each)), None)
        if move is None:
            self._look_again(target)
            return
        waiting.remove(move)
        self._running[target] = move
        log.info("%s moves from %s to %s", move.partition, move.source.disk.root, target.disk.root)
        move.begin()

    def _may_begin(self, move: Move) -> bool:
        target = move.target
        if self._broker.world.clock.mono_ms() < move.not_before_ms:
            return False
        if target.spare_bytes is None:  # not known yet: it looks for room as it goes
            return True
        spare = target.spare_bytes - self._broker.cleaning.claimed_bytes(target)
        if not target.refuses_writes and move.partition.log.size <= spare:
            return True
        move.say_that_it_waits()
        return False

    def _look_again(self, target: "Directory") -> None:
        def look() -> None:
            del self._looks[target]
            if not target.failed:
                self._next(target)

        if target not in self._looks:
            world = self._broker.world
            self._looks[target] = world.timers.at(world.clock.mono_ms() + ROOM_LOOK_MS, look)

    def wait_again(self, move: Move) -> None:
        """It had begun, and waits for room in the target."""
        if self._running.get(move.target) is move:
            del self._running[move.target]
        self._waiting[move.target].append(move)
        self._next(move.target)

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
