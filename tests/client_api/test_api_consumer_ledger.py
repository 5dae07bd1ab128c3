"""What a consumer may commit: the ledger against a plain model, and single facts."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.client.consumer.ledger import (
    Ledger,
    Place,
    Work,
    _Chunk,
    first_offsets,
    last_offsets,
    place_of,
)

A: Place = ("orders", 0)
B: Place = ("orders", 1)
C: Place = ("clicks", 0)
PLACES = (A, B, C)


@dataclass(frozen=True)
class Fake:
    """A message of librdkafka's; `run` tells apart what was fetched before and after a seek."""

    at: Place
    number: int
    run: int = 0

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.number


def messages(place: Place, *offsets: int) -> list[Fake]:
    return [Fake(place, offset) for offset in offsets]


def owning(*places: Place) -> Ledger[Fake]:
    ledger: Ledger[Fake] = Ledger()
    ledger.assign(dict.fromkeys(places))
    return ledger


def add(ledger: Ledger[Fake], *fetched: Fake) -> None:
    ledger.add(list(fetched), {at: end + 1 for at, end in last_offsets(fetched).items()})


def take(ledger: Ledger[Fake], count: int) -> Work[Fake]:
    work = ledger.take(count, None, 0.0)
    assert work is not None
    return work


def test_nothing_is_finished_before_a_body_has_ended() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 5, 6))
    assert ledger.finished() == {}
    work = take(ledger, 1)
    assert ledger.finished() == {}
    ledger.finish(work)
    assert ledger.finished() == {A: 6}


def test_fetched_and_unread_records_do_not_count() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2, 3))
    ledger.finish(take(ledger, 2))
    assert ledger.finished() == {A: 2}
    assert ledger.position(A) == 2


def test_the_first_unfinished_record_holds_back_those_behind_it() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    first, second = take(ledger, 1), take(ledger, 2)
    ledger.finish(second)
    assert ledger.finished() == {}
    ledger.finish(first)
    assert ledger.finished() == {A: 3}


def test_records_finish_one_by_one_in_any_order() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    work = take(ledger, 3)
    ledger.expect_each(work, {100: 0, 101: 1, 102: 2})
    assert ledger.finish_one(101)
    assert ledger.finished() == {}
    assert ledger.finish_one(100)
    assert ledger.finished() == {A: 2}
    assert ledger.finish_one(102)
    assert ledger.finished() == {A: 3}
    assert not ledger.finish_one(102)


def test_a_record_that_nobody_can_finish_is_finished() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    work = take(ledger, 3)
    ledger.expect_each(work, {100: 0})
    assert ledger.finish_one(100)
    assert ledger.finished() == {A: 3} and not ledger.in_hand


def test_what_is_given_back_is_read_again_before_the_rest() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    ledger.give_back(take(ledger, 1))
    assert ledger.position(A) == 0
    assert [each.number for each in take(ledger, 3).messages] == [0, 1, 2]


def test_what_is_given_back_by_several_bodies_is_read_in_order() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2, 3))
    first, second, third = take(ledger, 1), take(ledger, 1), take(ledger, 1)
    ledger.give_back(first)
    assert ledger.finished() == {}
    ledger.give_back(third)
    ledger.give_back(take(ledger, 1))
    ledger.give_back(second)
    assert [each.number for each in take(ledger, 9).messages] == [0, 1, 2, 3]


def test_of_a_batch_only_what_is_behind_a_position_goes_back() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    work = take(ledger, 3)
    ledger.give_back(work, 1)
    assert [each.number for each in work.messages] == [0]
    ledger.finish(work)
    assert ledger.finished() == {A: 1} and ledger.position(A) == 1


def test_after_a_move_nothing_of_before_shows_or_counts() -> None:
    ledger = owning(A, B)
    add(ledger, *messages(A, 0, 1, 2), *messages(B, 7))
    work = take(ledger, 1)
    ledger.move(A, 50)
    assert ledger.finished() == {A: 50} and ledger.position(A) == 50
    ledger.finish(work)
    assert ledger.finished()[A] == 50
    assert [place_of(each) for each in take(ledger, 9).messages] == [B]


def test_a_move_back_is_committed_though_more_was_before() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 8, 9))
    ledger.finish(take(ledger, 2))
    ledger.note({A: 10})
    assert ledger.due() == {}
    ledger.move(A, 0)
    assert ledger.due() == {A: 0}


def test_a_commit_of_the_application_further_on_is_not_taken_back() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    ledger.finish(take(ledger, 1))
    ledger.note({A: 2})
    assert ledger.due() == {}
    ledger.finish(take(ledger, 2))
    assert ledger.due() == {A: 3}


def test_what_was_in_hand_when_a_partition_went_never_counts_again() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1))
    work = take(ledger, 1)
    ledger.revoke([A])
    ledger.assign({A: None})
    add(ledger, *messages(A, 0, 1))
    ledger.finish(work)
    assert ledger.finished() == {}
    ledger.give_back(work)
    assert ledger.unread == 2


def test_a_marker_at_the_end_moves_the_finished_offset_past_it() -> None:
    ledger = owning(A)
    ledger.add(messages(A, 0, 1), {A: 3})  # offset 2 is the marker of a transaction
    ledger.finish(take(ledger, 2))
    assert ledger.finished() == {A: 3}


def test_markers_alone_commit_nothing() -> None:
    ledger = owning(A)
    ledger.add([], {A: 4})
    assert ledger.finished() == {} and ledger.position(A) == 4


def test_a_skipped_record_counts_as_finished() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 3, 4))
    assert ledger.skip(A, 3)
    assert ledger.finished() == {A: 4}
    assert not ledger.skip(A, 3)


def test_what_the_caller_has_in_hand_may_count_for_him() -> None:
    ledger, caller, other = owning(A, B), object(), object()
    add(ledger, *messages(A, 0, 1), *messages(B, 7))
    ledger.take(2, caller, 0.0)
    ledger.take(1, other, 0.0)
    assert ledger.finished(caller) == {A: 2}
    assert ledger.finished() == {}


def test_what_is_finished_one_by_one_counts_for_nobody_before_it_is() -> None:
    ledger, caller = owning(A), object()
    add(ledger, *messages(A, 0, 1))
    work = ledger.take(2, caller, 0.0)
    assert work is not None
    ledger.expect_each(work, {1: 0, 2: 1})
    assert ledger.finished(caller) == {}


def test_work_whose_partition_went_is_known_until_its_body_ends() -> None:
    ledger, owner = owning(A, B), object()
    add(ledger, *messages(A, 0), *messages(B, 7))
    work = ledger.take(2, owner, 0.0)
    assert work is not None and ledger.parted(owner) is None
    ledger.revoke([A])
    assert ledger.parted(owner) is work
    ledger.assign({A: 0})
    assert ledger.parted(owner) is work
    ledger.give_back(work)
    assert ledger.parted(owner) is None


def test_an_offset_from_before_the_partition_came_back_is_stale() -> None:
    ledger = owning(A)
    assert ledger.is_stale(B, 1)
    ledger.assign({A: 6})
    assert ledger.is_stale(A, 1) and ledger.is_stale(A, 6) and not ledger.is_stale(A, 7)
    ledger.move(A, 3)
    assert not ledger.is_stale(A, 1)


def test_offsets_that_others_hold_back_do_not_cover_what_the_caller_has() -> None:
    ledger, first, second = owning(A), object(), object()
    add(ledger, *messages(A, 0, 1))
    ledger.take(1, first, 0.0)
    ledger.take(1, second, 0.0)
    assert ledger.covers(ledger.finished(first), first)
    assert not ledger.covers(ledger.finished(second), second)


def test_what_lies_below_a_commit_is_not_given_back() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2, 3))
    work = take(ledger, 3)
    ledger.finish_below({A: 2})
    ledger.give_back(work)
    assert take(ledger, 9).messages == messages(A, 2, 3)


def test_what_is_left_to_transactions_is_not_due() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1))
    ledger.finish(take(ledger, 1))
    assert ledger.due() == {A: 1}
    ledger.left_to_transactions = True
    assert ledger.due() == {}


def test_work_that_is_handed_out_is_noted_before_it_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    ledger.finish(take(ledger, 1))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "_pass_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.take(2, "somebody", 0.0)
    monkeypatch.undo()
    ledger.take_back("somebody")
    assert ledger.finished() == {A: 1}
    assert ledger.in_hand == []
    again = take(ledger, 2)
    assert [each.number for each in again.messages] == [1, 2]


def test_a_chunk_that_an_interrupted_reader_left_empty_is_not_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0))
    add(ledger, *messages(A, 1))
    pass_over = _Chunk.pass_over

    def interrupted(chunk: _Chunk[Fake], count: int) -> int:
        pass_over(chunk, count)
        raise KeyboardInterrupt

    monkeypatch.setattr(_Chunk, "pass_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.take(1, "somebody", 0.0)
    monkeypatch.undo()
    ledger.take_back("somebody")
    assert ledger.unread == 2
    assert [take(ledger, 1).messages[0].number for _ in range(2)] == [0, 1]


def test_only_what_no_loop_holds_is_taken_back_from_an_interrupted_reader() -> None:
    ledger = owning(A)
    add(ledger, *messages(A, 0, 1, 2))
    works = [ledger.take(1, owner, 0.0) for owner in ("reader", "reader", "another")]
    assert works[0] is not None
    works[0].held = True
    ledger.take_back("reader")
    assert ledger.in_hand == [works[0], works[2]]
    assert [each.number for each in take(ledger, 9).messages] == [1]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 99)), max_size=40))
def test_first_and_last_offsets_are_those_of_a_plain_loop(pairs: list[tuple[Place, int]]) -> None:
    fetched = [Fake(at, number) for at, number in pairs]
    first: dict[Place, int] = {}
    last: dict[Place, int] = {}
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
    """Any order of events: the ledger says what the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: Ledger[Fake] = Ledger()
        self.model: dict[Place, Run] = {}
        self.runs = 0
        self.in_hand: list[Work[Fake]] = []
        # Records that are finished one by one, with their messages.
        self.records: list[tuple[object, Fake]] = []

    def fresh(self, place: Place, offset: int, *, known: bool, moved: bool) -> None:
        self.runs += 1
        self.model[place] = Run(self.runs, offset, offset if known else None, moved)

    def current(self, message: Fake) -> bool:
        run = self.model.get(message.at)
        return run is not None and run.run == message.run

    def mark(self, message: Fake, state: str) -> None:
        if self.current(message):
            self.model[message.at].states[message.number] = state

    @rule(place=st.sampled_from(PLACES), offset=st.integers(0, 9))
    def assign(self, place: Place, offset: int) -> None:
        if place not in self.model:
            self.ledger.assign({place: None})
            self.fresh(place, offset, known=False, moved=False)

    @rule(place=st.sampled_from(PLACES))
    def revoke(self, place: Place) -> None:
        self.ledger.revoke([place])
        self.model.pop(place, None)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offset=st.integers(0, 30))
    def move(self, data: st.DataObject, offset: int) -> None:
        place = data.draw(st.sampled_from(sorted(self.model)))
        self.ledger.move(place, offset)
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
        add(self.ledger, *fetched)

    @rule(count=st.integers(1, 5), one_by_one=st.booleans())
    def take(self, count: int, one_by_one: bool) -> None:
        work = self.ledger.take(count, None, 0.0)
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
            self.ledger.expect_each(work, {id(each): at for at, each in enumerate(work.records)})
        else:
            self.in_hand.append(work)

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data(), how=st.sampled_from(["finish", "give back"]))
    def end(self, data: st.DataObject, how: str) -> None:
        work = self.in_hand.pop(data.draw(st.integers(0, len(self.in_hand) - 1)))
        if how == "finish":
            self.ledger.finish(work)
        else:
            self.ledger.give_back(work)
        for message in work.messages:
            self.mark(message, "finished" if how == "finish" else "unread")

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def finish_one(self, data: st.DataObject) -> None:
        record, message = self.records.pop(data.draw(st.integers(0, len(self.records) - 1)))
        assert self.ledger.finish_one(id(record)) == self.current(message)
        self.mark(message, "finished")

    @invariant()
    def what_is_finished_is_what_the_model_says(self) -> None:
        expected: dict[Place, int] = {}
        for place, run in self.model.items():
            offset = run.finished()
            if offset is not None:
                expected[place] = offset
        assert self.ledger.finished() == expected

    @invariant()
    def the_position_is_the_first_unread_record(self) -> None:
        unread = 0
        for place, run in self.model.items():
            waiting = [at for at, state in run.states.items() if state == "unread"]
            unread += len(waiting)
            if run.start is not None:
                assert self.ledger.position(place) == min(waiting, default=run.next_offset)
        assert self.ledger.unread == unread


LedgerMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAnyOrderOfEvents = LedgerMachine.TestCase
