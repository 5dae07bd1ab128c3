"""Single decisions of a PartitionState; whole stories are in test_retry_simulation.py."""

import pytest

from penstock.client.records import Record
from penstock.model import TopicPartition
from penstock.retry import pending_keys as pending_module
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.ladder import Ladder, Names
from penstock.retry.partition_state import (
    NextAction,
    PartitionState,
    RecordUnwritable,
    RetryTopics,
    Write,
)
from penstock.retry.retry_headers import Trail, read_trail

NAMES = Names("orders", "billing")
STEPS = RetryTopics(NAMES, Ladder.of(("5s", "1m")))


def source(offset: int, key: bytes | None = b"k") -> Record[bytes, bytes]:
    return Record("orders", 3, offset, key, b"v", (("own", b"h"),), 99)


def test_what_is_decided_is_taken_from_the_front() -> None:
    partition_state = PartitionState(STEPS, 3)
    first, second, third = (partition_state.admit(source(each)) for each in (5, 6, 9))
    for entry in (first, second, third):
        assert partition_state.begin(entry, 0) is NextAction.TRY
    partition_state.succeeded(second, 0)
    assert not partition_state.portion()
    partition_state.succeeded(first, 0)
    portion = partition_state.portion()
    assert portion.entries == (first, second)
    assert portion.offsets == {TopicPartition("orders", 3): 7}
    partition_state.committed(portion)
    partition_state.failed(third, ValueError("no"), 1_000)
    (write,) = partition_state.portion().writes
    assert (write.topic, write.partition, write.key) == (NAMES.retry(5_000), 3, b"k")
    assert write.headers[0] == ("own", b"h")
    assert read_trail(write.headers).due_ms == 6_000


def test_a_record_of_a_step_that_has_no_trail_is_dead() -> None:
    partition_state = PartitionState(STEPS, 3, ordered=True)
    entry = partition_state.admit(Record(NAMES.retry(5_000), 3, 0, b"k", b"stranger"))
    assert partition_state.begin(entry, 0) is NextAction.DEAD
    (write,) = partition_state.portion().writes
    assert write.topic == NAMES.dead
    assert read_trail(write.headers).cause.startswith("NoTrail: ")


def test_one_that_may_not_be_tried_yet_goes_to_the_same_step_again() -> None:
    partition_state = PartitionState(STEPS, 3, ordered=True)
    partition_state.pending.add(b"k", 1)
    partition_state.pending.add(b"k", 2)
    trail = Trail("orders", 3, 2, None, "billing", 2, 50, 1, 1, "why")
    entry = partition_state.admit(Record(NAMES.retry(60_000), 3, 0, b"k", b"v", trail.headers(())))
    assert partition_state.begin(entry, 100) is NextAction.BEHIND
    (write,) = partition_state.portion().writes
    again = read_trail(write.headers)
    assert write.topic == NAMES.retry(60_000)
    assert (again.attempts, again.due_ms, again.cause) == (2, 60_100, "why")


def test_one_waits_on_the_longest_step_that_ends_before_the_one_it_waits_for() -> None:
    partition_state = PartitionState(STEPS, 3, ordered=True)
    trail = Trail("orders", 3, 1, None, "billing", 1, 50, 1, 1, "why")
    first = partition_state.admit(Record(NAMES.retry(5_000), 3, 0, b"k", b"v", trail.headers(())))
    partition_state.begin(first, 1_000)
    partition_state.failed(first, ValueError("no"), 1_000)
    assert first.writes[0].topic == NAMES.retry(60_000)
    for number, (now_ms, wait_ms) in enumerate([(1_000, 60_000), (2_000, 5_000), (60_000, 5_000)]):
        entry = partition_state.admit(source(2 + number))
        assert partition_state.begin(entry, now_ms) is NextAction.BEHIND
        assert entry.writes[0].topic == NAMES.retry(wait_ms)
        assert read_trail(entry.writes[0].headers).due_ms == now_ms + wait_ms


def test_records_without_a_key_wait_for_nobody() -> None:
    partition_state = PartitionState(STEPS, 3, ordered=True)
    entry = partition_state.admit(source(1, None))
    partition_state.begin(entry, 0)
    partition_state.failed(entry, ValueError(), 0)
    assert partition_state.begin(partition_state.admit(source(2, None)), 0) is NextAction.TRY
    assert len(partition_state.pending) == 0


def test_where_too_many_wait_the_next_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "WAITING_PER_KEY_MAX", 1)
    partition_state = PartitionState(STEPS, 3, ordered=True)
    partition_state.pending.add(b"k", 1)
    assert partition_state.begin(partition_state.admit(source(2)), 0) is NextAction.DEAD
    (write,) = partition_state.portion().writes
    assert write.topic == NAMES.dead
    assert "1 records of its key wait already" in read_trail(write.headers).cause


def test_a_seen_event_is_left_out_and_waits_no_more() -> None:
    partition_state = PartitionState(
        STEPS, 3, ordered=True, seen=IdempotencyKeys(1_000), seen_is_written=True
    )
    partition_state.pending.add(b"k", 2)
    first = partition_state.admit(source(1))
    assert partition_state.begin(first, 0, b"event") is NextAction.TRY
    partition_state.succeeded(first, 5)
    second = partition_state.admit(source(2))
    assert partition_state.begin(second, 10, b"event") is NextAction.SEEN
    noted, cleared = partition_state.portion().writes
    assert (noted.topic, noted.key, noted.value) == (NAMES.seen, b"event", b"5")
    assert (cleared.topic, cleared.value) == (NAMES.pending, None)


def test_an_event_counts_as_seen_by_others_once_it_is_committed() -> None:
    seen = IdempotencyKeys(1_000)
    for session in (1, 2):
        partition_state = PartitionState(STEPS, 3, seen=seen)
        entry = partition_state.admit(source(1))
        assert partition_state.begin(entry, 0, b"event") is NextAction.TRY, (
            "it is no duplicate of itself"
        )
        partition_state.succeeded(entry, 0)
        assert (
            partition_state.begin(partition_state.admit(source(2)), 0, b"event") is NextAction.SEEN
        )
        assert not seen.holds(b"event", 0) and partition_state.counts.succeeded == 0
        if session == 2:
            partition_state.committed(partition_state.portion())
    assert seen.holds(b"event", 0)
    assert (partition_state.counts.succeeded, partition_state.counts.seen) == (1, 1)


def test_an_event_whose_result_was_refused_is_not_seen() -> None:
    partition_state = PartitionState(STEPS, 3, seen=IdempotencyKeys(1_000), seen_is_written=True)
    entry = partition_state.admit(source(1))
    partition_state.begin(entry, 0, b"event")
    partition_state.succeeded(entry, 0, [Write("out", b"k", b"large")])
    partition_state.rejected(entry, ValueError("too large"), 7)
    (letter,) = partition_state.portion().writes
    assert letter.topic == NAMES.retry(5_000)
    trail = read_trail(letter.headers)
    assert (trail.attempts, trail.cause, trail.last_failed_ms) == (1, "ValueError: too large", 7)
    assert partition_state.begin(partition_state.admit(source(2)), 0, b"event") is NextAction.TRY


def test_a_letter_that_is_refused_tells_both_causes() -> None:
    partition_state = PartitionState(STEPS, 3)
    entry = partition_state.admit(source(1))
    partition_state.begin(entry, 0)
    partition_state.failed(entry, ValueError("no luck"), 0)
    partition_state.rejected(entry, ValueError("too large"), 7)
    (letter,) = partition_state.portion().writes
    trail = read_trail(letter.headers)
    assert letter.topic == NAMES.dead and trail.attempts == 1
    assert "too large" in trail.cause and "ValueError: no luck" in trail.cause
    with pytest.raises(RecordUnwritable):
        partition_state.rejected(entry, ValueError("too large"), 9)


def test_what_was_admitted_last_and_not_begun_can_be_dropped() -> None:
    partition_state = PartitionState(STEPS, 3)
    first, second, third = (partition_state.admit(source(each)) for each in (1, 2, 3))
    partition_state.begin(second, 0)
    assert partition_state.trim() == [third]
    assert third.dropped and not first.dropped and len(partition_state) == 2
