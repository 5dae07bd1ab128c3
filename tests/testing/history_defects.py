"""One thing gone wrong in a history that was clean, and what the checker should call it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from penstock.testing.history import (
    AbortedRead,
    Anomaly,
    Duplicate,
    Ending,
    History,
    InconsistentOffset,
    Isolation,
    LostOffsets,
    LostWrite,
    NonMonotonicPoll,
    NonMonotonicSend,
    NotExactlyOnce,
    Outcome,
    Polled,
    PollSkip,
    TornTransaction,
    UncommittedRead,
    UnsentValue,
)
from penstock.testing.history.events import (
    ClientOperation,
    Moment,
    OffsetCommit,
    OffsetFetch,
    Poll,
    RecordedTransaction,
    Send,
    Span,
)

T = TypeVar("T")
READER = "reader-read_committed"
AUDITOR = "auditor"


class NoSuchThing(Exception):
    """This history has nothing that could go wrong in this way."""


def pick(chance: Random, those: Iterable[T]) -> T:
    every = list(those)
    if not every:
        raise NoSuchThing
    return chance.choice(every)


def of_kind(history: History, kind: type[T]) -> list[T]:
    return [each for each in history if isinstance(each, kind)]


def changed(history: History, *operations: ClientOperation) -> History:
    """With these in the place of those that began when they did, or added."""
    every = {each.span.began: each for each in history}
    every |= {each.span.began: each for each in operations}
    return History(tuple(every[moment] for moment in sorted(every)))


def forgotten(history: History, value: bytes, by: str | None = None) -> History:
    """Nobody saw the value, or one process did not."""
    return changed(
        history,
        *(
            replace(each, records=tuple(one for one in each.records if one.value != value))
            for each in of_kind(history, Poll)
            if by is None or each.process == by
        ),
    )


def seen_by(history: History, process: str) -> list[Polled]:
    return [
        record
        for poll in of_kind(history, Poll)
        if poll.process == process
        for record in poll.records
    ]


def seen_sends(history: History) -> list[Send]:
    """Acknowledged, with a known offset, and read at the end of the run."""
    seen = {each.value for each in seen_by(history, AUDITOR)}
    return [each for each in acknowledged(history) if each.value in seen]


def acknowledged(history: History) -> list[Send]:
    sends = of_kind(history, Send)
    return [each for each in sends if each.outcome is Outcome.OK and each.offset is not None]


def sends_of(history: History, *endings: Ending) -> list[tuple[RecordedTransaction, Send]]:
    ended = {
        each.number: each
        for each in of_kind(history, RecordedTransaction)
        if each.ending in endings
    }
    return [
        (ended[each.transaction], each)
        for each in acknowledged(history)
        if each.transaction in ended and each.transaction is not None
    ]


def intruder(history: History, send: Send, ended: int) -> History:
    """Someone who sees a record that ended up in a log, at some moment."""
    assert send.offset is not None
    record = Polled(send.partition, send.offset, send.value)
    span = Span(Moment(ended - 1), Moment(ended))
    return changed(history, Poll("intruder", span, (record,), Isolation.READ_COMMITTED))


def behind_the_end(history: History, value: bytes, send: Send) -> History:
    """The last poll of the run, with one record more."""
    polls = [
        each
        for each in of_kind(history, Poll)
        if each.process == AUDITOR and each.records[0].partition == send.partition
    ]
    [poll] = polls
    used = [
        each.offset
        for other in of_kind(history, Poll)
        for each in other.records
        if each.partition == send.partition
    ]
    used += [
        each.offset
        for each in of_kind(history, Send)
        if each.partition == send.partition and each.offset is not None
    ]
    record = Polled(send.partition, max(used) + 5, value)
    return changed(history, replace(poll, records=(*poll.records, record)))


# -- what can go wrong


def a_write_is_lost(history: History, chance: Random) -> History:
    send = pick(chance, (each for each in seen_sends(history) if each.transaction is None))
    return forgotten(history, send.value)


def a_record_is_written_twice(history: History, chance: Random) -> History:
    send = pick(chance, seen_sends(history))
    return behind_the_end(history, send.value, send)


def a_record_comes_from_nowhere(history: History, chance: Random) -> History:
    return behind_the_end(history, b"nobody's", pick(chance, seen_sends(history)))


def two_readers_disagree(history: History, chance: Random) -> History:
    polls = [each for each in of_kind(history, Poll) if each.process == AUDITOR]
    poll = pick(chance, (each for each in polls if len(each.records) > 1))
    first, second, *others = poll.records
    swapped = (first._replace(value=second.value), second._replace(value=first.value), *others)
    return changed(history, replace(poll, records=swapped))


def an_aborted_record_is_read(history: History, chance: Random) -> History:
    _, send = pick(chance, sends_of(history, Ending.ABORTED))
    return intruder(history, send, history.operations[-1].span.began + 1_000)


def a_record_is_read_before_its_commit(history: History, chance: Random) -> History:
    _, send = pick(chance, sends_of(history, Ending.COMMITTED))
    return intruder(history, send, 0)


def a_record_is_read_without_any_commit(history: History, chance: Random) -> History:
    unknown = sends_of(history, Ending.UNKNOWN)
    _, send = pick(chance, (each for each in unknown if each[0].commit_asked is None))
    return intruder(history, send, history.operations[-1].span.began + 1_000)


def one_poll_repeats_itself(history: History, chance: Random) -> History:
    poll = pick(chance, (each for each in of_kind(history, Poll) if each.process == READER))
    return changed(history, replace(poll, records=(*poll.records, poll.records[-1])))


def a_poll_begins_too_early(history: History, chance: Random) -> History:
    polls = [each for each in of_kind(history, Poll) if each.process == READER]
    number = pick(chance, range(1, len(polls)))
    before, poll = polls[number - 1], polls[number]
    return changed(history, replace(poll, records=(before.records[-1], *poll.records)))


def a_poll_leaves_a_record_out(history: History, chance: Random) -> History:
    partition = pick(chance, seen_by(history, READER)).partition
    inner = [each for each in seen_by(history, READER) if each.partition == partition][1:-1]
    return forgotten(history, pick(chance, inner).value, by=READER)


def sends_are_stored_in_another_order(history: History, chance: Random) -> History:
    sends = [each for each in acknowledged(history) if each.transaction is None]
    first = pick(chance, sends)
    second = pick(
        chance,
        (
            each
            for each in sends
            if (each.process, each.partition) == (first.process, first.partition) and each != first
        ),
    )
    return changed(
        history,
        replace(first, span=first.span._replace(began=second.span.began)),
        replace(second, span=second.span._replace(began=first.span.began)),
    )


def a_transaction_loses_one_record(history: History, chance: Random) -> History:
    seen = {each.value for each in seen_sends(history)}
    pairs = [
        (transaction, send)
        for transaction, send in sends_of(history, Ending.COMMITTED, Ending.UNKNOWN)
        if send.value in seen
    ]
    transaction, send = pick(chance, pairs)
    if sum(each is transaction for each, _ in pairs) < 2:
        raise NoSuchThing
    return forgotten(history, send.value)


def the_progress_of_an_aborted_transaction_shows(history: History, chance: Random) -> History:
    aborted = {
        each.number
        for each in of_kind(history, RecordedTransaction)
        if each.ending is Ending.ABORTED or each.commit_asked is None
    }
    commits = of_kind(history, OffsetCommit)
    kept = {each.offsets for each in commits if each.transaction not in aborted}
    commit = pick(
        chance,
        (each for each in commits if each.transaction in aborted and each.offsets not in kept),
    )
    [place] = commit.offsets
    return _with_last_progress(history, place.partition.partition, place.offset)


def progress_comes_from_nowhere(history: History, chance: Random) -> History:
    return _with_last_progress(history, chance.choice([0, 1]), 10_000)


def progress_is_forgotten(history: History, chance: Random) -> History:
    committed = {
        each.number
        for each in of_kind(history, RecordedTransaction)
        if each.ending is Ending.COMMITTED
    }
    commits = of_kind(history, OffsetCommit)
    commit = pick(chance, (each for each in commits if each.transaction in committed))
    return _with_last_progress(history, commit.offsets[0].partition.partition, None)


def _with_last_progress(history: History, number: int, offset: int | None) -> History:
    fetch = of_kind(history, OffsetFetch)[-1]
    offsets = list(fetch.offsets)
    offsets[number] = (offsets[number][0], offset)
    return changed(history, replace(fetch, offsets=tuple(offsets)))


def an_input_is_taken_for_another(history: History, chance: Random) -> History:
    outputs = [each for each in seen_sends(history) if each.source is not None]
    first = pick(chance, outputs)
    second = pick(chance, (each for each in outputs if each.source != first.source))
    return changed(history, replace(first, source=second.source))


@dataclass(frozen=True)
class Defect:
    """A way to break a history, what it must be called, and what may follow from it."""

    breaks: Callable[[History, Random], History]
    anomaly: type[Anomaly]
    consequences: Sequence[type[Anomaly]] = ()


DEFECTS = (
    Defect(a_write_is_lost, LostWrite),
    Defect(a_record_is_written_twice, Duplicate),
    Defect(a_record_comes_from_nowhere, UnsentValue),
    Defect(two_readers_disagree, InconsistentOffset, [Duplicate]),
    Defect(an_aborted_record_is_read, AbortedRead, [NotExactlyOnce]),
    Defect(a_record_is_read_before_its_commit, UncommittedRead),
    Defect(a_record_is_read_without_any_commit, UncommittedRead, [NotExactlyOnce]),
    Defect(one_poll_repeats_itself, NonMonotonicPoll),
    Defect(a_poll_begins_too_early, NonMonotonicPoll),
    Defect(a_poll_leaves_a_record_out, PollSkip),
    Defect(sends_are_stored_in_another_order, NonMonotonicSend),
    Defect(a_transaction_loses_one_record, TornTransaction, [NotExactlyOnce]),
    Defect(the_progress_of_an_aborted_transaction_shows, TornTransaction, [NotExactlyOnce]),
    Defect(progress_comes_from_nowhere, LostOffsets),
    Defect(progress_is_forgotten, TornTransaction, [NotExactlyOnce]),
    Defect(an_input_is_taken_for_another, NotExactlyOnce),
)
