"""A compacted log, its cleanings and its crashes, from one seed; and what must be true of it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from log_builder import DIRECTORY, NOW_MS, SyncRounds, produced, split, warmly

from penstock.broker.cleaner.cleaner_job import CleanerJob
from penstock.broker.cleaner.dirty_ratio import Budget, assess, make_order, segments_of
from penstock.errors import KafkaError
from penstock.log.checkpoints import (
    RECOVERY_POINTS,
    START_OFFSETS,
    format_offsets,
    read_offsets,
)
from penstock.log.compaction.order import CleaningReport
from penstock.log.config import LogConfig
from penstock.log.directory import (
    INDEX,
    LOG,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_file,
)
from penstock.log.log import Log
from penstock.log.producers import LAST_SEQUENCE
from penstock.log.recovery import open_log
from penstock.model import TopicPartition
from penstock.testing.sim.child_process import Rehearsal
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_OFFSET,
    COMMIT_MARKER,
    CONTROL,
    HEADER,
    LAST_OFFSET_DELTA,
    PRODUCER_ID,
    TRANSACTIONAL,
    Header,
    Record,
    build_batch,
    checksum_holds,
    read_marker,
    read_records,
)
from penstock.world import DiskFailed, ProcessDied

PARTITION = TopicPartition("events", 0)
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
TOPIC_ID = bytes(range(16))
RETENTION_MS = 1_000  # of tombstones
KEYS = 12
BATCH_RECORDS_MAX = 4
TRANSACTIONAL_PRODUCERS = (0, 1)
IDEMPOTENT_PRODUCERS = (2, 3)


class Written(NamedTuple):
    """One record that was appended, and who wrote it; a marker has no key."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    producer_id: int
    transactional: bool
    marker: int | None
    last_sequence: int


@dataclass
class Directory:
    """As much of a broker's directory as a run needs."""

    disk: SimDisk
    failed: DiskFailed | None = None


@dataclass
class Hosted:
    """As much of a hosted partition."""

    log: Log
    directory: Directory
    gone: bool = False

    def notify_watchers(self) -> None:
        pass


@dataclass
class Process:
    """The other process, whose steps the life takes."""

    life: "Life"

    def run(
        self, function: str, _root: str, arguments: tuple[Any, ...], heard: Any, done: Any
    ) -> Rehearsal:
        self.life.errand = Rehearsal(self.life.disk, function, arguments, heard, done)
        return self.life.errand


@dataclass
class Life:
    """One log. Every append is noted in `written`; a crash may take the end of it away."""

    seed: int
    dice: random.Random = field(init=False)
    disk: SimDisk = field(init=False)
    log: Log = field(init=False)
    written: list[Written] = field(default_factory=list)
    now_ms: int = NOW_MS
    start_max: int = 0
    upper_max: int = 0  # nothing at or above it was ever cleaned
    mark_max: int = 0  # the high watermark when something was last cleaned
    cleaned_to: int | None = None
    run: CleanerJob | None = None
    errand: Rehearsal | None = None
    removable: list[str] = field(default_factory=list)
    rounds: SyncRounds = field(default_factory=SyncRounds)
    cleanings: int = 0
    crashes_in_swap: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.disk = SimDisk(self.seed, cold=self.dice.random() < 0.2)
        self.syncs = self.dice.random() < 0.5  # log.durability=fsync
        self.config = LogConfig(
            segment_bytes=self.dice.choice((600, 1_500, 4_000)),
            index_interval_bytes=self.dice.choice((50, 200, 4_096)),
            retention_ms=-1,
            timestamp_after_ms_max=2**62,
            producer_expiration_ms=2**62,
            compact=True,
            delete=False,
            min_cleanable_ratio=0.0,
            delete_retention_ms=self.dice.choice((0, RETENTION_MS)),
            min_compaction_lag_ms=self.dice.choice((0, 0, 300)),
        )
        if self.dice.random() < 0.3:
            self.config = replace(self.config, delete=True, retention_ms=5_000)
        self.map_bytes = self.dice.choice((24 * 4, 24 * 8, 24 * 1_000))
        self.log = Log.create(self.disk, DIRECTORY, TOPIC_ID, self.config, self.now_ms)

    # -- the world of a run

    @property
    def clock(self) -> "Life":
        return self

    @property
    def child_processes(self) -> "Process":
        return Process(self)

    def wall_ms(self) -> int:
        return self.now_ms

    def mono_ms(self) -> float:
        return float(self.now_ms)

    # -- living

    def live(self, steps: int) -> None:
        actions = (
            (self.append, 12),
            (self.end_transaction, 6),
            (self.roll, 2),
            (self.begin_round, 3),
            (self.finish_some, 8),
            (self.checkpoint, 2),
            (self.begin_cleaning, 4),
            (self.step_cleaning, 8),
            (self.finish_cleaning, 2),
            (self.pass_time, 3),
            (self.forget_old, 1),
            (self.delete_records, 0.5),
            (self.remove_old_files, 1),
            (self.truncate, 0.3),
            (self.restart, 0.5),
        )
        names, weights = zip(*actions, strict=True)
        for number, action in enumerate(self.dice.choices(names, weights, k=steps)):
            action()
            if number % 4 == 0:
                self.judge()
        self.judge()

    @property
    def high_watermark(self) -> int:
        return self.log.synced_offset if self.syncs else self.log.end_offset

    def append(self) -> None:
        for _ in range(self.dice.choice((1, 2, 5))):
            number = self.dice.choice((-1, *TRANSACTIONAL_PRODUCERS, *IDEMPOTENT_PRODUCERS))
            self._append_batch(number)

    def _append_batch(self, number: int) -> None:
        dice, log = self.dice, self.log
        end = log.end_offset
        records: list[Record] = []
        for delta in range(dice.randrange(1, BATCH_RECORDS_MAX + 1)):
            key = b"key-%d" % dice.randrange(KEYS)
            value = None if dice.random() < 0.25 else dice.randbytes(dice.randrange(60))
            records.append(Record(delta, self.now_ms + dice.randrange(-50, 50), key, value))
        sequence, transactional = -1, number in TRANSACTIONAL_PRODUCERS
        if number >= 0:
            sequence = self._next_sequence(number)
        batch = build_batch(
            records,
            producer_id=number,
            producer_epoch=0 if number >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            compression=dice.choice((0, 0, 0, 1, 3, 4)),
        )
        (result,) = log.append(produced(batch), 0, self.now_ms)
        assert not isinstance(result, KafkaError), result
        last = sequence + len(records) - 1 if number >= 0 else -1
        for record in records:
            offset, time = end + record.offset, record.timestamp
            self.written.append(
                Written(offset, record.key, record.value, time, number, transactional, None, last)
            )

    def _next_sequence(self, number: int) -> int:
        """As a producer goes on that learns from the log; what it knows is judged elsewhere."""
        state = self.log.producers.states.get(number)
        return 0 if state is None else state[LAST_SEQUENCE] + 1

    def end_transaction(self) -> None:
        number = self.dice.choice(TRANSACTIONAL_PRODUCERS)
        marker = self.dice.choice((ABORT_MARKER, COMMIT_MARKER))
        offset = self.log.append_control(
            marker,
            producer_id=number,
            producer_epoch=0,
            coordinator_epoch=0,
            leader_epoch=0,
            now_ms=self.now_ms,
        )
        self.written.append(Written(offset, None, None, self.now_ms, number, True, marker, -1))

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def begin_round(self) -> None:
        self.rounds.begin(self.log)

    def finish_some(self) -> None:
        for _ in range(self.dice.randrange(1, 14)):
            self.disk.run_one()

    def checkpoint(self) -> None:
        points = format_offsets({PARTITION: self.log.recovery_point})
        self.disk.replace_now(RECOVERY_POINTS, points)
        starts = format_offsets({PARTITION: self.log.start_offset})
        self.disk.replace_now(START_OFFSETS, starts)

    def pass_time(self) -> None:
        self.now_ms += self.dice.choice((100, 400, 1_500))

    def forget_old(self) -> None:
        def renamed(paths: list[str]) -> None:
            self.removable += paths

        mark = self.high_watermark
        self._warm(lambda: self.log.delete_old_segments(self.now_ms, mark, renamed))
        self._note_start()

    def delete_records(self) -> None:
        if self.log.start_offset < self.high_watermark:
            offset = self.dice.randrange(self.log.start_offset, self.high_watermark + 1)
            self.log.advance_start_offset(offset)
            self._note_start()

    def _note_start(self) -> None:
        self.start_max = max(self.start_max, self.log.start_offset)

    def remove_old_files(self) -> None:
        paths, self.removable = self.removable, []
        for path in paths:
            self.disk.remove(path, lambda _failure: None)

    def truncate(self) -> None:
        """Never below the high watermark: what is cleaned, and what decided on it, is below."""
        self.break_off()
        # Nor in the batch that holds the start, which would go as a whole.
        low = max(self.log.start_offset + BATCH_RECORDS_MAX, self.mark_max)
        if low > self.log.end_offset:
            return
        offset = self.dice.randrange(low, self.log.end_offset + 1)
        finished: list[object] = []
        while not finished:
            self._warm(lambda: self.log.truncate_to(offset, self.now_ms, finished.append))
            self.disk.run_callbacks()
        assert finished == [None]
        assert self.log.end_offset <= max(offset, self.log.start_offset)
        self.checkpoint()
        self._cut_to(self.log.end_offset)
        if self.cleaned_to is not None and self.cleaned_to > self.log.end_offset:
            self._store_cleaned(self.log.end_offset)

    def restart(self) -> None:
        """A clean stop and a clean start."""
        self.break_off()
        self.disk.run_callbacks()
        self.judge_names()
        self.log.close()
        self.checkpoint()
        self.disk.sync_everything_now()
        self.log = open_log(
            self.disk,
            DIRECTORY,
            self.config,
            now_ms=self.now_ms,
            clean=True,
            recovery_point=self.log.recovery_point,
            start_offset=self.log.start_offset,
            sizes=self.log.sizes(),
        )
        assert self.log.recovery.truncated_bytes == 0
        self.removable.clear()
        self.judge()

    def _warm(self, look: Any) -> Any:
        from penstock.world import Cold

        while True:
            try:
                return look()
            except Cold as cold:
                warmed: list[object] = []
                cold.file.warm(cold.position, cold.size, warmed.append)
                while not warmed:
                    self.disk.run_one()

    # -- cleaning

    def begin_cleaning(self) -> None:
        if self.run is not None:
            return
        mark = self.high_watermark
        dirt = self._warm(lambda: assess(self.log, self.cleaned_to, mark, self.now_ms))
        if not dirt.is_worth_it(0.0):
            return
        budget = Budget(self.map_bytes, 0.9, float("inf"))
        order = self._warm(lambda: make_order(self.log, dirt, budget, self.now_ms, self.seed))
        self.upper_max = max(self.upper_max, dirt.upper_offset)
        self.mark_max = max(self.mark_max, mark)
        segments = segments_of(self.log, dirt)
        hosted = Hosted(self.log, Directory(self.disk))
        self.run = CleanerJob(self, hosted, dirt, segments, self._old_files, self._ended)  # type: ignore[arg-type]  # as much of them as it needs
        self.run.begin(order)

    def _old_files(self, _partition: object, paths: list[str]) -> None:
        self.removable += paths

    def step_cleaning(self) -> None:
        for _ in range(self.dice.randrange(1, 12)):
            if self.errand is not None and not self.errand.ended:
                if self.errand.stopped or self.dice.random() < 0.003:
                    self.errand.die()
                else:
                    self.errand.step()

    def finish_cleaning(self) -> None:
        while self.run is not None:
            self.step_cleaning()
            self.disk.run_one()

    def break_off(self) -> None:
        if self.run is not None:
            self.run.break_off()
            self.finish_cleaning()

    def _ended(
        self, _run: CleanerJob, report: CleaningReport | None, failure: BaseException | None
    ) -> None:
        assert failure is None or isinstance(failure, ProcessDied), failure
        self.run = self.errand = None
        if report is not None:
            self.cleanings += 1
            self._store_cleaned(report.cleaned_to)

    def _store_cleaned(self, offset: int) -> None:
        self.cleaned_to = offset
        data = format_offsets({PARTITION: offset})
        self.disk.replace(CLEANER_OFFSETS, data, lambda _failure: None)

    # -- crashing

    def crash(self) -> None:
        """The power goes, or only the process: then the page cache outlives it."""
        synced = self.log.synced_offset
        self.crashes_in_swap += self.log.swapping
        if self.dice.random() < 0.3:
            self.disk.kill()
            synced = self.log.end_offset
        else:
            self.disk = self.disk.crash()
        self.rounds.forget()
        self.removable.clear()
        self.run = self.errand = None
        if not self.disk.is_directory(DIRECTORY):
            assert synced == 0
            self._cut_to(0)
            self.cleaned_to = None
            self.log = Log.create(self.disk, DIRECTORY, TOPIC_ID, self.config, self.now_ms)
            return
        self.log = self._recover()
        assert self.log.end_offset >= synced, "what was synced is there"
        self._cut_to(self.log.end_offset)
        self.cleaned_to = read_offsets(self.disk, CLEANER_OFFSETS).offsets.get(PARTITION)
        self.judge()
        before = self.disk.files()
        self.log = self._recover()
        assert self.disk.files() == before, "recovering twice changes nothing"
        self.judge()

    def _recover(self) -> Log:
        log = open_log(
            self.disk,
            DIRECTORY,
            self.config,
            now_ms=self.now_ms,
            clean=False,
            recovery_point=read_offsets(self.disk, RECOVERY_POINTS).offsets.get(PARTITION, 0),
            start_offset=read_offsets(self.disk, START_OFFSETS).offsets.get(PARTITION, 0),
        )
        assert not log.recovery.corrupt
        return log

    def _cut_to(self, end_offset: int) -> None:
        self.written = [each for each in self.written if each.offset < end_offset]
        self.start_max = min(self.start_max, end_offset)

    # -- judging

    def judge_names(self) -> None:
        """Nothing is under way: what is called a file of a segment is one."""
        bases = self.log.sizes()
        for name in self.disk.list(DIRECTORY):
            parsed = parse_segment_file(name)
            if parsed and parsed[1] in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                assert parsed[0] in bases, f"{name} belongs to no segment"

    def judge(self) -> None:
        found = self._read_all()
        by_offset = {each.offset: each for each in self.written}
        present: list[Written] = []
        last = -1
        for header, batch in found:
            assert checksum_holds(memoryview(batch), header), "every batch is whole"
            base = header[BASE_OFFSET]
            assert base > last, "offsets rise"
            last = base + header[LAST_OFFSET_DELTA]
            for record in read_records(batch):
                noted = by_offset[record.offset]
                assert base <= record.offset <= last
                if noted.marker is None:
                    assert (record.key, record.value) == (noted.key, noted.value)
                    assert record.timestamp == noted.timestamp
                assert header[PRODUCER_ID] == noted.producer_id
                present.append(noted)
        offsets = {each.offset for each in present}
        missing = [
            each
            for each in self.written
            if each.offset >= max(self.upper_max, self.log.start_offset)
            and each.offset not in offsets
        ]
        assert not missing, f"never cleaned, and gone: {missing[:3]}"
        committed = self._committed()
        self._judge_keys(offsets, committed)
        self._judge_read_committed(found, offsets, committed)
        self._judge_producers()

    def _read_all(self) -> list[tuple[Header, bytes]]:
        log = self.log
        found: list[tuple[Header, bytes]] = []
        offset = log.start_offset
        while offset < log.end_offset:
            data = warmly(log, offset, self.dice.choice((1, 500, 2**30)))
            if not data:
                break  # the end was compacted away, and nothing follows
            for base, end, batch in split(data):
                found.append((HEADER.unpack_from(batch), batch))
                assert base >= offset or end > offset, "a read begins where it was asked to"
            offset = end
        return found

    def _committed(self) -> set[int]:
        """Offsets of records that readers of committed data may see."""
        seen: set[int] = set()
        ongoing: dict[int, list[int]] = {}
        for each in self.written:
            if each.marker is not None:
                ended = ongoing.pop(each.producer_id, [])
                if each.marker == COMMIT_MARKER:
                    seen.update(ended)
            elif each.transactional:
                ongoing.setdefault(each.producer_id, []).append(each.offset)
            else:
                seen.add(each.offset)
        return seen

    def _judge_keys(self, offsets: set[int], committed: set[int]) -> None:
        """The newest of each key is there; nothing older than a newer one that was dropped is."""
        newest: dict[bytes, Written] = {}
        shown: dict[bytes, int] = {}
        for each in self.written:
            if each.key is None or each.offset not in committed or each.offset < self.start_max:
                continue
            newest[each.key] = each
            if each.offset in offsets:
                shown[each.key] = each.offset
        for key, last in newest.items():
            if shown.get(key) == last.offset:
                continue
            assert last.value is None, f"the newest value of {key!r} is gone: {last}"
            assert key not in shown, f"{key!r} is back at {shown[key]}, deleted at {last.offset}"
            age_ms = self.now_ms - last.timestamp + 100
            assert age_ms >= self.config.delete_retention_ms, f"{last} was dropped too early"

    def _judge_read_committed(
        self, found: list[tuple[Header, bytes]], offsets: set[int], committed: set[int]
    ) -> None:
        """As a client does it, fetch by fetch."""
        log = self.log
        stable = log.last_stable_offset
        seen: set[int] = set()
        for piece in _pieces(found, self.dice.choice((1, 3, 1_000))):
            first = piece[0][0][BASE_OFFSET]
            upper = piece[-1][0][BASE_OFFSET] + piece[-1][0][LAST_OFFSET_DELTA] + 1
            aborted = self._warm(
                lambda first=first, upper=upper: log.aborted_transactions(first, upper)
            )
            seen |= _visible(piece, aborted)
        expected = {each for each in committed if each in offsets and each < stable}
        seen = {each for each in seen if each < stable}
        assert seen == expected, (sorted(seen - expected), sorted(expected - seen))

    def _judge_producers(self) -> None:
        """Duplicates are known as before, and so are open transactions."""
        last: dict[int, int] = {}
        ongoing: dict[int, int] = {}
        kept = (each for each in self.written if each.offset >= self.start_max)
        for each in kept:
            if each.marker is not None:
                ongoing.pop(each.producer_id, None)
            elif each.producer_id >= 0:
                last[each.producer_id] = each.last_sequence
                if each.transactional:
                    ongoing.setdefault(each.producer_id, each.offset)
        states = self.log.producers.states
        for number, sequence in last.items():
            assert states[number][LAST_SEQUENCE] == sequence, (number, sequence)
        opened = {number: offset for offset, number in self.log.producers.ongoing.items()}
        if self.start_max == 0:
            assert opened == ongoing


def _pieces(found: list[tuple[Header, bytes]], size: int) -> Iterator[list[tuple[Header, bytes]]]:
    for first in range(0, len(found), size):
        yield found[first : first + size]


def _visible(piece: list[tuple[Header, bytes]], aborted: list[tuple[int, int]]) -> set[int]:
    """What a client shows of a fetch, given what the broker says was aborted in it."""
    waiting = sorted(aborted, key=lambda each: each[1])
    hidden: set[int] = set()
    seen: set[int] = set()
    for header, batch in piece:
        last = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        while waiting and waiting[0][1] <= last:
            hidden.add(waiting.pop(0)[0])
        if header[ATTRIBUTES] & CONTROL:
            marker = read_marker(batch)
            if marker is not None and marker[0] == ABORT_MARKER:
                hidden.discard(header[PRODUCER_ID])
        elif not (header[ATTRIBUTES] & TRANSACTIONAL and header[PRODUCER_ID] in hidden):
            seen.update(record.offset for record in read_records(batch))
    return seen
