"""AlterReplicaLogDirs: all moves of partitions to other log directories.

One move at a time runs into a directory; the others wait. A move that does not fit above the
target's reserve is rejected. move.py has one move.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.broker.moves.move import NODE_STOPS, ReplicaMove
from penstock.broker.progress import TaskProgress
from penstock.errors import KafkaStorageError
from penstock.world import DiskFailed, Timer

if TYPE_CHECKING:
    from penstock.broker.moves.broker_view import MovesBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.moves")

ROOM_LOOK_MS = 1_000  # how often those that wait for room look for it


class ReplicaMoves:
    """All moves of a node. Used on the loop only."""

    def __init__(self, broker: "MovesBroker") -> None:
        self._broker = broker
        self._moves: dict[Partition, ReplicaMove] = {}
        self._waiting: dict[LogDirectory, deque[ReplicaMove]] = {}
        self._running: dict[LogDirectory, ReplicaMove] = {}
        self._looks: dict[LogDirectory, Timer] = {}  # for room
        # Requests for partitions whose former move still ends, or whose name is taken there.
        self._next: dict[Partition, tuple[LogDirectory, Sequence[str]]] = {}
        self._discards = 0  # copies that are being removed
        self.stopped = False

    @property
    def busy(self) -> bool:
        working = any(each.working for each in self._moves.values())
        return working or self._discards > 0 or self._broker.replicas.move_sources.busy

    def stop(self) -> None:
        """Cancel all moves, since the node stops. Copies stay, as records of the requests."""
        self.stopped = True
        for timer in self._looks.values():
            timer.cancel()
        for move in list(self._moves.values()):
            move.cancel(NODE_STOPS)

    def check_room(self, partition: "Partition", target: "LogDirectory") -> None:
        """Raise KafkaStorageError if the partition does not fit into the target beside other
        moves."""
        if target.spare_bytes is None or target is partition.directory:
            return
        others = (each for each in self.into(target) if each.partition is not partition)
        promised = sum(each.copy.missing_bytes for each in others)
        promised += self._broker.cleaner.claimed_bytes(target)
        size, spare = partition.log.size, max(0, target.spare_bytes - promised)
        if target.rejects_writes or size > spare:
            raise KafkaStorageError(
                f"{partition} has {size} bytes, and {spare} are free in {target.disk.root} above"
                " what is kept (log.disk.reserve.bytes) and what others were promised"
            )

    def claimed_bytes(self, directory: "LogDirectory") -> int:
        """Return the bytes that the running move will still write into a directory."""
        move = self._running.get(directory)
        return 0 if move is None else max(0, move.copy.missing_bytes)

    def ask(
        self, partition: "Partition", target: "LogDirectory", leftovers: Sequence[str] = ()
    ) -> None:
        """Move a partition to a directory. A partition that is there stays, and its move ends. The
        last of several requests counts. `leftovers` are directories of this request from before the
        node was started."""
        self._next.pop(partition, None)
        under_way = self._moves.get(partition)
        if under_way is not None:
            if under_way.target is target and under_way.cancelled is None:
                return
            under_way.cancel("another directory is wanted")
        if partition in self._moves:  # the former move still ends, in either directory
            self._next[partition] = target, leftovers
            return
        if partition.directory is target:
            return
        leaving, name = self._broker.replicas.deletion, str(partition)
        if leaving.is_in(name, target):
            log.warning(
                "%s moves to %s when what a deleted topic has left there is gone",
                partition,
                target.disk.root,
            )
            self._next[partition] = target, leftovers
            leaving.when_gone(name, target, lambda: self._ask_next(partition))
            return
        originals = self._broker.replicas.move_sources
        if originals.is_in(partition, target):
            self._next[partition] = target, leftovers
            originals.when_gone(partition, lambda: self._ask_next(partition))
            return
        move = ReplicaMove(self, self._broker, partition, target, leftovers)
        self._moves[partition] = move
        self._waiting.setdefault(target, deque()).append(move)
        move.wish()

    def _ask_next(self, partition: "Partition") -> None:
        wish = self._next.pop(partition, None)
        if wish is not None and not (partition.gone or wish[0].failed):
            self.ask(partition, *wish)

    def discard(self, move: ReplicaMove) -> None:
        """Remove the copy of a cancelled move."""
        self._discards += 1

        def done(failure: DiskFailed | None) -> None:
            self._discards -= 1
            move.target.note_failure(failure)

        move.target.disk.offload_all([move.copy.discard], done)

    def next_into(self, target: "LogDirectory") -> None:
        """Begin the next move into a directory, if none runs."""
        waiting = self._waiting.get(target)
        if target in self._running or not waiting or self.stopped:
            return
        wished = [each for each in waiting if each.wished]
        move = next((each for each in wished if self._may_begin(each)), None)
        if move is None:
            if wished:
                self._look_again(target)
            return
        waiting.remove(move)
        self._running[target] = move
        log.info("%s moves from %s to %s", move.partition, move.source.disk.root, target.disk.root)
        move.begin()

    def _may_begin(self, move: ReplicaMove) -> bool:
        target = move.target
        if self._broker.world.clock.mono_ms() < move.not_before_ms:
            return False
        if move.partition.log.truncating:
            return False
        if target.spare_bytes is None:  # not known yet: the move checks the room as it goes
            return True
        spare = target.spare_bytes - self._broker.cleaner.claimed_bytes(target)
        if not target.rejects_writes and move.partition.log.size <= spare:
            return True
        move.log_wait()
        return False

    def _look_again(self, target: "LogDirectory") -> None:
        def look() -> None:
            del self._looks[target]
            if not target.failed:
                self.next_into(target)

        if target not in self._looks:
            world = self._broker.world
            self._looks[target] = world.timers.at(world.clock.mono_ms() + ROOM_LOOK_MS, look)

    def wait_again(self, move: ReplicaMove) -> None:
        """Put a move that had begun back into the line: the target lacks room."""
        if self._running.get(move.target) is move:
            del self._running[move.target]
        self._waiting[move.target].append(move)
        self.next_into(move.target)

    def ended(self, move: ReplicaMove) -> None:
        self._moves.pop(move.partition, None)
        if self.stopped:
            self._ask_next(move.partition)  # only to make it outlive the node
        elif move.partition in self._next:  # when this one has let go of everything
            self._broker.world.timers.soon(lambda: self._ask_next(move.partition))
        waiting = self._waiting.get(move.target)
        if waiting and move in waiting:
            waiting.remove(move)
        if self._running.get(move.target) is move:
            del self._running[move.target]
            self.next_into(move.target)

    def of(self, partition: "Partition") -> ReplicaMove | None:
        return self._moves.get(partition)

    def is_moving(self, partition: "Partition") -> bool:
        """Return whether a move has begun to copy the partition."""
        move = self._moves.get(partition)
        return move is not None and self._running.get(move.target) is move

    def into(self, directory: "LogDirectory") -> Iterator[ReplicaMove]:
        return (each for each in self._moves.values() if each.target is directory)

    def forget(self, partition: "Partition") -> bool:
        """Cancel the move of a deleted partition. Return whether its files are being renamed; then
        the end of the move removes them."""
        move = self._moves.get(partition)
        if move is None:
            return False
        move.cancel("the topic is deleted")
        return move.finishing

    def directory_failed(self, directory: "LogDirectory") -> None:
        for move in list(self._moves.values()):
            if directory in (move.source, move.target):
                move.cancel("a log directory failed")

    def progress(self) -> Iterator[TaskProgress]:
        return (each.progress() for each in self._moves.values())
