"""A log against a plain list of batches: random operations, small segments, cold reads."""

import random
from dataclasses import dataclass, field

import pytest
from log_builder import (
    NOW_MS,
    SMALL,
    append,
    batch,
    disk_of,
    forget_old,
    ignore,
    new_log,
    offsets,
    reopen,
    settle,
    split,
    stored,
    sync,
    warmly,
)

from penstock.errors import OffsetOutOfRange
from penstock.log.log import Log
from penstock.log.lookup import TimestampAndOffset
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import Record, read_records
from penstock.world import Cold


@dataclass
class Model:
    """What a log should hold: (base offset, end offset, leader epoch, bytes) per batch."""

    start: int = 0
    end: int = 0
    batches: list[tuple[int, int, int, bytes]] = field(default_factory=list)

    def append(self, data: bytes, epoch: int) -> None:
        count = int.from_bytes(data[57:61])
        stored_as = self.end.to_bytes(8) + data[8:12] + epoch.to_bytes(4) + data[16:]
        self.batches.append((self.end, self.end + count, epoch, stored_as))
        self.end += count

    def truncate(self, offset: int) -> None:
        gone = [each for each in self.batches if each[1] > offset]
        self.batches = [each for each in self.batches if each[1] <= offset]
        if offset < self.end:
            self.end = max(self.start, min([offset, *(each[0] for each in gone)]))

    def records(self) -> list[Record]:
        found = [record for each in self.batches for record in read_records(each[3])]
        return [record for record in found if record.offset >= self.start]

    def epoch_of(self, offset: int) -> int:
        return next(each[2] for each in self.batches if each[0] <= offset < each[1])


def check_reads(log: Log, model: Model, dice: random.Random) -> None:
    assert (log.start_offset, log.end_offset) == (model.start, model.end)
    expected = b"".join(each[3] for each in model.batches if each[1] > model.start)
    assert stored(log, max_bytes=dice.choice((1, 300, 5_000, 2**31))) == expected
    for _ in range(4):
        if model.start == model.end:
            return
        offset = dice.randrange(model.start, model.end)
        limit = dice.choice((0, 150, 1_000, 10_000))
        upper = dice.choice([each[0] for each in model.batches] + [model.end, offset + 1])
        found = split(warmly(log, offset, limit, upper))
        below = [each for each in model.batches if each[1] > offset and each[1] <= upper]
        assert [each[2] for each in found] == [each[3] for each in below[: len(found)]]
        assert bool(found) == bool(below)
        assert len(found) <= 1 or sum(len(each[2]) for each in found) <= limit


def by_time(log: Log, timestamp: int) -> TimestampAndOffset | None:
    while True:
        try:
            return log.search_time(timestamp).run()
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, ignore)
            settle(log)


def check_times(log: Log, model: Model, dice: random.Random) -> None:
    records = model.records()
    for _ in range(3):
        timestamp = NOW_MS + dice.randrange(-50, 1_100)
        first = next((each for each in records if each.timestamp >= timestamp), None)
        found = by_time(log, timestamp)
        if first is None:
            assert found is None
        else:
            assert found == (first.timestamp, first.offset, model.epoch_of(first.offset))


def step(log: Log, model: Model, dice: random.Random, epoch: int) -> None:
    """One operation on both."""
    roll = dice.random()
    if roll < 0.6:
        turn = [
            batch(
                *(dice.randbytes(dice.randrange(120)) for _ in range(dice.randrange(1, 4))),
                timestamp=NOW_MS + dice.randrange(1_000),
                compression=dice.randrange(5),
            )
            for _ in range(dice.choice((1, 1, 2, 8)))
        ]
        assert offsets(append(log, *turn, epoch=epoch))[0] == model.end
        for each in turn:
            model.append(each, epoch)
    elif roll < 0.66:
        log.roll(NOW_MS)
    elif roll < 0.76:
        _truncate(log, model, dice.randrange(model.start, model.end + 1))
    elif roll < 0.84:
        offset = dice.randrange(model.start, model.end + 1)
        log.advance_start_offset(offset)
        forget_old(log)
        model.start = max(model.start, offset)
    else:
        settle(log)
        sync(log)


def _truncate(log: Log, model: Model, offset: int) -> None:
    finished: list[object] = []
    while not finished:
        try:
            log.truncate_to(offset, NOW_MS, finished.append)
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, ignore)
        settle(log)
    assert finished == [None]
    model.truncate(offset)


@pytest.mark.parametrize("seed", range(60))
def test_a_log_is_a_list_of_batches_whatever_is_done_to_it(seed: int) -> None:
    dice = random.Random(seed)
    log, model = new_log(SimDisk(seed, cold=dice.random() < 0.5)), Model()
    for number in range(60):
        step(log, model, dice, epoch=number // 15)
        if dice.random() < 0.2:
            check_reads(log, model, dice)
            check_times(log, model, dice)
        if dice.random() < 0.05:
            settle(log)
            log.close()
            log = reopen(disk_of(log), start_offset=model.start)
            assert log.recovery.truncated_bytes == log.recovery.segments_rebuilt == 0
    check_reads(log, model, dice)
    check_times(log, model, dice)


@pytest.mark.parametrize("seed", range(20))
def test_the_hot_append_and_the_plain_one_build_the_same_files(seed: int) -> None:
    dice = random.Random(seed)
    leader, follower = new_log(SimDisk(seed)), new_log(SimDisk(seed))
    for number in range(30):
        turn = [
            batch(
                *[dice.randbytes(60)] * dice.randrange(1, 4), timestamp=NOW_MS + dice.randrange(9)
            )
            for _ in range(dice.randrange(1, 9))
        ]
        append(leader, *turn, epoch=number // 10)
        found = stored(leader, follower.end_offset)
        # A follower is given the turn in one piece, or cut anywhere.
        follower.append_as_follower(found, NOW_MS)
        settle(leader)
        settle(follower)
    leader.close()
    follower.close()
    assert disk_of(leader).files() == disk_of(follower).files()


def test_reading_outside_of_the_log_is_refused_and_at_its_end_is_empty() -> None:
    log = new_log()
    append(log, batch(b"a", b"b"))
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, upper_offset=2, min_one_batch=True)
    assert log.read(2, 100, upper_offset=2, min_one_batch=True).size == 0


def test_a_batch_larger_than_the_limit_comes_alone_or_not_at_all() -> None:
    log = new_log()
    append(log, batch(b"a" * 500), batch(b"b"))
    assert len(split(warmly(log, 0, 10))) == 1
    assert log.read(0, 10, upper_offset=2, min_one_batch=False).size == 0


def test_nothing_is_kept_in_memory_per_batch() -> None:
    log = new_log(config=SMALL)
    for _ in range(3_000):
        append(log, batch(b"x"))
    settle(log)
    assert len(log.closed) > 100
    assert all(segment.memory is None for segment in log.closed)
    assert len(log.active.index) < 20
    assert log.producers.states == {}
