"""Tracking of unread, in-flight and finished records: the offsets that may be committed.

A record of an owned partition is unread, in flight with a body, or finished. `finished()` returns
per partition the first unfinished offset; no later offset is ever committed. The module uses no
threads and no clocks; callers hold the consumer's lock.

Invariants: unread records of a partition belong to its newest run, where a run begins with an
assignment or a seek. Records in flight of an earlier run neither count nor hold back. Unfinished
records that are given back are read again.

A look at each message costs more than its delivery, so offsets are computed only on demand.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

# The ticket of an empty batch.
NO_TICKET = -1

# Topic with the namespace's prefix, and partition.
PartitionKey: TypeAlias = tuple[str, int]


class Message(Protocol):
    """librdkafka's message. Without an error it has all three."""

    def topic(self) -> Any: ...
    def partition(self) -> Any: ...
    def offset(self) -> Any: ...


M = TypeVar("M", bound=Message)


def place_of(message: Message) -> PartitionKey:
    return (message.topic(), message.partition())


def last_offsets(messages: Sequence[Message]) -> dict[PartitionKey, int]:
    """Return the last offset of each partition."""
    # A third of the time that `map` with `methodcaller` takes.
    return {(each.topic(), each.partition()): each.offset() for each in messages}


def first_offsets(messages: Sequence[Message]) -> dict[PartitionKey, int]:
    """Return the first offset of each partition."""
    return last_offsets(messages[::-1])


def _lies_below(work: "InFlight[Any]", offsets: Mapping[PartitionKey, int]) -> bool:
    """Return whether a commit of these offsets covers all messages."""
    lasts = last_offsets(work.messages)
    return all(offsets.get(place, 0) > last for place, last in lasts.items())


# Most messages are finished together.
_NONE: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class InFlight(Generic[M]):
    """Messages in flight with one body, which finishes them together or one by one."""

    ticket: int
    messages: list[M]
    # The task or thread, its start, whether its body has ended, and why it lost the messages.
    owner: object
    since: float
    ended: bool = False
    failure: Exception | None = None
    # Positions in `messages` that were finished one by one.
    one_by_one: bool = False
    done: AbstractSet[int] = _NONE
    # The body's records, kept so that their ids stay valid.
    records: Sequence[object] = ()
    _firsts: dict[PartitionKey, int] | None = None

    def unfinished(self) -> list[M]:
        if not self.done:
            return self.messages
        return [each for at, each in enumerate(self.messages) if at not in self.done]

    def firsts(self) -> Mapping[PartitionKey, int]:
        """Return the first unfinished offset of each partition."""
        if self._firsts is None:
            self._firsts = first_offsets(self.unfinished())
        return self._firsts

    def finish_at(self, position: int) -> bool:
        """Finish one message. Return whether all are finished."""
        if self.done is _NONE:
            self.done = set()
        cast("set[int]", self.done).add(position)
        self._firsts = None
        return len(self.done) == len(self.messages)


class _Chunk(Generic[M]):
    """Messages fetched together; those from `begin` on are unread."""

    __slots__ = ("_firsts", "begin", "messages", "returned")

    def __init__(self, messages: list[M], *, returned: bool = False) -> None:
        self.messages = messages
        # Given back by bodies that did not finish.
        self.returned = returned
        self.begin = 0
        self._firsts: dict[PartitionKey, int] | None = None

    def __len__(self) -> int:
        return len(self.messages) - self.begin

    def first(self, count: int) -> list[M]:
        if self.begin == 0 and count >= len(self.messages):
            return self.messages
        return self.messages[self.begin : self.begin + count]

    def pass_over(self, count: int) -> int:
        """Advance by at most `count`. Return by how many."""
        self._firsts = None
        begin, self.begin = self.begin, min(self.begin + count, len(self.messages))
        return self.begin - begin

    def unread(self) -> list[M]:
        return self.messages[self.begin :] if self.begin else self.messages

    def firsts(self) -> Mapping[PartitionKey, int]:
        if self._firsts is None:
            self._firsts = first_offsets(self.unread())
        return self._firsts


@dataclass(slots=True)
class _PartitionState:
    """One owned partition in its present run."""

    # Messages with a smaller ticket belong to an earlier run.
    barrier: int
    # The start of the run, and the offset behind all fetched messages; None while unknown.
    start: int | None = None
    end: int | None = None
    # The application chose the start: offsets below count as finished.
    moved: bool = False
    # The last committed offset, if known.
    committed: int | None = None


class OffsetTracker(Generic[M]):
    """The records of one consumer, over all its partitions."""

    def __init__(self) -> None:
        self._states: dict[PartitionKey, _PartitionState] = {}
        self._chunks: deque[_Chunk[M]] = deque()
        self._works: dict[int, InFlight[M]] = {}
        # Messages in flight that lost a partition: their effects must not count.
        self._revoked_in_flight: dict[int, InFlight[M]] = {}
        # Records finished one by one, by id.
        self._handles: dict[int, tuple[InFlight[M], int]] = {}
        self._tickets = 0
        self.unread = 0
        # Transactions commit the offsets: none is due.
        self.left_to_transactions = False

    # -- partitions

    @property
    def places(self) -> list[PartitionKey]:
        return list(self._states)

    def owns(self, place: PartitionKey) -> bool:
        return place in self._states

    def assign(self, starts: Mapping[PartitionKey, int | None]) -> None:
        """Track these partitions from now on, each from its start offset if known."""
        for place, start in starts.items():
            self._states[place] = _PartitionState(barrier=self._tickets, start=start, end=start)
            self._forget(place)

    def revoke(self, places: Iterable[PartitionKey]) -> None:
        """Drop these partitions: unread messages go, messages in flight do not count."""
        for place in places:
            for work in self._works.values():
                # Messages finished one by one have no body with an end.
                held = not work.one_by_one and self._is_current(work, place)
                if held and place in work.firsts():
                    self._revoked_in_flight[work.ticket] = work
            if self._states.pop(place, None) is not None:
                self._forget(place)

    def move(self, place: PartitionKey, offset: int) -> None:
        """Begin a new run at an offset of the application; offsets below count as finished."""
        assert place in self._states, "only what is owned can be moved"
        self._states[place] = _PartitionState(
            barrier=self._tickets, start=offset, end=offset, moved=True
        )
        self._forget(place)

    def drop_unread(self, places: Collection[PartitionKey]) -> None:
        """Drop the unread messages of these partitions, and move the position back before them."""
        for place in places:
            lane = self._states.get(place)
            if lane is not None:
                lane.end = self.position(place)
        self._filter(lambda message: place_of(message) not in places)

    # -- messages

    def add(self, messages: list[M], ends: Mapping[PartitionKey, int]) -> None:
        """Add fetched messages, in order; `ends` are the positions behind them."""
        if messages:
            self.unread += len(messages)
            self._chunks.append(_Chunk(messages))
        firsts: Mapping[PartitionKey, int] | None = None
        for place, end in ends.items():
            lane = self._states.get(place)
            if lane is None:
                continue
            if lane.start is None:
                if firsts is None:
                    firsts = first_offsets(messages)
                lane.start = firsts.get(place, end)
            lane.end = end

    def take(self, count: int, owner: object, since: float) -> InFlight[M] | None:
        """Take the next messages, at most `count`; None if all are read."""
        if not self._chunks:
            return None
        # Noted before it leaves the queue: a commit must not pass over messages that a signal
        # handler's exception left in neither place.
        messages = self._first(count)
        work = InFlight(self._tickets, messages, owner, since)
        self._works[self._tickets] = work
        self._tickets += 1
        self._pass_over(len(messages))
        return work

    def _first(self, count: int) -> list[M]:
        messages = self._chunks[0].first(count)
        if len(messages) == count or len(self._chunks) == 1:
            return messages
        messages = list(messages)
        for chunk in islice(self._chunks, 1, None):
            messages += chunk.first(count - len(messages))
            if len(messages) == count:
                break
        return messages

    def _pass_over(self, count: int) -> None:
        self.unread -= count
        while count:
            chunk = self._chunks[0]
            count -= chunk.pass_over(count)
            if not len(chunk):
                self._chunks.popleft()

    def finish(self, work: InFlight[M]) -> None:
        """Finish messages whose body has ended."""
        self._revoked_in_flight.pop(work.ticket, None)
        if self._works.pop(work.ticket, None) is not None:
            self._release_handles(work)

    def give_back(self, work: InFlight[M], begin: int = 0) -> None:
        """Make unfinished messages from a position on unread; keep those before in flight."""
        if begin == 0:
            self._revoked_in_flight.pop(work.ticket, None)
        if self._works.get(work.ticket) is not work:
            return
        kept = [
            each
            for at, each in enumerate(work.messages)
            if at >= begin and at not in work.done and self._is_current(work, place_of(each))
        ]
        self._return(kept)
        if begin == 0:
            del self._works[work.ticket]
            self._release_handles(work)
        else:
            assert not work.done, "a batch is cut before it is handed out"
            work.messages = work.messages[:begin]
            work._firsts = None

    def _return(self, messages: list[M]) -> None:
        """Put messages before the unread ones, in order with those returned earlier."""
        if not messages:
            return
        self.unread += len(messages)
        if self._chunks and self._chunks[0].returned:
            messages = [*self._chunks.popleft().unread(), *messages]
        ordered = sorted(messages, key=lambda each: (place_of(each), each.offset()))
        self._chunks.appendleft(_Chunk(ordered, returned=True))

    def skip(self, place: PartitionKey, offset: int) -> bool:
        """Skip one unread message as if finished. Return whether it was there."""
        before = self.unread
        self._filter(lambda each: each.offset() != offset or place_of(each) != place)
        return self.unread < before

    # -- finishing one by one

    def expect_each(self, work: InFlight[M], handles: Mapping[int, int]) -> None:
        """Have messages finished by their handles; those without a handle are finished now."""
        work.one_by_one = True
        for handle, position in handles.items():
            self._handles[handle] = (work, position)
        wanted = set(handles.values())
        for position in range(len(work.messages)):
            if position not in wanted and position not in work.done and work.finish_at(position):
                self.finish(work)

    def finish_one(self, handle: int) -> bool:
        """Finish one message. Return whether it is still in flight and in the present run."""
        found = self._handles.pop(handle, None)
        if found is None:
            return False
        work, position = found
        current = self._is_current(work, place_of(work.messages[position]))
        if work.finish_at(position):
            self._works.pop(work.ticket, None)
        return current

    # -- questions

    @property
    def has_in_flight(self) -> bool:
        """Return whether messages are in flight."""
        return bool(self._works)

    @property
    def in_flight(self) -> list[InFlight[M]]:
        """Return the messages in flight, the oldest first."""
        return list(self._works.values())

    def revoked_in_flight(self, owner: object) -> InFlight[M] | None:
        """Return an owner's messages in flight that lost a partition."""
        return next(
            (each for each in self._revoked_in_flight.values() if each.owner is owner), None
        )

    def is_stale(self, place: PartitionKey, offset: int) -> bool:
        """Return whether a commit would move the group's offset back: another member may have read
        on. After a seek the application may go back."""
        lane = self._states.get(place)
        if lane is None:
            return True
        return lane.start is not None and not lane.moved and offset <= lane.start

    def covers(self, offsets: Mapping[PartitionKey, int], caller: object) -> bool:
        """Return whether these offsets cover all of the caller's messages in flight."""
        return all(
            _lies_below(work, offsets)
            for work in self._works.values()
            if work.owner is caller and not work.one_by_one
        )

    def is_with_others(self, caller: object) -> bool:
        """Return whether messages are in flight, and none with the caller."""
        works = [each for each in self._works.values() if not each.one_by_one]
        return bool(works) and not any(each.owner is caller for each in works)

    def holds(self, work: InFlight[M]) -> bool:
        """Return whether messages are still in flight, with some of a present run."""
        return self._works.get(work.ticket) is work

    def started_before(self, moment: float) -> list[InFlight[M]]:
        """Return messages in flight since before a moment, the oldest first."""
        found = []
        for work in self._works.values():
            if work.since >= moment:
                break
            found.append(work)
        return found

    def in_flight_of(self, places: Collection[PartitionKey]) -> list[InFlight[M]]:
        """Return messages in flight that are unfinished in these partitions."""
        return [
            work
            for work in self._works.values()
            if any(each in places and self._is_current(work, each) for each in work.firsts())
        ]

    def position(self, place: PartitionKey) -> int | None:
        """Return the next offset to read, if known."""
        lane = self._states.get(place)
        unread = [chunk.firsts()[place] for chunk in self._chunks if place in chunk.firsts()]
        if unread:
            return min(unread)
        return None if lane is None else lane.end

    def ends(self) -> dict[PartitionKey, int | None]:
        """Return the offsets behind all fetched messages, if known."""
        return {place: lane.end for place, lane in self._states.items()}

    def finished(self, but: object = None) -> dict[PartitionKey, int]:
        """Return the first unfinished offset of partitions with finished records. The messages of
        owner `but` count as finished, unless finished one by one."""
        firsts: dict[PartitionKey, int] = {}
        for work in self._works.values():
            if but is not None and work.owner is but and not work.one_by_one:
                continue
            for place, offset in work.firsts().items():
                if self._is_current(work, place):
                    firsts[place] = min(offset, firsts.get(place, offset))
        for chunk in self._chunks:
            for place, offset in chunk.firsts().items():
                firsts[place] = min(offset, firsts.get(place, offset))
        found = {}
        for place, lane in self._states.items():
            offset_or_none = firsts.get(place, lane.end)
            if offset_or_none is None or lane.start is None:
                continue
            if lane.moved or offset_or_none > lane.start:
                found[place] = offset_or_none
        return found

    # -- commits

    def due(self) -> dict[PartitionKey, int]:
        """Return finished offsets that are not known to be committed. A later commit by the
        application is not taken back."""
        found: dict[PartitionKey, int] = {}
        if self.left_to_transactions:
            return found
        for place, offset in self.finished().items():
            noted = self._states[place].committed
            if noted is None or offset > noted:
                found[place] = offset
        return found

    def record_committed(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Record committed offsets."""
        for place, offset in offsets.items():
            lane = self._states.get(place)
            if lane is not None:
                lane.committed = offset

    def finish_below(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Finish messages in flight below these offsets."""
        for work in list(self._works.values()):
            if _lies_below(work, offsets):
                self.finish(work)
                continue
            for position, message in enumerate(work.messages):
                at = offsets.get(place_of(message))
                if at is not None and message.offset() < at and work.finish_at(position):
                    self.finish(work)

    # -- inside

    def _is_current(self, work: InFlight[M], place: PartitionKey) -> bool:
        lane = self._states.get(place)
        return lane is not None and work.ticket >= lane.barrier

    def _forget(self, place: PartitionKey) -> None:
        """Drop unread messages of a partition, and messages in flight without another partition."""
        self._filter(lambda message: place_of(message) != place)
        for work in list(self._works.values()):
            if place in work.firsts() and not any(
                self._is_current(work, each) for each in work.firsts()
            ):
                del self._works[work.ticket]
                self._release_handles(work)

    def _filter(self, keep: Callable[[M], bool]) -> None:
        kept: deque[_Chunk[M]] = deque()
        for chunk in self._chunks:
            messages = [message for message in chunk.unread() if keep(message)]
            if messages:
                kept.append(_Chunk(messages, returned=chunk.returned))
        self._chunks = kept
        self.unread = sum(map(len, kept))

    def _release_handles(self, work: InFlight[M]) -> None:
        if self._handles and work.records:
            for record in work.records:
                self._handles.pop(id(record), None)
