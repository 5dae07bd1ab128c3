"""Idempotence: what is stored, what is a duplicate, what is refused."""

import pytest
from log_builder import NOW_MS, SMALL, append, batch, disk_of, new_log, produced, reopen, settle

from penstock.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.producers import BATCHES, LAST_SEQUENCE, CorruptSnapshot, Producers
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import SEQUENCE_MAX, Record, build_batch
from penstock.world import DiskFailed, DiskFull


def send(log: Log, producer: tuple[int, int, int], count: int = 1) -> int | KafkaError:
    return append(log, batch(*[b"x"] * count, producer=producer))[0]


def test_a_duplicate_of_the_last_five_batches_answers_its_first_offset() -> None:
    log = new_log()
    append(log, batch(b"other"))
    first = [send(log, (1, 0, 2 * number), 2) for number in range(6)]
    assert first == [1, 3, 5, 7, 9, 11]
    end = log.end_offset
    assert [send(log, (1, 0, 2 * number), 2) for number in range(1, 6)] == first[1:]
    assert log.end_offset == end
    assert isinstance(send(log, (1, 0, 0), 2), OutOfOrderSequenceNumber)


def test_a_duplicate_within_one_turn_is_found() -> None:
    log = new_log()
    twice = batch(b"a", b"b", producer=(1, 0, 0))
    assert append(log, twice, twice, batch(b"c", producer=(1, 0, 2))) == [0, 0, 2]
    assert log.end_offset == 3


def test_a_batch_of_another_length_is_no_duplicate() -> None:
    log = new_log()
    send(log, (1, 0, 0), 3)
    assert isinstance(send(log, (1, 0, 0), 2), OutOfOrderSequenceNumber)


def test_a_gap_in_the_sequence_is_refused_and_changes_nothing() -> None:
    log = new_log()
    send(log, (1, 0, 0))
    assert isinstance(send(log, (1, 0, 2)), OutOfOrderSequenceNumber)
    assert send(log, (1, 0, 1)) == 1


def test_sequence_numbers_wrap_to_zero() -> None:
    log = new_log()
    assert send(log, (1, 0, SEQUENCE_MAX - 1), 2) == 0
    assert send(log, (1, 0, 0)) == 2
    assert send(log, (1, 0, 0)) == 2


def test_a_batch_across_the_wrap_is_followed_by_the_right_sequence() -> None:
    log = new_log()
    assert send(log, (1, 0, SEQUENCE_MAX), 3) == 0
    assert isinstance(send(log, (1, 0, 1)), OutOfOrderSequenceNumber)
    assert send(log, (1, 0, SEQUENCE_MAX), 3) == 0
    assert send(log, (1, 0, 2)) == 3


def test_a_new_epoch_starts_at_sequence_zero() -> None:
    log = new_log()
    send(log, (1, 0, 0))
    assert isinstance(send(log, (1, 1, 1)), OutOfOrderSequenceNumber)
    assert send(log, (1, 1, 0)) == 1


def test_an_older_epoch_is_an_invalid_producer_epoch() -> None:
    log = new_log()
    send(log, (1, 5, 0))
    assert isinstance(send(log, (1, 4, 0)), InvalidProducerEpoch)


def test_an_unknown_producer_may_start_anywhere_unless_it_must_start_at_zero() -> None:
    log = new_log()
    assert send(log, (1, 0, 77)) == 0
    refused = log.append(produced(batch(b"x", producer=(2, 0, 77))), 0, NOW_MS, {2})
    assert isinstance(refused[0], OutOfOrderSequenceNumber)
    assert log.append(produced(batch(b"x", producer=(2, 0, 0))), 0, NOW_MS, {2}) == [1]


def test_a_plain_batch_inside_an_open_transaction_is_refused() -> None:
    log = new_log()
    append(log, batch(b"x", producer=(1, 0, 0), transactional=True))
    assert isinstance(send(log, (1, 0, 1)), InvalidTxnState)


def test_coordinators_write_without_sequence_numbers() -> None:
    log = new_log()
    data = build_batch(
        [Record(0, NOW_MS, b"k", b"v")], producer_id=1, producer_epoch=3, transactional=True
    )
    header = produced(batch(b"x"))[0][1]
    assert header[9] == -1
    from penstock.wire.batch import HEADER

    turn = [(memoryview(data), HEADER.unpack_from(data))] * 2
    assert log.append(turn, 0, NOW_MS) == [0, 1]
    assert log.last_stable_offset == 0


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_turn_that_fails_to_be_written_leaves_no_trace(writes: int, full: bool) -> None:
    log = new_log()
    append(log, batch(b"first", producer=(1, 0, 0)))
    files = disk_of(log).files()
    before = (log.end_offset, dict(log.producers.states), log.epochs.entries(), len(log.closed))
    turn = [batch(b"y" * 700, producer=(number, 0, 1)) for number in range(1, 8)]
    disk_of(log).fail_write(writes, full=full)
    with pytest.raises(DiskFull if full else DiskFailed):
        append(log, *turn, epoch=1)
    after = (log.end_offset, dict(log.producers.states), log.epochs.entries(), len(log.closed))
    assert after == before
    settle(log)
    assert disk_of(log).files() == files
    assert append(log, *turn, epoch=1) == [1, 2, 3, 4, 5, 6, 7]


def test_a_batch_that_is_too_large_is_refused_alone() -> None:
    config = LogConfig(segment_bytes=2_000, message_bytes_max=1_000)
    log = new_log(config=config)
    results = append(log, batch(b"x" * 1_500), batch(b"ok"))
    assert isinstance(results[0], MessageTooLarge)
    assert results[1] == 0
    assert isinstance(append(new_log(), batch(b"x" * 3_000))[0], RecordListTooLarge)


def test_a_snapshot_tells_all_that_a_restart_needs() -> None:
    log = new_log()
    for number in range(8):
        send(log, (1, 2, number * 3), 3)
    append(log, batch(b"t", producer=(7, 0, 0), transactional=True))
    other = Producers()
    other.load_snapshot(log.producers.to_snapshot(), NOW_MS, 1_000_000)
    assert other.states[1][LAST_SEQUENCE] == 23
    assert other.states[1][BATCHES] == log.producers.states[1][BATCHES][-1:]
    assert other.ongoing == {24: 7}


def test_a_broken_snapshot_is_refused() -> None:
    log = new_log()
    send(log, (1, 2, 0))
    good = log.producers.to_snapshot()
    other = Producers()
    for bad in (b"", good[:-1], good[:9] + b"\xff" + good[10:], b"\0\2" + good[2:]):
        with pytest.raises(CorruptSnapshot):
            other.load_snapshot(bad, NOW_MS, 1_000_000)
    assert other.states == {}


def test_silent_producers_are_forgotten_but_not_those_with_an_open_transaction() -> None:
    log = new_log(config=LogConfig(producer_expiration_ms=1_000))
    send(log, (1, 0, 0))
    append(log, batch(b"t", producer=(2, 0, 0), transactional=True))
    assert log.remove_expired_producers(NOW_MS + 999) == 0
    assert log.remove_expired_producers(NOW_MS + 1_000) == 1
    assert list(log.producers.states) == [2]


def test_after_a_clean_restart_duplicates_are_still_found() -> None:
    log = new_log()
    send(log, (1, 0, 0), 2)
    log.close()
    again = reopen(disk_of(log))
    assert send(again, (1, 0, 0), 2) == 0
    assert send(again, (1, 0, 2)) == 2


def test_a_failed_chore_stops_the_log() -> None:
    log = new_log(SimDisk(1), SMALL)
    append(log, batch(b"x"))
    disk_of(log).fail_sync(0)
    log.roll(NOW_MS)
    settle(log)
    with pytest.raises(DiskFailed):
        append(log, batch(b"y"))


def test_a_clean_stop_keeps_all_batches_that_may_come_again() -> None:
    producers = Producers()
    batches = tuple((sequence, 10 + sequence, 0, 1000) for sequence in range(5))
    producers.states[7] = (0, 4, 1000, -1, -1, batches)
    again = Producers()
    again.load_snapshot(producers.to_snapshot(), 1000, 10_000)
    again.load_window(producers.to_window(15) or b"", 15)
    assert again.states == producers.states


@pytest.mark.parametrize("end_offset", [14, 16])
def test_the_batches_of_another_stop_do_not_count(end_offset: int) -> None:
    producers = Producers()
    producers.states[7] = (0, 1, 1000, -1, -1, ((0, 13, 0, 1000), (1, 14, 0, 1000)))
    again = Producers()
    again.load_snapshot(producers.to_snapshot(), 1000, 10_000)
    again.load_window(producers.to_window(15) or b"", end_offset)
    assert len(again.states[7][5]) == 1


def test_a_window_that_is_not_whole_does_not_count() -> None:
    producers = Producers()
    producers.states[7] = (0, 1, 1000, -1, -1, ((0, 13, 0, 1000), (1, 14, 0, 1000)))
    window = producers.to_window(15) or b""
    for size in range(len(window)):
        again = Producers()
        again.load_snapshot(producers.to_snapshot(), 1000, 10_000)
        again.load_window(window[:size], 15)
        assert len(again.states[7][5]) == 1
