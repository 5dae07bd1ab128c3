"""Offsets that a consumer may commit: the tracker against a plain model, and single facts."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from depth import examples
from penstock.client.consumer.offsets.offset_tracker import (
    InFlight,
    OffsetTracker,
    PartitionKey,
    first_offsets,
    last_offsets,
    place_of,
)

A: PartitionKey = ("orders", 0)
B: PartitionKey = ("orders", 1)
C: PartitionKey = ("clicks", 0)
PLACES = (A, B, C)


@dataclass(frozen=True)
class Fake:
    """A message of librdkafka's; `run` tells apart what was fetched before and after a seek."""

    at: PartitionKey
    number: int
    run: int = 0

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.number


def messages(place: PartitionKey, *offsets: int) -> list[Fake]:
    return [Fake(place, offset) for offset in offsets]


def owning(*places: PartitionKey) -> OffsetTracker[Fake]:
    tracker: OffsetTracker[Fake] = OffsetTracker()
    tracker.assign(dict.fromkeys(places))
    return tracker


def add(tracker: OffsetTracker[Fake], *fetched: Fake) -> None:
    tracker.add(list(fetched), {at: end + 1 for at, end in last_offsets(fetched).items()})


def take(tracker: OffsetTracker[Fake], count: int) -> InFlight[Fake]:
    work = tracker.take(count, None, 0.0)
    assert work is not None
    return work


def test_nothing_is_finished_before_a_body_has_ended() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 5, 6))
    assert tracker.finished() == {}
    work = take(tracker, 1)
    assert tracker.finished() == {}
    tracker.finish(work)
    assert tracker.finished() == {A: 6}


def test_fetched_and_unread_records_do_not_count() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2, 3))
    tracker.finish(take(tracker, 2))
    assert tracker.finished() == {A: 2}
    assert tracker.position(A) == 2


def test_the_first_unfinished_record_holds_back_those_behind_it() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    first, second = take(tracker, 1), take(tracker, 2)
    tracker.finish(second)
    assert tracker.finished() == {}
    tracker.finish(first)
    assert tracker.finished() == {A: 3}


def test_records_finish_one_by_one_in_any_order() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    work = take(tracker, 3)
    tracker.expect_each(work, {100: 0, 101: 1, 102: 2})
    assert tracker.finish_one(101)
    assert tracker.finished() == {}
    assert tracker.finish_one(100)
    assert tracker.finished() == {A: 2}
    assert tracker.finish_one(102)
    assert tracker.finished() == {A: 3}
    assert not tracker.finish_one(102)


def test_a_record_that_nobody_can_finish_is_finished() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    work = take(tracker, 3)
    tracker.expect_each(work, {100: 0})
    assert tracker.finish_one(100)
    assert tracker.finished() == {A: 3} and not tracker.in_flight


def test_what_is_given_back_is_read_again_before_the_rest() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    tracker.give_back(take(tracker, 1))
    assert tracker.position(A) == 0
    assert [each.number for each in take(tracker, 3).messages] == [0, 1, 2]


def test_what_is_given_back_by_several_bodies_is_read_in_order() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2, 3))
    first, second, third = take(tracker, 1), take(tracker, 1), take(tracker, 1)
    tracker.give_back(first)
    assert tracker.finished() == {}
    tracker.give_back(third)
    tracker.give_back(take(tracker, 1))
    tracker.give_back(second)
    assert [each.number for each in take(tracker, 9).messages] == [0, 1, 2, 3]


def test_of_a_batch_only_what_is_behind_a_position_goes_back() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    work = take(tracker, 3)
    tracker.give_back(work, 1)
    assert [each.number for each in work.messages] == [0]
    tracker.finish(work)
    assert tracker.finished() == {A: 1} and tracker.position(A) == 1


def test_after_a_move_nothing_of_before_shows_or_counts() -> None:
    tracker = owning(A, B)
    add(tracker, *messages(A, 0, 1, 2), *messages(B, 7))
    work = take(tracker, 1)
    tracker.move(A, 50)
    assert tracker.finished() == {A: 50} and tracker.position(A) == 50
    tracker.finish(work)
    assert tracker.finished()[A] == 50
    assert [place_of(each) for each in take(tracker, 9).messages] == [B]


def test_a_move_back_is_committed_though_more_was_before() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 8, 9))
    tracker.finish(take(tracker, 2))
    tracker.record_committed({A: 10})
    assert tracker.due() == {}
    tracker.move(A, 0)
    assert tracker.due() == {A: 0}


def test_a_commit_of_the_application_further_on_is_not_taken_back() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    tracker.finish(take(tracker, 1))
    tracker.record_committed({A: 2})
    assert tracker.due() == {}
    tracker.finish(take(tracker, 2))
    assert tracker.due() == {A: 3}


def test_what_was_in_hand_when_a_partition_went_never_counts_again() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1))
    work = take(tracker, 1)
    tracker.revoke([A])
    tracker.assign({A: None})
    add(tracker, *messages(A, 0, 1))
    tracker.finish(work)
    assert tracker.finished() == {}
    tracker.give_back(work)
    assert tracker.unread == 2


def test_a_marker_at_the_end_moves_the_finished_offset_past_it() -> None:
    tracker = owning(A)
    tracker.add(messages(A, 0, 1), {A: 3})  # offset 2 is the marker of a transaction
    tracker.finish(take(tracker, 2))
    assert tracker.finished() == {A: 3}


def test_markers_alone_commit_nothing() -> None:
    tracker = owning(A)
    tracker.add([], {A: 4})
    assert tracker.finished() == {} and tracker.position(A) == 4


def test_a_skipped_record_counts_as_finished() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 3, 4))
    assert tracker.skip(A, 3)
    assert tracker.finished() == {A: 4}
    assert not tracker.skip(A, 3)


def test_what_the_caller_has_in_hand_may_count_for_him() -> None:
    tracker, caller, other = owning(A, B), object(), object()
    add(tracker, *messages(A, 0, 1), *messages(B, 7))
    tracker.take(2, caller, 0.0)
    tracker.take(1, other, 0.0)
    assert tracker.finished(caller) == {A: 2}
    assert tracker.finished() == {}


def test_what_is_finished_one_by_one_counts_for_nobody_before_it_is() -> None:
    tracker, caller = owning(A), object()
    add(tracker, *messages(A, 0, 1))
    work = tracker.take(2, caller, 0.0)
    assert work is not None
    tracker.expect_each(work, {1: 0, 2: 1})
    assert tracker.finished(caller) == {}


def test_work_whose_partition_went_is_known_until_its_body_ends() -> None:
    tracker, owner = owning(A, B), object()
    add(tracker, *messages(A, 0), *messages(B, 7))
    work = tracker.take(2, owner, 0.0)
    assert work is not None and tracker.revoked_in_flight(owner) is None
    tracker.revoke([A])
    assert tracker.revoked_in_flight(owner) is work
    tracker.assign({A: 0})
    assert tracker.revoked_in_flight(owner) is work
    tracker.give_back(work)
    assert tracker.revoked_in_flight(owner) is None


def test_an_offset_from_before_the_partition_came_back_is_stale() -> None:
    tracker = owning(A)
    assert tracker.is_stale(B, 1)
    tracker.assign({A: 6})
    assert tracker.is_stale(A, 1) and tracker.is_stale(A, 6) and not tracker.is_stale(A, 7)
    tracker.move(A, 3)
    assert not tracker.is_stale(A, 1)


def test_offsets_that_others_hold_back_do_not_cover_what_the_caller_has() -> None:
    tracker, first, second = owning(A), object(), object()
    add(tracker, *messages(A, 0, 1))
    tracker.take(1, first, 0.0)
    tracker.take(1, second, 0.0)
    assert tracker.covers(tracker.finished(first), first)
    assert not tracker.covers(tracker.finished(second), second)


def test_what_lies_below_a_commit_is_not_given_back() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2, 3))
    work = take(tracker, 3)
    tracker.finish_below({A: 2})
    tracker.give_back(work)
    assert take(tracker, 9).messages == messages(A, 2, 3)


def test_what_is_left_to_transactions_is_not_due() -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1))
    tracker.finish(take(tracker, 1))
    assert tracker.due() == {A: 1}
    tracker.left_to_transactions = True
    assert tracker.due() == {}


def test_work_that_is_handed_out_is_noted_before_it_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracker = owning(A)
    add(tracker, *messages(A, 0, 1, 2))
    tracker.finish(take(tracker, 1))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OffsetTracker, "_pass_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tracker.take(2, "somebody", 0.0)
    monkeypatch.undo()
    assert tracker.finished() == {A: 1}, "no commit passes over them"


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 99)), max_size=40))
def test_first_and_last_offsets_are_those_of_a_plain_loop(
    pairs: list[tuple[PartitionKey, int]],
) -> None:
    fetched = [Fake(at, number) for at, number in pairs]
    first: dict[PartitionKey, int] = {}
    last: dict[PartitionKey, int] = {}
    for each in fetched:
        first.setdefault(each.at, each.number)
        last[each.at] = each.number
    assert first_offsets(fetched) == first and last_offsets(fetched) == last


@dataclass
class Run:
    """One partition since its assignment or its last move, as a person would keep it."""

    run: int
    next_offset: int
    start: int | None
    moved: bool
    # Every offset that was fetched, and its state: unread, in hand, finished.
    states: dict[int, str] = field(default_factory=dict)

    def finished(self) -> int | None:
        if self.start is None:
            return None
        open_ones = [at for at, state in self.states.items() if state != "finished"]
        found = min(open_ones, default=self.next_offset)
        return found if self.moved or found > self.start else None


class LedgerMachine(RuleBasedStateMachine):
    """Any order of events: the tracker agrees with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker: OffsetTracker[Fake] = OffsetTracker()
        self.model: dict[PartitionKey, Run] = {}
        self.runs = 0
        self.in_flight: list[InFlight[Fake]] = []
        # Records that are finished one by one, with their messages.
        self.records: list[tuple[object, Fake]] = []

    def fresh(self, place: PartitionKey, offset: int, *, known: bool, moved: bool) -> None:
        self.runs += 1
        self.model[place] = Run(self.runs, offset, offset if known else None, moved)

    def current(self, message: Fake) -> bool:
        run = self.model.get(message.at)
        return run is not None and run.run == message.run

    def mark(self, message: Fake, state: str) -> None:
        if self.current(message):
            self.model[message.at].states[message.number] = state

    @rule(place=st.sampled_from(PLACES), offset=st.integers(0, 9))
    def assign(self, place: PartitionKey, offset: int) -> None:
        if place not in self.model:
            self.tracker.assign({place: None})
            self.fresh(place, offset, known=False, moved=False)

    @rule(place=st.sampled_from(PLACES))
    def revoke(self, place: PartitionKey) -> None:
        self.tracker.revoke([place])
        self.model.pop(place, None)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offset=st.integers(0, 30))
    def move(self, data: st.DataObject, offset: int) -> None:
        place = data.draw(st.sampled_from(sorted(self.model)))
        self.tracker.move(place, offset)
        self.fresh(place, offset, known=True, moved=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), gaps=st.lists(st.integers(1, 3), min_size=1, max_size=6))
    def fetch(self, data: st.DataObject, gaps: list[int]) -> None:
        fetched: list[Fake] = []
        for gap in gaps:
            place = data.draw(st.sampled_from(sorted(self.model)))
            run = self.model[place]
            offset = run.next_offset + gap - 1  # compaction leaves gaps
            if run.start is None:
                run.start = offset
            run.next_offset = offset + 1
            run.states[offset] = "unread"
            fetched.append(Fake(place, offset, run.run))
        add(self.tracker, *fetched)

    @rule(count=st.integers(1, 5), one_by_one=st.booleans())
    def take(self, count: int, one_by_one: bool) -> None:
        work = self.tracker.take(count, None, 0.0)
        if work is None:
            assert not any("unread" in run.states.values() for run in self.model.values())
            return
        assert 1 <= len(work.messages) <= count
        for message in work.messages:
            assert self.current(message), "nothing of an old run shows"
            assert self.model[message.at].states[message.number] == "unread"
            self.mark(message, "in hand")
        for place in self.model:
            offsets = [each.number for each in work.messages if each.at == place]
            assert offsets == sorted(offsets), "a partition is read in order"
        if one_by_one:
            work.records = [object() for _ in work.messages]
            self.records += zip(work.records, work.messages, strict=True)
            self.tracker.expect_each(work, {id(each): at for at, each in enumerate(work.records)})
        else:
            self.in_flight.append(work)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), how=st.sampled_from(["finish", "give back"]))
    def end(self, data: st.DataObject, how: str) -> None:
        work = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        if how == "finish":
            self.tracker.finish(work)
        else:
            self.tracker.give_back(work)
        for message in work.messages:
            self.mark(message, "finished" if how == "finish" else "unread")

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def finish_one(self, data: st.DataObject) -> None:
        record, message = self.records.pop(data.draw(st.integers(0, len(self.records) - 1)))
        assert self.tracker.finish_one(id(record)) == self.current(message)
        self.mark(message, "finished")

    @invariant()
    def what_is_finished_is_what_the_model_says(self) -> None:
        expected: dict[PartitionKey, int] = {}
        for place, run in self.model.items():
            offset = run.finished()
            if offset is not None:
                expected[place] = offset
        assert self.tracker.finished() == expected

    @invariant()
    def the_position_is_the_first_unread_record(self) -> None:
        unread = 0
        for place, run in self.model.items():
            waiting = [at for at, state in run.states.items() if state == "unread"]
            unread += len(waiting)
            if run.start is not None:
                assert self.tracker.position(place) == min(waiting, default=run.next_offset)
        assert self.tracker.unread == unread


LedgerMachine.TestCase.settings = settings(
    max_examples=examples(200, few=50), stateful_step_count=40, deadline=None
)
TestAnyOrderOfEvents = LedgerMachine.TestCase
