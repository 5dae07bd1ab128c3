"""One partition on its way to another log directory (AlterReplicaLogDirs).

The copy runs off the loop, within replica.alter.log.dirs.io.max.bytes.per.second. At the end
producers of the partition wait for a moment, and readers notice nothing. If that moment grows long,
producers go on and the move tries again later. A directory ending in -future records the request: a
node that is stopped or killed starts the copy again.

A move takes no room from the target's reserve. If the disk fills up meanwhile, the move removes its
copy and waits: partitions that live there come first.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.broker.moves.move_cutover import MoveCutover
from penstock.broker.progress import TaskProgress
from penstock.log.directory import DirectoryKind, marked_name
from penstock.log.future_log import (
    ChosenReplica,
    CopyRange,
    CutoverResult,
    FutureLog,
    MoveNames,
    SourceUnreadable,
)
from penstock.model import TopicPartition, id_to_text
from penstock.world import DiskFailed, DiskFull, FileLost, Timer

if TYPE_CHECKING:
    from penstock.broker.moves.broker_view import MovesBroker
    from penstock.broker.moves.moves import ReplicaMoves
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.moves")

HELD_BYTES_MAX = 512 * 1024  # with so little missing, the producers are asked to wait
SYNC_ROUNDS_MAX = 5  # before that, while more than this is written during each sync
HURRIED_FACTOR = 16  # after them, so much more may be missing
HOLD_MS_MAX = 2_000  # so long at most, until the copy is durable
HOLD_REST_MS = 10_000  # before they are asked again
QUIET_RETRY_MS = 2
STALL_RETRY_MS = 1_000  # for what the log could not write down, as its disk was full
NODE_STOPS = "the node stops"  # why a move is cancelled that is still wanted
ROOM_REST_MS = 10_000  # at least, after what was copied had to be given back

STUCK_MS = 5 * 60_000  # so long without coming closer
STUCK_REPEAT_MS = 30 * 60_000


class ReplicaMove:
    """One partition on its way. Used on the loop only."""

    def __init__(
        self,
        moves: "ReplicaMoves",
        broker: "MovesBroker",
        partition: "Partition",
        target: "LogDirectory",
        leftovers: Sequence[str] = (),
    ) -> None:
        """Prepare a move to `target`. `leftovers` names future replicas of the same move from
        before a restart."""
        self._moves = moves
        self._broker = broker
        self.partition = partition
        self.source = partition.directory
        self.target = target
        self.since_ms = broker.world.clock.wall_ms()
        self.cancelled: str | None = None
        place = TopicPartition(partition.topic, partition.index)
        token = broker.world.entropy.uuid().hex()
        self.copy = FutureLog(
            partition.log, target.disk, marked_name(place, DirectoryKind.FUTURE, token)
        )
        self._crossing = MoveNames(
            id_to_text(self.source.directory_id),
            id_to_text(target.directory_id),
            token,
            marked_name(place, DirectoryKind.DELETED, token),
        )
        self._cutover = MoveCutover(broker, partition, self.source, target, self._crossing)
        self._leftovers = leftovers
        self._pace = StallDetector(broker.world.clock.mono_ms())
        self._began = False
        self._over = False
        self._paused = False  # the cleaning of its log
        self._holding = False  # producers wait
        self._hold_timer: Timer | None = None
        self._rests = False  # after producers have waited too long
        self._rounds = 0  # of syncs, since little was missing for the first time
        self._stall_logged = False
        self.wished = False  # the request would outlive the node
        self.not_before_ms = 0.0  # monotonic
        self.waits_for_room = False
        self.working = False
        self.finishing = False  # the files take their new names: no other rename may run

    def wish(self) -> None:
        """Record the request on disk; then wait for its turn."""

        def make() -> None:
            try:
                self.copy.begin()
            except DiskFull:
                if not self._leftovers:
                    raise
                self._remove_leftovers()
                self.copy.begin()
            self._remove_leftovers()

        def made(failure: DiskFailed | None) -> None:
            self.working = False
            self.wished = True
            if self.cancelled is not None:
                self._give_up()
            elif failure is not None and not isinstance(failure, DiskFull):
                self._failed(failure)
            else:
                self.target.note_failure(failure)
                self._moves.next_into(self.target)

        self.working = True
        self.target.disk.offload_all([make], made)

    def _remove_leftovers(self) -> None:
        for name in self._leftovers:
            self.target.disk.remove_now(name)

    def begin(self) -> None:
        self._began = self._paused = True
        self.waits_for_room = False
        self._pace = StallDetector(self._broker.world.clock.mono_ms())
        # Nothing but appends and retention may change the log meanwhile.
        self._broker.cleaner.pause(self.partition, lambda: self._work(self.copy.begin, self._go_on))

    def cancel(self, why: str) -> None:
        if self.cancelled is None:
            self.cancelled = why
            if not self.working:  # else the end of the work sees the cancellation
                self._give_up()

    def _work(
        self,
        work: Callable[[], None],
        then: Callable[[], None],
        lost: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run work off the loop, on the threads of the target's disk. `lost` returns whether a
        missing file is expected."""
        if self._over:
            return
        if self.cancelled is not None:
            self._give_up()
            return
        self.working = True

        def done(failure: DiskFailed | None) -> None:
            self.working = False
            if isinstance(failure, FileLost) and self.cancelled is None and lost():
                failure = None
            if isinstance(failure, DiskFull):
                self._step_back()
                self.target.note_failure(failure)
            elif failure is not None:
                self._failed(failure)
            elif self.cancelled is not None:
                self._give_up()
            else:
                then()

        self.target.disk.offload_all([work], done)

    def _later(self, wait_ms: float, call: Callable[[], None]) -> Timer:
        world = self._broker.world
        return world.timers.at(world.clock.mono_ms() + wait_ms, call)

    # -- copying

    def _go_on(self) -> None:
        self._rests = False
        if self._over:
            return
        if self.cancelled is not None:
            self._give_up()
            return
        if self.partition.log.failure is not None:
            self.cancel("its log takes no more records")
            return
        self._watch_pace()
        piece = self.copy.next_piece()
        if piece is not None and self._lacks_room(piece.size):
            self._step_back()
        elif piece is None or self.copy.missing_bytes <= HELD_BYTES_MAX:
            began_ms = self._broker.world.clock.mono_ms()
            self._work(self.copy.sync, lambda: self._hold_if_near(began_ms))
        else:
            self._copy(piece, self._go_on)

    def _watch_pace(self) -> None:
        now_ms, missing = self._broker.world.clock.mono_ms(), self.copy.missing_bytes
        if self._pace.should_warn(now_ms, missing):
            log.warning(
                "the move of %s to %s does not come closer to its end: %d bytes are missing, as"
                " many as %d minutes ago. More is written than"
                " replica.alter.log.dirs.io.max.bytes.per.second (%d) lets through, or the disk is"
                " too slow",
                self.partition,
                self.target.disk.root,
                missing,
                self._pace.stuck_minutes(now_ms),
                self._broker.settings.move_bytes_per_second_max,
            )

    def _copy(self, piece: CopyRange, then: Callable[[], None]) -> None:
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

        self._work(
            lambda: self.copy.copy(piece), copied, lost=lambda: not self.copy.still_wants(piece)
        )

    # -- the last moment

    def _hold_if_near(self, began_ms: float) -> None:
        """Hold producers if little was written since the sync. On a slow disk, rest instead:
        producers must not wait long."""
        self._rounds += 1
        last = self._rounds > SYNC_ROUNDS_MAX
        is_slow = self._broker.world.clock.mono_ms() - began_ms > HOLD_MS_MAX / 2
        if is_slow and last:
            self._rounds = 0
            self._rest()
        elif is_slow or self.copy.missing_bytes > HELD_BYTES_MAX * (HURRIED_FACTOR if last else 1):
            self._go_on()
        elif self.partition.log.chores.stalled:
            if not self._stall_logged:
                self._stall_logged = True
                root = self.partition.directory.disk.root
                log.warning("the move of %s waits for room in %s", self.partition, root)
            self.partition.log.chores.retry()
            self._later(STALL_RETRY_MS, self._go_on)
        elif (
            TopicPartition(self.partition.topic, self.partition.index)
            in self.target.stale_checkpoints
        ):
            # A checkpoint there still names a former partition of the same name.
            self._broker.replicas.checkpoints.forget_gone(self.target, self._go_on_soon)
        else:
            self._holding = self.partition.held = self.partition.log.moving = True
            self._hold_timer = self._later(HOLD_MS_MAX, self._held_too_long)
            self._hold()

    def _go_on_soon(self, _failure: DiskFailed | None) -> None:
        self._later(STALL_RETRY_MS, self._go_on)

    def _hold(self) -> None:
        """Copy the rest while producers wait; work of the log off the loop ends first."""
        if self._over:
            return
        if self.cancelled is not None:
            self._give_up()
        elif not self._holding:
            self._rest()
        elif (piece := self.copy.next_piece()) is not None:
            if self._lacks_room(piece.size):
                self._step_back()
                return
            self._work(
                lambda: self.copy.copy(piece),
                lambda: self._held_copied(piece),
                lost=lambda: not self.copy.still_wants(piece),
            )
        elif not self.copy.settled:
            self._later(QUIET_RETRY_MS, self._hold)
        else:
            start_offset = self.partition.log.start_offset
            self._work(
                lambda: self.copy.prepare(self._crossing, start_offset),
                lambda: self._prepared(start_offset),
                lost=lambda: not self._holding,
            )

    def _held_copied(self, piece: CopyRange) -> None:
        self.copy.copied(piece)
        self._hold()

    def _prepared(self, start_offset: int) -> None:
        unchanged = self.copy.settled and self.partition.log.start_offset == start_offset
        if self._holding and unchanged:
            self._take_over(start_offset)
        else:
            self._hold()

    def _held_too_long(self) -> None:
        """Release the producers; the steps under way have no effect."""
        if not self._holding or self.finishing:
            return
        self._release()
        self._rests = True
        if self._pace.should_warn_of_hold(self._broker.world.clock.mono_ms()):
            log.warning(
                "producers of %s waited for %d ms for the end of its move to %s, and go on: its"
                " disk is slow. It is tried again every %d s",
                self.partition,
                HOLD_MS_MAX,
                self.target.disk.root,
                HOLD_REST_MS // 1_000,
            )

    def _rest(self) -> None:
        self._rests = True
        self._later(HOLD_REST_MS, self._go_on)

    def _release(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        self._rounds = 0
        self._holding = self.partition.log.moving = False
        self.partition.release_held(self._broker.touch_partition)

    def _take_over(self, start_offset: int) -> None:
        finished: list[CutoverResult] = []
        self.working = self.finishing = True

        def done(failure: DiskFailed | None) -> None:
            assert failure is None, "what fails is told otherwise"
            self.working = False
            self._finished(finished[0], start_offset)

        self.target.disk.offload_all(
            [lambda: finished.append(self.copy.take_over(self._crossing))], done
        )

    def _finished(self, result: CutoverResult, start_offset: int) -> None:
        failures = [
            (self.source if disk is self.source.disk else self.target, failure)
            for disk, failure in result.failures
        ]
        if result.counts is ChosenReplica.COPY:
            assert result.active is not None, "a copy that counts can be written to"
            # Also if the move was cancelled too late.
            self._cutover.arrive(result.active, start_offset)
            self._end()
        elif result.counts is ChosenReplica.UNKNOWN:
            self._cutover.note_copy()
            if not self.partition.gone:
                self.finishing = False  # the files stay as they are
                self._cutover.withdraw(failures[0][1])
            self._end()
        else:
            if result.copy_stays:
                self._cutover.note_copy()
            self._stay(*failures[0])
        for directory, failure in failures:
            if isinstance(failure, DiskFull):
                directory.note_failure(failure)
            elif directory is self.source or not isinstance(failure, FileLost):
                directory.fail(failure)

    def _stay(self, directory: "LogDirectory", failure: DiskFailed) -> None:
        """Keep the partition in the source directory."""
        self.finishing = False
        if self.cancelled is None and isinstance(failure, DiskFull):
            if directory is self.target:
                self._step_back()
            else:
                self._release()
                self._rest()
            return
        if self.cancelled is None:
            log.error("%s stays in %s: %s", self.partition, self.source.disk.root, failure)
        self.finishing = self.partition.gone  # then its end takes the files away
        self._give_up()

    # -- too little room

    def _lacks_room(self, size: int) -> bool:
        spare_bytes = self.target.spare_bytes
        return self.target.rejects_writes or (spare_bytes is not None and spare_bytes < size)

    def _step_back(self) -> None:
        """Remove the copy, and let the log change again until the target has room."""
        self._release()
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
                self._resume_cleaning()
                self.not_before_ms = self._broker.world.clock.mono_ms() + ROOM_REST_MS
                self.log_wait()
                self._moves.wait_again(self)

        self.target.disk.offload_all([self.copy.start_over], done)

    def log_wait(self) -> None:
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

    def _failed(self, failure: DiskFailed) -> None:
        told = self.cancelled is None
        if told:
            log.error("%s stays in %s: %s", self.partition, self.source.disk.root, failure)
        self._give_up()
        if isinstance(failure, SourceUnreadable):
            self.source.fail(failure)
        elif told and not isinstance(failure, FileLost):  # that says nothing about the target
            self.target.note_failure(failure)

    def _give_up(self) -> None:
        if self._over:
            return
        if not self.target.failed and self.cancelled != NODE_STOPS:
            self._moves.discard(self)
        self._end()

    def _end(self) -> None:
        self._over = True
        partition = self.partition
        self._moves.ended(self)
        if not partition.gone:
            self._resume_cleaning()
        elif self.finishing:
            self._broker.replicas.deletion.take_all(partition)
        self._release()

    def _resume_cleaning(self) -> None:
        if self._paused:
            self._paused = False
            self._broker.cleaner.resume(self.partition)

    def progress(self) -> TaskProgress:
        partition = self.partition
        where = self.target.disk.root
        note = f"to {where}"
        if self.waits_for_room:
            note = f"waits for room in {where} above log.disk.reserve.bytes"
        elif not self._began:
            note = "waits for another move"
        elif self._rests:
            note = f"waits, as the disk of {where} is slow"
        elif self._pace.is_stuck(self._broker.world.clock.mono_ms()):
            note = f"to {where}, comes no closer (replica.alter.log.dirs.io.max.bytes.per.second)"
        total = partition.log.size
        done = max(0, total - self.copy.missing_bytes)
        return TaskProgress("move", str(partition), done, total, "bytes", self.since_ms, note)


class StallDetector:
    """Detects a move that comes no closer to its end, and limits the warnings about it. Reads no
    clock."""

    def __init__(self, now_ms: float) -> None:
        self._least_bytes: int | None = None
        self._closer_ms = now_ms  # when there was last so little missing as never before
        self._warned_ms = -float(STUCK_REPEAT_MS)
        self._warned_hold_ms = -float(STUCK_REPEAT_MS)

    def should_warn(self, now_ms: float, missing_bytes: int) -> bool:
        """Return True from time to time while the move is stuck."""
        if self._least_bytes is None or missing_bytes < self._least_bytes:
            self._least_bytes = missing_bytes
            self._closer_ms = now_ms
        if not self.is_stuck(now_ms) or now_ms - self._warned_ms < STUCK_REPEAT_MS:
            return False
        self._warned_ms = now_ms
        return True

    def is_stuck(self, now_ms: float) -> bool:
        return now_ms - self._closer_ms >= STUCK_MS

    def stuck_minutes(self, now_ms: float) -> int:
        return int(now_ms - self._closer_ms) // 60_000

    def should_warn_of_hold(self, now_ms: float) -> bool:
        """Return True from time to time for producers that waited too long."""
        if now_ms - self._warned_hold_ms < STUCK_REPEAT_MS:
            return False
        self._warned_hold_ms = now_ms
        return True
