"""The cleaner: chooses the log that is compacted next.

The cleaner looks at a log after a segment was closed, after a change of settings, or at a deferred
time. Dirty logs wait in line, the dirtiest first, so idle partitions cost nothing. A log whose
cleaning failed rests for log.cleaner.backoff.ms. A log without room above the reserve of its disk
(headroom.py) stays in line.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.cleaner.cleaner_job import CleanerJob
from penstock.broker.cleaner.dirty_ratio import Budget, DirtyRange, assess, make_order, segments_of
from penstock.broker.cleaner.headroom import CleanerHeadroom, bytes_written_max, kept_bytes
from penstock.broker.cleaner.statistics import CleanerStatistics
from penstock.broker.progress import TaskProgress
from penstock.config.key_fields import configured, read_configured
from penstock.errors import KafkaError
from penstock.log.compaction.order import (
    MAP_BYTES_PER_KEY,
    BrokenBatch,
    CleaningReport,
    CompactionStopped,
    Order,
)
from penstock.log.directory import ACCEPT_LOSS
from penstock.world import DiskFailed, DiskFull, FileLost, ProcessDied, Timer, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.cleaner.broker_view import CleanerBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.cleaning")

SLICE_MS_MAX = 5.0
DEATHS_MAX = 3  # of processes in a row over one log
FAILED_REST_MS_MIN = 1_000  # however short the backoff is
UNKNOWN_ROOM_RETRY_MS = 50  # at the start, until the disks were asked


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The settings log.cleaner.* as plain values."""

    enabled: bool = configured("log.cleaner.enable")
    threads: int = configured("log.cleaner.threads")
    backoff_ms: int = configured("log.cleaner.backoff.ms")
    map_bytes_max: int = configured("log.cleaner.dedupe.buffer.size")
    map_load_max: float = configured("log.cleaner.io.buffer.load.factor")
    io_bytes_per_second_max: float = configured("log.cleaner.io.max.bytes.per.second")

    def budget(self) -> Budget:
        """Return the share of one thread."""
        threads = max(1, self.threads)
        return Budget(
            max(MAP_BYTES_PER_KEY * 2, self.map_bytes_max // threads),
            self.map_load_max,
            self.io_bytes_per_second_max / threads,
        )


class Cleaner:
    """The cleaner of one broker. Used on the loop only."""

    def __init__(self, broker: "CleanerBroker") -> None:
        self._broker = broker
        self._world = broker.world
        self.settings = read_configured(CleanerSettings, broker.config)
        self.statistics = CleanerStatistics(broker.world.clock.wall_ms())
        self.offsets = broker.cleaned_offsets
        self.uncleanable: dict[Partition, str] = {}
        self.runs: dict[Partition, CleanerJob] = {}
        self._to_look: dict[Partition, None] = {}
        self._line: dict[Partition, DirtyRange] = {}
        self._later: dict[Partition, int] = {}  # to be looked at again, by the wall clock
        self._room = CleanerHeadroom(broker)
        self._resting: dict[Partition, Timer] = {}  # after a failure
        self._ratios: dict[Partition, float] = {}  # as last looked at
        self._deaths: dict[Partition, int] = {}
        self._warned: dict[Partition, None] = {}  # that passes; until it has
        self._paused: dict[Partition, int] = {}
        self._when_over: dict[Partition, list[Callable[[], None]]] = {}
        self._beginning: set[Partition] = set()
        self._looking = False
        self._timer: Timer | None = None
        self._started = self._stopped = False

    # -- life

    def load(self, directories: list["LogDirectory"]) -> None:
        """Read the cleaner's checkpoints. Waits for the disks; called before clients are served."""
        for directory in directories:
            self.offsets.load(directory)

    def start(self) -> None:
        """Begin to look for work: the partitions are open, and clients are served."""
        self._started = True
        self._tick()

    def stop(self) -> None:
        """Break off all jobs; drop segments that have not replaced others yet."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for timer in self._resting.values():
            timer.cancel()
        for run in list(self.runs.values()):
            run.break_off()

    def reconfigured(self) -> None:
        """Apply changed broker settings; break off jobs that run with the former ones."""
        before = self.settings
        self.settings = read_configured(CleanerSettings, self._broker.config)
        if before == self.settings or not self._started:
            return
        if replace(before, backoff_ms=0) != replace(self.settings, backoff_ms=0):
            for run in list(self.runs.values()):
                run.break_off()
        self._schedule()

    # -- what happens to partitions

    def hosted(self, partition: "Partition") -> None:
        """Watch a partition that arrived here, or whose leadership changed."""
        if partition.gone or partition.log.lost is not None:
            return
        if partition.log.config.compact:
            cleaned_to = self.offsets.get(partition)
            if cleaned_to is not None and cleaned_to > partition.log.end_offset:
                self.offsets.remove(partition)  # of another log, or of an end that was lost
            partition.log.segment_closed = partial(self._look_at, partition)
            self._look_at(partition)
        else:
            self._forget(partition)

    def configured(self, partition: "Partition") -> None:
        """Look at a partition again whose topic settings changed."""
        if self.uncleanable.pop(partition, None) is not None:
            self.statistics.uncleanable = len(self.uncleanable)
        self._rest_no_more(partition)
        self.hosted(partition)

    def unhosted(self, partition: "Partition") -> None:
        self._forget(partition)
        self._paused.pop(partition, None)
        self.offsets.remove(partition)

    def lost(self, partition: "Partition") -> None:
        """Leave a log alone whose files are damaged."""
        self._forget(partition)

    def directory_failed(self, directory: "LogDirectory") -> None:
        for partition in list(directory.partitions):
            self._forget(partition)

    def directory_filled(self, directory: "LogDirectory") -> None:
        """Break off jobs in a directory whose reserve is reached; their files free their room."""
        for partition, run in list(self.runs.items()):
            if partition.directory is directory and not run.broken_off:
                log.warning(
                    "the cleaning of %s stops, as the reserve of its disk is reached", partition
                )
                run.break_off()

    def claimed_bytes(self, directory: "LogDirectory") -> int:
        """Return the bytes that running jobs may still write into a directory."""
        return self._room.claimed_bytes(directory)

    def _forget(self, partition: "Partition") -> None:
        partition.log.segment_closed = _ignore
        self._to_look.pop(partition, None)
        self._line.pop(partition, None)
        self._ratios.pop(partition, None)
        self._deaths.pop(partition, None)
        self._warned.pop(partition, None)
        self._later.pop(partition, None)
        self._room.forget(partition)
        self._rest_no_more(partition)
        if self.uncleanable.pop(partition, None) is not None:
            self.statistics.uncleanable = len(self.uncleanable)
        run = self.runs.get(partition)
        if run is not None:
            run.break_off()

    def pause(self, partition: "Partition", then: Callable[[], None]) -> None:
        """Keep the cleaner away from a log whose segments a truncation or a move changes. Call
        `then` when no job runs on the log. Each pause ends with one `resume`."""
        self._paused[partition] = self._paused.get(partition, 0) + 1
        run = self.runs.get(partition)
        if run is None and partition not in self._beginning:
            then()
            return
        self._when_over.setdefault(partition, []).append(then)
        if run is not None:
            run.break_off()

    def resume(self, partition: "Partition") -> None:
        left = self._paused.pop(partition, 0) - 1
        if left > 0:
            self._paused[partition] = left
        else:
            self.hosted(partition)  # which forgets a checkpoint beyond the end, after a truncation

    # -- looking

    def _look_at(self, partition: "Partition") -> None:
        if not self._stopped and partition not in self.uncleanable:
            self._to_look[partition] = None

    def _schedule(self, delay_ms: float | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stopped:
            return
        wait_ms = self.settings.backoff_ms if delay_ms is None else delay_ms
        self._timer = self._world.timers.at(self._world.clock.mono_ms() + wait_ms, self._tick)

    def _tick(self) -> None:
        self._schedule()
        if not self.settings.enabled or self._looking:
            return
        now_ms = self._world.clock.wall_ms()
        self.statistics.last_look_ms = now_ms
        for partition in [each for each, at_ms in self._later.items() if at_ms <= now_ms]:
            del self._later[partition]
            self._look_at(partition)
        to_look, self._to_look = list(self._to_look), {}
        self._looking = True
        self._look_through(iter(to_look))

    def _look_through(self, left: Iterator["Partition"]) -> None:
        """Assess partitions in slices: after a start these are all compacted partitions."""
        clock = self._world.clock
        until = clock.mono_ms() + SLICE_MS_MAX
        for partition in left:
            if self._may_clean(partition):
                self._assess(partition, partial(self._assessed, partition))
            if clock.mono_ms() >= until:
                self._world.timers.soon(lambda: self._look_through(left))
                return
        self._looking = False
        self._world.timers.soon(self._begin_some)

    def _may_clean(self, partition: "Partition") -> bool:
        return not (
            self._stopped
            or partition.gone
            or partition.directory.failed
            or partition in self.runs
            or partition in self._paused
            or partition in self._resting
            or partition in self.uncleanable
            or not partition.log.config.compact
        )

    def _assess(self, partition: "Partition", found: Callable[[DirtyRange], None]) -> None:
        now_ms = self._world.clock.wall_ms()

        def look() -> DirtyRange:
            high_watermark = partition.leader.high_watermark
            return assess(partition.log, self.offsets.get(partition), high_watermark, now_ms)

        self._broker.when_warm(look, found, partial(self._rejected, partition))

    def _rejected(self, partition: "Partition", error: KafkaError) -> None:
        self._begin_no_more(partition)
        if not partition.gone and not partition.directory.failed:
            self._give_up(partition, str(error))

    def _assessed(self, partition: "Partition", dirt: DirtyRange) -> None:
        if not self._may_clean(partition):
            return
        if dirt.complaint is not None:
            log.warning(
                "%s is cleaned from its start, as its checkpoint is not valid: %s",
                partition,
                dirt.complaint,
            )
            self.offsets.put(partition, dirt.first_dirty_offset)
        self._ratios[partition] = dirt.ratio
        if dirt.is_worth_it(partition.log.config.min_cleanable_ratio):
            self._line[partition] = dirt
            return
        self._line.pop(partition, None)
        if dirt.unstable:
            self._to_look[partition] = None
        if dirt.look_again_ms is not None:
            self._later[partition] = dirt.look_again_ms

    # -- cleaning

    def _begin_some(self) -> None:
        self._line = {each: it for each, it in self._line.items() if self._may_clean(each)}
        line, statistics = self._line, self.statistics
        statistics.dirty_ratio_max = max(self._ratios.values(), default=0.0)
        delays = (dirt.overdue_ms for dirt in line.values())
        statistics.compaction_delay_ms_max = max(delays, default=0)
        free = self.settings.threads - len(self.runs) - len(self._beginning)
        if free <= 0 or not self.settings.enabled or self._stopped:
            return
        if any(each.directory.spare_bytes is None for each in line):
            self._schedule(UNKNOWN_ROOM_RETRY_MS)
        for partition in sorted(line, key=lambda each: line[each].ratio, reverse=True):
            if free <= 0:
                return
            if self._room.lacks(partition, line[partition]):
                continue
            self._room.claim(partition, line.pop(partition))
            self._beginning.add(partition)
            self._assess(partition, partial(self._begin, partition))
            free -= 1

    def _begin(self, partition: "Partition", dirt: DirtyRange) -> None:
        """Begin a job, if a second look still finds the log dirty: the first look may be old."""
        if not self._may_clean(partition):
            self._begin_no_more(partition)
            return
        if not dirt.is_worth_it(partition.log.config.min_cleanable_ratio):
            self._begin_no_more(partition)
            self._look_at(partition)
            return
        if self._room.lacks(partition, dirt):
            self._begin_no_more(partition)
            self._line[partition] = dirt
            return
        self._room.claim(partition, dirt)
        now_ms, seed = self._world.clock.wall_ms(), int.from_bytes(self._world.entropy.uuid())
        budget = self.settings.budget()._replace(free_bytes_min=kept_bytes(partition.directory))

        def ordered(order: Order) -> None:
            if not self._may_clean(partition) or partition.directory.rejects_writes:
                self._begin_no_more(partition)
                self._look_at(partition)
                return
            self._beginning.discard(partition)
            held = segments_of(partition.log, dirt)
            run = CleanerJob(self._world, partition, dirt, held, self._remove_later, self._ended)
            self.runs[partition] = run
            log.debug("cleaning %s up to offset %d", partition, dirt.upper_offset)
            run.begin(order)

        self._broker.when_warm(
            lambda: make_order(partition.log, dirt, budget, now_ms, seed),
            ordered,
            partial(self._rejected, partition),
        )

    def _begin_no_more(self, partition: "Partition") -> None:
        self._beginning.discard(partition)
        self._room.give_back(partition)
        self._call_waiting(partition)

    def _remove_later(self, partition: "Partition", paths: list[str]) -> None:
        delay_ms = partition.settings.log.file_delete_delay_ms
        for path in paths:
            self._broker.replicas.remove_later(partition.directory, path, delay_ms)

    def _ended(
        self, run: CleanerJob, report: CleaningReport | None, failure: BaseException | None
    ) -> None:
        partition = run.partition
        self.runs.pop(partition, None)
        self._room.give_back(partition)
        gone = partition.gone or partition.directory.failed is not None
        if report is not None and not gone:
            self._deaths.pop(partition, None)
            self._warned.pop(partition, None)
            self.offsets.put(partition, report.cleaned_to)
            self.statistics.ran(report, run.seconds)
            _log_report(partition, report, run.seconds)
        else:
            self.statistics.aborted_runs += 1
            if not gone and failure is not None:
                self._judge(partition, failure)
        if not gone and partition.log.config.compact:
            if failure is not None:
                self._rest(partition)
            else:
                self._look_at(partition)
        self._call_waiting(partition)
        if not self._stopped and (report is not None or self._line):
            self._schedule(0)

    def _call_waiting(self, partition: "Partition") -> None:
        for call in self._when_over.pop(partition, ()):
            call()

    # -- trouble

    def _rest(self, partition: "Partition") -> None:
        """Keep a log whose job failed out of the line for a while."""
        if self._stopped or partition in self.uncleanable:
            return
        wait_ms = max(FAILED_REST_MS_MIN, self.settings.backoff_ms)

        def rested() -> None:
            self._rest_no_more(partition)
            self._look_at(partition)
            self._schedule(0)

        self._rest_no_more(partition)
        timers, clock = self._world.timers, self._world.clock
        self._resting[partition] = timers.at(clock.mono_ms() + wait_ms, rested)

    def _rest_no_more(self, partition: "Partition") -> None:
        timer = self._resting.pop(partition, None)
        if timer is not None:
            timer.cancel()

    def _judge(self, partition: "Partition", failure: BaseException) -> None:
        match failure:
            case CompactionStopped():
                pass
            case ProcessDied():
                self.statistics.process_deaths += 1
                deaths = self._deaths[partition] = self._deaths.get(partition, 0) + 1
                if deaths >= DEATHS_MAX:
                    self._give_up(partition, f"{failure}, {deaths} times in a row")
                elif not self._stopped:
                    log.warning("the cleaning of %s is tried again: %s", partition, failure)
            case DiskFull() | TooManyFiles():
                if partition not in self._warned:
                    self._warned[partition] = None
                    log.warning("the cleaning of %s is tried again later: %s", partition, failure)
            case BrokenBatch():
                self._give_up(partition, f"{failure}. {_way_out(partition)}")
            case FileLost():
                self._give_up(partition, str(failure))
            case DiskFailed():
                partition.directory.fail(failure)
            case _:
                self._give_up(partition, str(failure) or type(failure).__name__)

    def _give_up(self, partition: "Partition", why: str) -> None:
        self._deaths.pop(partition, None)
        self._line.pop(partition, None)
        self._to_look.pop(partition, None)
        self.uncleanable[partition] = why
        self.statistics.uncleanable = len(self.uncleanable)
        log.error(
            "%s cannot be compacted and is left as it is; nothing of it is lost, but it will grow:"
            " %s. It is tried again after the next start, or when its topic's settings change",
            partition,
            why,
        )

    # -- for people

    def progress(self) -> Iterator[TaskProgress]:
        for run in self.runs.values():
            yield run.progress()
        now_ms = self._world.clock.wall_ms()
        for partition, dirt in self._line.items():
            note = f"waiting, {100 * dirt.ratio:.0f} % dirty"
            total = bytes_written_max(dirt)
            if self._room.waits(partition):
                note += ", too little room above log.disk.reserve.bytes"
            yield TaskProgress("clean", str(partition), 0, total, "bytes", now_ms, note)


def _way_out(partition: "Partition") -> str:
    """Return the next step for a broken batch. Kafka leaves such a log alone as well."""
    where = f"{partition.directory.disk.root}/{partition.log.directory}/{ACCEPT_LOSS}"
    return (
        "Stop the node and restore that file from a copy; or, to give up what follows the batch in"
        f" that file, stop the node and make an empty file {where}; then start it again"
    )


def _ignore() -> None:
    """Do nothing for a closed segment of a log that is not compacted."""


def _log_report(partition: "Partition", report: CleaningReport, seconds: float) -> None:
    log.info(
        "cleaned %s up to offset %d: %d of %d records kept, %.1f MB read, %.1f MB written, %.1f s",
        partition,
        report.cleaned_to,
        report.records_kept,
        report.records_read,
        report.bytes_read / 1e6,
        report.bytes_written / 1e6,
        seconds,
    )
    if report.keyless_dropped:
        log.warning(
            "%s had %d records without a key, which have no place in a compacted log: they are"
            " dropped",
            partition,
            report.keyless_dropped,
        )
    if report.flawed_kept:
        log.warning(
            "%s has %d batches whose records are not what they say: no client can read them. They"
            " are kept as they are, and the others are cleaned",
            partition,
            report.flawed_kept,
        )
