"""Runs one machine over one log: appends its records, parks replies until they are committed.

A record is replayed right after its append, so the next event sees it. A reply leaves once all
records that the machine had seen by then are committed. Replies leave in the order of their
decisions. A request is answered at once, or parked under a ticket until the machine answers it.
After a lost leadership or a failed disk the machine is dropped. When this node leads again, the
machine is rebuilt from the log. A machine with a standby follows the committed batches of another
leader instead, and is active as soon as it has replayed the log of its own leadership.

An exception that is no KafkaError costs its subject alone. The request gets UNKNOWN_SERVER_ERROR.
The machine brings the subject back to its records or sets it aside, and the log names it once.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from penstock.effects import CancelTimer, Failure, Outcome, SetTimer, Ticket, TicketAnswer
from penstock.errors import KafkaError, KafkaStorageError, UnknownServerError
from penstock.machine.protocols import (
    FollowedLog,
    LogReader,
    LogUnreadable,
    Machine,
    MachineBatch,
    MachineBatchWriter,
    ReplicatedLog,
)
from penstock.wire.primitives import Malformed, UnencodableValue
from penstock.world import Clock, Cold, DiskFailed, Timer, Timers

log = logging.getLogger("penstock.machine")

M = TypeVar("M", bound=Machine)
# The machine fixes the types of its events and records, but M cannot name them here.
Event: TypeAlias = Any
MachineRecord: TypeAlias = Any
T = TypeVar("T")
# Gets the machine's reply, or a KafkaError instead. Each request expects a response of its own.
ReplyCallback: TypeAlias = Callable[[Any], None]

# A client that outruns the disk must not make this node keep its requests without end.
PARKED_MAX = 10_000
SHOWN_CHARACTERS_MAX = 200  # of a record, in the log
RECORDS_PER_TURN_MAX = 250  # more of them are encoded and replayed in several turns
# Of one machine, until the node starts again. A peer may make any number of groups fail.
SUBJECTS_LOGGED_MAX = 100


class RuntimeState(Enum):
    INACTIVE = auto()
    FOLLOWING = auto()  # replays what another leader has committed
    LOADING = auto()
    ACTIVE = auto()


@dataclass(slots=True)
class _Parked:
    """A decision that waits for `offset` to be committed."""

    offset: int
    outcome: Outcome
    decided_mono_ms: float
    done: ReplyCallback | None
    answered: Sequence[tuple[ReplyCallback, Any]] = ()


class _Large:
    """An outcome whose records are encoded, written and replayed over several turns."""

    __slots__ = ("batch", "done", "outcome", "position", "writing")

    def __init__(
        self, outcome: Outcome, done: ReplyCallback | None, writing: MachineBatchWriter
    ) -> None:
        self.outcome = outcome
        self.done = done
        self.writing = writing
        self.position = 0  # of the next record to encode, then to replay
        self.batch: MachineBatch | None = None  # once it is written

    def some(self) -> Sequence[MachineRecord]:
        first = self.position
        self.position = min(first + RECORDS_PER_TURN_MAX, len(self.outcome.records))
        return self.outcome.records[first : self.position]

    @property
    def through(self) -> bool:
        return self.position == len(self.outcome.records)


class Standby(NamedTuple, Generic[M]):
    """The means to follow another leader. `resume` returns a machine that holds all that is
    published, and the offset behind it; `restart` returns one without state, for a snapshot."""

    log: FollowedLog[MachineRecord]
    resume: Callable[[], tuple[M, int]]
    restart: Callable[[], M]


class Runtime(Generic[M]):
    """One machine, one log.

    `make` returns a machine without state. `before_release` gets every commit before the replies
    that waited for it leave. `send` performs what a machine sends. `unreadable` gets the problem of
    a log that cannot be loaded; without it the problem is raised. `begin` begins a batch that is
    encoded in pieces, and later events wait for its end. `activated` is called when the machine
    begins to handle events. With a `standby` the machine follows the
    log while another node leads.
    """

    def __init__(
        self,
        make: Callable[[], M],
        log: ReplicatedLog,
        clock: Clock,
        timers: Timers,
        *,
        while_loading: Callable[[], KafkaError],
        when_lost: Callable[[], KafkaError],
        when_full: Callable[[], KafkaError],
        before_release: Callable[[int], None] | None = None,
        send: Callable[[Any], None] | None = None,
        unreadable: Callable[[LogUnreadable], None] | None = None,
        begin: Callable[[], MachineBatchWriter] | None = None,
        activated: Callable[[], None] | None = None,
        standby: "Standby[M] | None" = None,
        parked_max: int = PARKED_MAX,
    ) -> None:
        self._make = make
        self._log = log
        self._clock = clock
        self._timers = timers
        self._while_loading = while_loading
        self._when_lost = when_lost
        self._when_full = when_full
        self._before_release = before_release
        self._send = send
        self._unreadable = unreadable
        self._begin = begin
        self._activated = activated
        self._standby = standby
        self._active_at: int | None = None  # a follower becomes active when it has seen this offset
        self._committed: LogReader[MachineRecord] | None = None
        self._follow_due = False
        self._large: _Large | None = None
        self._behind: deque[tuple[Event, ReplyCallback | None]] = (
            deque()
        )  # events that came during it
        self._parked_max = parked_max
        self._state = RuntimeState.INACTIVE
        self._machine = make()
        self._seen = 0  # all below has been replayed
        self._parked: deque[_Parked] = deque()
        self._tickets: dict[Ticket, ReplyCallback] = {}
        self._set_timers: dict[str, Timer] = {}
        self._reader: LogReader | None = None
        self._term = 0  # counts loads, so that late callbacks of an earlier one are recognised
        self._releasing = False
        self._asking: ReplyCallback | None = None  # of the event that is submitted right now
        self._asking_problem: Exception | None = None  # raised by that reply
        self._subjects_logged: dict[str, None] = {}
        log.follow(self)

    @property
    def state(self) -> RuntimeState:
        return self._state

    @property
    def machine(self) -> M:
        return self._machine

    # Events

    def submit(self, event: Event, done: ReplyCallback | None = None) -> None:
        """Let the machine handle an event; `done` gets its reply or a KafkaError, exactly once."""
        if self._state is not RuntimeState.ACTIVE:
            if done is not None:
                is_loading = self._state is RuntimeState.LOADING or self._active_at is not None
                done(self._while_loading() if is_loading else self._when_lost())
            return
        if done is not None and len(self._parked) + len(self._behind) >= self._parked_max:
            done(self._when_full())  # a timer is never rejected
            return
        if self._large is not None:
            self._behind.append((event, done))
            return
        before, self._asking = self._asking, done
        self._handle(event, done)
        self._asking = before
        problem, self._asking_problem = self._asking_problem, None
        if problem is not None:
            raise problem  # of `done`, which the caller has brought along

    def _handle(self, event: Event, done: ReplyCallback | None) -> None:
        try:
            outcome = self._machine.handle(event, self._clock.wall_ms())
        except Exception as problem:
            if done is None or not isinstance(problem, KafkaError):
                self._recover(event, problem, done)
                return
            # The error may depend on uncommitted records, so the reply is parked like any other.
            outcome = Outcome(reply=problem)
        if self._begin is not None and len(outcome.records) > RECORDS_PER_TURN_MAX:
            assert not (outcome.volatile or outcome.answers or outcome.if_rejected), (
                "a large outcome has records and a reply only"
            )
            self._large = _Large(outcome, done, self._begin())
            self._go_on(self._term)
        else:
            self._perform(outcome, done)

    def _go_on(self, term: int) -> None:
        """Encode or replay some records of the large outcome; the next ones in the next turn."""
        large = self._large
        if term != self._term or large is None:
            return
        if large.batch is None:
            try:
                self._encode_some(large)
            except KafkaError as error:
                self._park(self._seen, Outcome(reply=error), large.done)
                self._end_large()
                return
            except DiskFailed as failure:
                self._drop(KafkaStorageError(str(failure)))
                return
            if term != self._term:  # the append has shown that this node no longer leads
                return
        else:
            self._replay(large.some())
            if large.through:
                self._replayed(large.batch)
                self._park(self._seen, large.outcome, large.done)
                self._end_large()
                return
        self._timers.soon(lambda: self._go_on(term))

    def _encode_some(self, large: _Large) -> None:
        records = large.some()
        self._writable(records, lambda: large.writing.add(records))
        if large.through:
            large.batch = large.writing.finish()
            large.position = 0

    def _end_large(self) -> None:
        self._large = None
        self.committed(
            self._log.committed_offset
        )  # the commit may have come before the last replay
        while self._behind and self._large is None:
            self._handle(*self._behind.popleft())

    # Exceptions of our own

    def _recover(self, event: Event, problem: Exception, done: ReplyCallback | None) -> None:
        """Answer a request whose handling raised, and let the machine mend its subject."""
        failed = UnknownServerError(f"The request failed in the server: {problem!r:.200}.")
        self._park(self._seen, Outcome(reply=failed), done)
        try:
            recovered = self._machine.recover(event, problem, self._clock.wall_ms())
            assert not recovered.records, "a recovery writes no record"
        except Exception as worse:
            self._log_failure(Failure("a coordinator", worse, "It is loaded again from its log."))
            self._rebuild(failed, None)
        else:
            self._perform(recovered, None)

    def _replay(self, records: Sequence[MachineRecord]) -> None:
        machine = self._machine
        replay = machine.replay
        for record in records:
            try:
                replay(record)
            except Exception as problem:
                self._log_failure(machine.set_aside(record, problem))

    def _log_failure(self, failure: Failure) -> None:
        subject, problem, consequence = failure
        known = subject in self._subjects_logged or len(self._subjects_logged) > SUBJECTS_LOGGED_MAX
        self._subjects_logged.setdefault(subject)
        log.log(
            logging.DEBUG if known else logging.ERROR,
            "%s: %s. %s",
            subject,
            repr(problem)[:SHOWN_CHARACTERS_MAX],
            consequence,
            exc_info=problem,
        )

    def _tell(self, done: ReplyCallback, reply: object) -> None:
        """Give a reply. `submit` raises its exception, if it still runs; else it is logged."""
        try:
            done(reply)
        except Exception as problem:
            if done is self._asking:
                self._asking_problem = problem
            else:
                name = getattr(done, "__qualname__", repr(done))
                self._log_failure(Failure(f"a reply ({name})", problem, "It is not sent."))

    def _replayed(self, batch: MachineBatch) -> None:
        self._machine.replayed(batch.end_offset, batch.epoch, batch.timestamp_ms)
        self._seen = batch.end_offset

    def _perform(self, outcome: Outcome, done: ReplyCallback | None) -> None:
        if outcome.records:
            term = self._term
            try:
                batch = self._writable(outcome.records, lambda: self._log.append(outcome.records))
            except KafkaError as error:
                if outcome.if_rejected is not None:
                    self._undo(outcome, outcome.if_rejected, error, done)
                    return
                if outcome.volatile or outcome.answers or outcome.parked is not None:
                    self._rebuild(error, done)
                    return
                outcome = Outcome(reply=error)
            except DiskFailed as failure:
                self._park(self._log.end_offset + 1, Outcome(), done)
                self._drop(KafkaStorageError(str(failure)))
                return
            else:
                if term != self._term:  # the append has shown that this node no longer leads
                    if done is not None:
                        self._tell(done, self._when_lost())
                    return
                self._replay(outcome.records)
                self._replayed(batch)
        for each in outcome.failures:
            self._log_failure(each)
        self._park(self._seen, outcome, done)
        self._release()

    def _writable(self, records: Sequence[MachineRecord], write: Callable[[], T]) -> T:
        """Turn an encoding error into a KafkaError. The values came with a request of a peer, and
        must not stop the node."""
        try:
            return write()
        except (UnencodableValue, Malformed) as problem:
            first = str(records[0])[:SHOWN_CHARACTERS_MAX]
            log.error(
                "records that cannot be written are rejected: %s; they begin %s", problem, first
            )
            raise UnknownServerError(f"it cannot be written: {problem}") from problem

    def _park(self, offset: int, outcome: Outcome, done: ReplyCallback | None) -> None:
        if outcome.parked is not None:
            assert outcome.parked not in self._tickets, "a ticket is given out once"
            if done is not None:
                self._tickets[outcome.parked] = done
            done = None
        answered: Sequence[tuple[ReplyCallback, Any]] = ()
        if outcome.answers:
            answered = [
                (waiting, answer.reply)
                for answer in outcome.answers
                if (waiting := self._tickets.pop(answer.ticket, None)) is not None
            ]
        self._parked.append(_Parked(offset, outcome, self._clock.mono_ms(), done, answered))

    def _undo(
        self, outcome: Outcome, rejected: Event, error: KafkaError, done: ReplyCallback | None
    ) -> None:
        """Answer the requests of rejected records, and let the machine undo volatile changes."""
        waiting = [answer.ticket for answer in outcome.answers if not answer.waits_on]
        answers = [TicketAnswer(ticket, error) for ticket in waiting]
        self._park(self._seen, Outcome(reply=error, answers=answers), done)
        try:
            undone = self._machine.handle(rejected, self._clock.wall_ms())
            assert not undone.records, "an outcome that undoes rejected records writes none"
        except Exception as problem:
            self._recover(rejected, problem, None)
        else:
            self._perform(undone, None)

    def _rebuild(self, error: KafkaError, done: ReplyCallback | None) -> None:
        """Load the machine again: the log rejected records that its volatile part counts on."""
        self._park(self._seen, Outcome(), done)
        self._drop(error)
        self.gained()

    def _release(self) -> None:
        if self._releasing:
            return  # a reply led to another submit; the loop below goes on with it
        self._releasing = True
        try:
            while self._parked and self._parked[0].offset <= self._log.committed_offset:
                parked = self._parked.popleft()
                for timer in parked.outcome.timers:
                    self._set(timer, parked.decided_mono_ms)
                for send in parked.outcome.sends:
                    assert self._send is not None, "a machine that sends has a `send`"
                    self._perform_send(self._send, send)
                if parked.done is not None:
                    self._tell(parked.done, parked.outcome.reply)
                for waiting, reply in parked.answered:
                    self._tell(waiting, reply)
        finally:
            self._releasing = False

    def _perform_send(self, send: Callable[[Any], None], effect: Any) -> None:
        try:
            send(effect)
        except Exception as problem:
            subject = str(effect)[:SHOWN_CHARACTERS_MAX]
            self._log_failure(Failure(subject, problem, "It is sent again by the next load."))

    # Timers

    def _set(self, timer: SetTimer | CancelTimer, decided_mono_ms: float) -> None:
        running = self._set_timers.pop(timer.name, None)
        if running is not None:
            running.cancel()
        if isinstance(timer, SetTimer):
            wake_at = decided_mono_ms + timer.after_ms
            self._set_timers[timer.name] = self._timers.at(wake_at, lambda: self._fire(timer))

    def _fire(self, timer: SetTimer) -> None:
        self._set_timers.pop(timer.name, None)
        self.submit(timer.event)

    # The log below

    def committed(self, offset: int) -> None:
        if self._state is RuntimeState.FOLLOWING:
            self._follow_soon()
            return
        if self._before_release is not None:
            self._before_release(offset)
        self._release()

    def lost(self) -> None:
        """Drop the machine, and answer all requests that wait: this node no longer leads."""
        self._active_at = None
        if self._state is RuntimeState.FOLLOWING:
            return
        if self._state is not RuntimeState.INACTIVE:
            self._drop(self._when_lost())
            if self._standby is not None:
                self.follow_committed()

    def gained(self) -> None:
        """Load in slices, one per turn of the loop: this node leads. A follower goes on to the end
        of the log, whose last batch begins the leadership."""
        if self._state is RuntimeState.FOLLOWING:
            self._active_at = self._log.end_offset
            self._follow_soon()
            return
        self._begin_loading()
        self._load_later(self._term)

    def follow_committed(self) -> None:
        """Replay what is committed, in slices, while another node leads."""
        assert self._standby is not None, "only a machine with a standby follows"
        self._state = RuntimeState.FOLLOWING
        self._term += 1
        self._machine, self._seen = self._standby.resume()
        self._committed = None
        self._follow_soon()

    def _follow_soon(self) -> None:
        if not self._follow_due:
            self._follow_due = True
            term = self._term
            self._timers.soon(lambda: self._follow(term))

    def _follow(self, term: int) -> None:
        self._follow_due = False
        if self._state is not RuntimeState.FOLLOWING or self._standby is None:
            return
        if term != self._term:
            self._follow_soon()  # the runtime follows again, with another machine
            return
        try:
            more = self._follow_slice(self._standby)
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, lambda failure: self._warmed(term, failure))
            return
        except Exception as problem:
            if self._unreadable is None:
                raise
            log.debug("following failed", exc_info=problem)
            self._drop(self._when_lost())
            self._unreadable(_as_unreadable(problem))
            return
        if self._before_release is not None:
            self._before_release(self._log.committed_offset)
        if more:
            self._follow_soon()
        elif self._active_at is not None and self._seen >= self._active_at:
            self._active_at = self._committed = None
            self._activate()

    def _warmed(self, term: int, failure: DiskFailed | None) -> None:
        if term != self._term:
            return
        if failure is not None:
            self._drop(KafkaStorageError(str(failure)))
        else:
            self._follow_soon()

    def _follow_slice(self, standby: Standby[M]) -> bool:
        """Replay some committed batches; return whether there may be more."""
        if self._committed is None:
            if self._seen < standby.log.start_offset:
                self._machine, self._seen = standby.restart(), 0
            self._committed = standby.log.read_committed(self._seen)
        batches = self._committed.next_slice()
        if batches is None:
            self._committed = None
            return True
        self._replay_all(batches)
        return bool(batches)

    def gained_now(self) -> None:
        """Load as `gained` does, and wait for the end. For start only."""
        self._begin_loading()
        while self._state is RuntimeState.LOADING:
            try:
                self._load_slice()
            except Cold as cold:
                cold.file.read_now(cold.position, cold.size)

    def dismiss(self, error: KafkaError) -> None:
        """Answer all parked requests with an error: the node is about to stop."""
        tickets, self._tickets = self._tickets, {}
        for waiting in tickets.values():
            self._tell(waiting, error)

    def stop(self) -> None:
        """Drop the machine without an answer to any request."""
        self._forget()

    def _forget(self) -> tuple[list[ReplyCallback], deque[_Parked], dict[Ticket, ReplyCallback]]:
        self._state = RuntimeState.INACTIVE
        self._active_at = None
        self._term += 1
        self._reader = self._committed = None
        self._machine = self._make()
        self._seen = 0
        for timer in self._set_timers.values():
            timer.cancel()
        self._set_timers.clear()
        parked, self._parked = self._parked, deque()
        tickets, self._tickets = self._tickets, {}
        unhandled = [done for _event, done in self._behind if done is not None]
        if self._large is not None and self._large.done is not None:
            unhandled.insert(0, self._large.done)
        self._large = None
        self._behind.clear()
        return unhandled, parked, tickets

    def _drop(self, error: KafkaError) -> None:
        unhandled, parked, tickets = self._forget()
        for each in parked:
            if each.done is not None:
                self._tell(each.done, error)
            for waiting, _reply in each.answered:
                self._tell(waiting, error)
        for done in unhandled:
            self._tell(done, error)
        for waiting in tickets.values():
            self._tell(waiting, error)

    def _begin_loading(self) -> None:
        if self._state is not RuntimeState.INACTIVE:
            self._drop(self._when_lost())
        self._state = RuntimeState.LOADING
        self._term += 1
        self._machine = self._make()
        self._reader = self._log.read()

    def _load_later(self, term: int) -> None:
        def load() -> None:
            if term != self._term or self._state is not RuntimeState.LOADING:
                return
            try:
                self._load_slice()
            except Cold as cold:
                cold.file.warm(cold.position, cold.size, warmed)
                return
            except Exception as problem:
                if self._unreadable is None:
                    raise
                log.debug("a load failed", exc_info=problem)
                self._unreadable(_as_unreadable(problem))
                self._drop(self._when_lost())
                return
            if self._state is RuntimeState.LOADING:
                self._timers.soon(load)

        def warmed(failure: DiskFailed | None) -> None:
            if term != self._term:
                return
            if failure is not None:
                self._drop(KafkaStorageError(str(failure)))
                return
            load()

        self._timers.soon(load)

    def _load_slice(self) -> None:
        assert self._reader is not None, "a load has a reader from its first slice to its last"
        batches = self._reader.next_slice()
        assert batches is not None, "no snapshot replaces the log under its leader"
        self._replay_all(batches)
        if not batches:
            self._reader = None
            self._activate()

    def _replay_all(self, batches: Sequence[MachineBatch]) -> None:
        for batch in batches:
            self._replay(batch.records)
            if batch.end_offset >= 0:  # else the batch goes on in the next slice
                self._replayed(batch)

    def _activate(self) -> None:
        self._state = RuntimeState.ACTIVE
        if self._activated is not None:
            self._activated()
        outcome = self._machine.loaded(self._clock.wall_ms())
        if outcome.records:
            # Apart: if the log rejects them, the timers are set all the same.
            self._perform(Outcome(outcome.records, volatile=outcome.volatile), None)
        if self._state is RuntimeState.ACTIVE:
            self._perform(replace(outcome, records=()), None)


def _as_unreadable(problem: Exception) -> LogUnreadable:
    if isinstance(problem, LogUnreadable):
        return problem
    unreadable = LogUnreadable(
        f"A coordinator cannot be loaded: {problem!r}. Its groups are not served."
    )
    unreadable.__cause__ = problem
    return unreadable
