"""Single decisions of a course; whole stories are in test_retry_simulation.py."""

import pytest

from penstock.client.records import Record
from penstock.model import TopicPartition
from penstock.retry import pending as pending_module
from penstock.retry.course import Course, Steps, Unwritable, Verdict, Write
from penstock.retry.ladder import Ladder, Names
from penstock.retry.seen import Seen
from penstock.retry.trail import Trail, read_trail

NAMES = Names("orders", "billing")
STEPS = Steps(NAMES, Ladder.of(("5s", "1m")))


def source(offset: int, key: bytes | None = b"k") -> Record[bytes, bytes]:
    return Record("orders", 3, offset, key, b"v", (("own", b"h"),), 99)


def test_what_is_decided_is_taken_from_the_front() -> None:
    course = Course(STEPS, 3)
    first, second, third = (course.admit(source(each)) for each in (5, 6, 9))
    for entry in (first, second, third):
        assert course.begin(entry, 0) is Verdict.TRY
    course.succeeded(second, 0)
    assert not course.portion()
    course.succeeded(first, 0)
    portion = course.portion()
    assert portion.entries == (first, second)
    assert portion.offsets == {TopicPartition("orders", 3): 7}
    course.committed(portion)
    course.failed(third, ValueError("no"), 1_000)
    (write,) = course.portion().writes
    assert (write.topic, write.partition, write.key) == (NAMES.retry(5_000), 3, b"k")
    assert write.headers[0] == ("own", b"h")
    assert read_trail(write.headers).due_ms == 6_000


def test_a_record_of_a_step_that_has_no_trail_is_dead() -> None:
    course = Course(STEPS, 3, ordered=True)
    entry = course.admit(Record(NAMES.retry(5_000), 3, 0, b"k", b"stranger"))
    assert course.begin(entry, 0) is Verdict.DEAD
    (write,) = course.portion().writes
    assert write.topic == NAMES.dead
    assert read_trail(write.headers).cause.startswith("NoTrail: ")


def test_one_that_may_not_be_tried_yet_goes_to_the_same_step_again() -> None:
    course = Course(STEPS, 3, ordered=True)
    course.pending.add(b"k", 1)
    course.pending.add(b"k", 2)
    trail = Trail("orders", 3, 2, None, "billing", 2, 50, 1, 1, "why")
    entry = course.admit(Record(NAMES.retry(60_000), 3, 0, b"k", b"v", trail.headers(())))
    assert course.begin(entry, 100) is Verdict.BEHIND
    (write,) = course.portion().writes
    again = read_trail(write.headers)
    assert write.topic == NAMES.retry(60_000)
    assert (again.attempts, again.due_ms, again.cause) == (2, 60_100, "why")


def test_one_waits_on_the_longest_step_that_ends_before_the_one_it_waits_for() -> None:
    course = Course(STEPS, 3, ordered=True)
    trail = Trail("orders", 3, 1, None, "billing", 1, 50, 1, 1, "why")
    first = course.admit(Record(NAMES.retry(5_000), 3, 0, b"k", b"v", trail.headers(())))
    course.begin(first, 1_000)
    course.failed(first, ValueError("no"), 1_000)
    assert first.writes[0].topic == NAMES.retry(60_000)
    for number, (now_ms, wait_ms) in enumerate([(1_000, 60_000), (2_000, 5_000), (60_000, 5_000)]):
        entry = course.admit(source(2 + number))
        assert course.begin(entry, now_ms) is Verdict.BEHIND
        assert entry.writes[0].topic == NAMES.retry(wait_ms)
        assert read_trail(entry.writes[0].headers).due_ms == now_ms + wait_ms


def test_records_without_a_key_wait_for_nobody() -> None:
    course = Course(STEPS, 3, ordered=True)
    entry = course.admit(source(1, None))
    course.begin(entry, 0)
    course.failed(entry, ValueError(), 0)
    assert course.begin(course.admit(source(2, None)), 0) is Verdict.TRY
    assert len(course.pending) == 0


def test_where_too_many_wait_the_next_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "WAITING_PER_KEY_MAX", 1)
    course = Course(STEPS, 3, ordered=True)
    course.pending.add(b"k", 1)
    assert course.begin(course.admit(source(2)), 0) is Verdict.DEAD
    (write,) = course.portion().writes
    assert write.topic == NAMES.dead
    assert "1 records of its key wait already" in read_trail(write.headers).cause


def test_a_seen_event_is_left_out_and_waits_no_more() -> None:
    course = Course(STEPS, 3, ordered=True, seen=Seen(1_000), seen_is_written=True)
    course.pending.add(b"k", 2)
    first = course.admit(source(1))
    assert course.begin(first, 0, b"event") is Verdict.TRY
    course.succeeded(first, 5)
    second = course.admit(source(2))
    assert course.begin(second, 10, b"event") is Verdict.SEEN
    noted, cleared = course.portion().writes
    assert (noted.topic, noted.key, noted.value) == (NAMES.seen, b"event", b"5")
    assert (cleared.topic, cleared.value) == (NAMES.pending, None)


def test_an_event_counts_as_seen_by_others_once_it_is_committed() -> None:
    seen = Seen(1_000)
    for life in (1, 2):
        course = Course(STEPS, 3, seen=seen)
        entry = course.admit(source(1))
        assert course.begin(entry, 0, b"event") is Verdict.TRY, "it is no duplicate of itself"
        course.succeeded(entry, 0)
        assert course.begin(course.admit(source(2)), 0, b"event") is Verdict.SEEN
        assert not seen.holds(b"event", 0) and course.counts.succeeded == 0
        if life == 2:
            course.committed(course.portion())
    assert seen.holds(b"event", 0)
    assert (course.counts.succeeded, course.counts.seen) == (1, 1)


def test_an_event_whose_result_was_refused_is_not_seen() -> None:
    course = Course(STEPS, 3, seen=Seen(1_000), seen_is_written=True)
    entry = course.admit(source(1))
    course.begin(entry, 0, b"event")
    course.succeeded(entry, 0, [Write("out", b"k", b"large")])
    course.refused(entry, ValueError("too large"), 7)
    (letter,) = course.portion().writes
    assert letter.topic == NAMES.retry(5_000)
    trail = read_trail(letter.headers)
    assert (trail.attempts, trail.cause, trail.last_failed_ms) == (1, "ValueError: too large", 7)
    assert course.begin(course.admit(source(2)), 0, b"event") is Verdict.TRY


def test_a_letter_that_is_refused_tells_both_causes() -> None:
    course = Course(STEPS, 3)
    entry = course.admit(source(1))
    course.begin(entry, 0)
    course.failed(entry, ValueError("no luck"), 0)
    course.refused(entry, ValueError("too large"), 7)
    (letter,) = course.portion().writes
    trail = read_trail(letter.headers)
    assert letter.topic == NAMES.dead and trail.attempts == 1
    assert "too large" in trail.cause and "ValueError: no luck" in trail.cause
    with pytest.raises(Unwritable):
        course.refused(entry, ValueError("too large"), 9)


def test_what_was_admitted_last_and_not_begun_can_be_dropped() -> None:
    course = Course(STEPS, 3)
    first, second, third = (course.admit(source(each)) for each in (1, 2, 3))
    course.begin(second, 0)
    assert course.trim() == [third]
    assert third.dropped and not first.dropped and len(course) == 2
