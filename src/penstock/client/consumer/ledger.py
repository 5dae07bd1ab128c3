"""What a consumer has in hand, and so what it may commit: bookkeeping without threads or clocks.

A record of an owned partition is unread, or in the hands of a body, or finished. `finished()` says
per partition which offset is the first that is not finished; nothing later is ever committed.

Invariants: a partition's unread records are of its newest run, where a run begins with an
assignment or a seek; work that was handed out in an earlier run neither counts nor holds back; what
is given back unfinished is read again. The engine calls every method with its lock held.

Messages are librdkafka's. To ask each one for its place costs more than to hand it on, so they are
asked only when somebody wants to know.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from operator import methodcaller
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

# Of work that was never handed out: a batch of nothing.
NO_TICKET = -1

# A partition as librdkafka names it: with the namespace's prefix.
Place: TypeAlias = tuple[str, int]


class Message(Protocol):
    """What the ledger asks of librdkafka's message. One without an error has all three."""

    def topic(self) -> Any: ...
    def partition(self) -> Any: ...
    def offset(self) -> Any: ...


M = TypeVar("M", bound=Message)

_topic = methodcaller("topic")
_partition = methodcaller("partition")
_offset = methodcaller("offset")


def place_of(message: Message) -> Place:
    return (message.topic(), message.partition())


def last_offsets(messages: Sequence[Message]) -> dict[Place, int]:
    """Of each partition the offset of its last message here; without a step of Python's per one."""
    places = zip(map(_topic, messages), map(_partition, messages), strict=True)
    return dict(zip(places, map(_offset, messages), strict=True))


def first_offsets(messages: Sequence[Message]) -> dict[Place, int]:
    """Of each partition the offset of its first message here."""
    return last_offsets(messages[::-1])


def _lies_below(work: "Work[Any]", offsets: Mapping[Place, int]) -> bool:
    """Whether a commit of these holds all of it."""
    lasts = last_offsets(work.messages)
    return all(offsets.get(place, 0) > last for place, last in lasts.items())


# Most work is finished together.
_NONE: frozenset[int] = frozenset()


class Work(Generic[M]):
    """Messages in the hands of one body, which finishes them together or one by one."""

    __slots__ = (
        "_firsts",
        "done",
        "ended",
        "failure",
        "held",
        "messages",
        "one_by_one",
        "over",
        "owner",
        "records",
        "since",
        "ticket",
    )

    def __init__(self, ticket: int, messages: list[M], owner: object, since: float) -> None:
        self.ticket = ticket
        self.messages = messages
        # Positions in `messages` that were finished one by one, if they are.
        self.one_by_one = False
        self.done: AbstractSet[int] = _NONE
        # Who works on it and since when, whether he still does, and why it was taken from him.
        self.owner = owner
        self.since = since
        self.ended = False
        self.failure: Exception | None = None
        # Whether a loop has it, and gives it back if it is left.
        self.held = False
        # A loop has asked for the next: the messages go while those come.
        self.over = False
        # What the body got; kept so that a record stands for itself and not for an equal one.
        self.records: Sequence[object] = ()
        self._firsts: dict[Place, int] | None = None

    def unfinished(self) -> list[M]:
        if not self.done:
            return self.messages
        return [each for at, each in enumerate(self.messages) if at not in self.done]

    def firsts(self) -> Mapping[Place, int]:
        """Of each partition the first offset here that is not finished."""
        if self._firsts is None:
            self._firsts = first_offsets(self.unfinished())
        return self._firsts

    def finish_at(self, position: int) -> bool:
        """Finish one message; whether all are now."""
        if self.done is _NONE:
            self.done = set()
        cast("set[int]", self.done).add(position)
        self._firsts = None
        return len(self.done) == len(self.messages)


class _Chunk(Generic[M]):
    """Messages that came together; those from `begin` on are unread."""

    __slots__ = ("_firsts", "begin", "messages", "returned")

    def __init__(self, messages: list[M], *, returned: bool = False) -> None:
        self.messages = messages
        # Given back by bodies that did not finish them.
        self.returned = returned
        self.begin = 0
        self._firsts: dict[Place, int] | None = None

    def __len__(self) -> int:
        return len(self.messages) - self.begin

    def first(self, count: int) -> list[M]:
        if self.begin == 0 and count >= len(self.messages):
            return self.messages
        return self.messages[self.begin : self.begin + count]

    def pass_over(self, count: int) -> int:
        """So many at most; how many there were."""
        self._firsts = None
        begin, self.begin = self.begin, min(self.begin + count, len(self.messages))
        return self.begin - begin

    def unread(self) -> list[M]:
        return self.messages[self.begin :] if self.begin else self.messages

    def firsts(self) -> Mapping[Place, int]:
        if self._firsts is None:
            self._firsts = first_offsets(self.unread())
        return self._firsts


@dataclass(slots=True)
class _Lane:
    """One owned partition in its present run."""

    # Work with a smaller ticket was handed out in an earlier run.
    barrier: int
    # Where the run began, and the offset behind all that was fetched; None while not known.
    start: int | None = None
    end: int | None = None
    # The application said where to read: that counts as finished up to there.
    moved: bool = False
    # What is known to be committed.
    noted: int | None = None


class Ledger(Generic[M]):
    """Of one consumer, over all its partitions."""

    def __init__(self) -> None:
        self._lanes: dict[Place, _Lane] = {}
        self._chunks: deque[_Chunk[M]] = deque()
        self._works: dict[int, Work[M]] = {}
        # Of work that is still done, what lost a partition meanwhile: its effects must not count.
        self._parted: dict[int, Work[M]] = {}
        # Records that are finished one by one, by their identity.
        self._handles: dict[int, tuple[Work[M], int]] = {}
        self._tickets = 0
        self.unread = 0
        # Offsets are committed by somebody else: nothing is due.
        self.left_to_transactions = False

    # -- partitions

    @property
    def places(self) -> list[Place]:
        return list(self._lanes)

    def owns(self, place: Place) -> bool:
        return place in self._lanes

    def assign(self, starts: Mapping[Place, int | None]) -> None:
        """These are owned from now on; where their first offset is known, it is said."""
        for place, start in starts.items():
            self._lanes[place] = _Lane(barrier=self._tickets, start=start, end=start)
            self._forget(place)

    def revoke(self, places: Iterable[Place]) -> None:
        """These are owned no longer: what is unread goes, what is in hand does not count."""
        for place in places:
            for work in self._works.values():
                # What is finished one by one has no body whose end would be heard of.
                held = not work.one_by_one and self._is_current(work, place)
                if held and place in work.firsts():
                    self._parted[work.ticket] = work
            if self._lanes.pop(place, None) is not None:
                self._forget(place)

    def move(self, place: Place, offset: int) -> None:
        """The application reads on from here: a new run. It counts as finished up to here."""
        assert place in self._lanes, "only what is owned can be moved"
        self._lanes[place] = _Lane(barrier=self._tickets, start=offset, end=offset, moved=True)
        self._forget(place)

    def drop_unread(self, places: Collection[Place]) -> None:
        """Hand nothing of these out any more; the position is where it was before them."""
        for place in places:
            lane = self._lanes.get(place)
            if lane is not None:
                lane.end = self.position(place)
        self._filter(lambda message: place_of(message) not in places)

    # -- the way of a record

    def add(self, messages: list[M], ends: Mapping[Place, int]) -> None:
        """Fetched, in order; `ends` are the positions behind them, of partitions that moved."""
        # In this order: an interrupted reader begins again before what is noted as unread here.
        if messages:
            self.unread += len(messages)
            self._chunks.append(_Chunk(messages))
        firsts: Mapping[Place, int] | None = None
        for place, end in ends.items():
            lane = self._lanes.get(place)
            if lane is None:
                continue
            if lane.start is None:
                if firsts is None:
                    firsts = first_offsets(messages)
                lane.start = firsts.get(place, end)
            lane.end = end

    def take(self, count: int, owner: object, since: float) -> Work[M] | None:
        """The next messages, at most so many; None if all are read."""
        if not self._chunks:
            return None
        # Noted before it is taken away: a signal in between must not lose it.
        messages = self._first(count)
        work = Work(self._tickets, messages, owner, since)
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

    def take_back(self, owner: object) -> None:
        """He was interrupted between two bodies: what he does not hold is read again."""
        self._chunks = deque(chunk for chunk in self._chunks if len(chunk))
        self.unread = sum(map(len, self._chunks))
        for work in self.in_hand:
            if work.owner is owner and not work.held:
                self.give_back(work)

    def finish(self, work: Work[M]) -> None:
        """Its body has ended."""
        self._parted.pop(work.ticket, None)
        if self._works.pop(work.ticket, None) is not None:
            self._release_handles(work)

    def give_back(self, work: Work[M], begin: int = 0) -> None:
        """What is unfinished from a position on will be read again; what is before it stays."""
        if begin == 0:
            self._parted.pop(work.ticket, None)
        if self._works.get(work.ticket) is not work:
            return
        kept = [
            each
            for at, each in enumerate(work.messages)
            if at >= begin and at not in work.done and self._is_current(work, place_of(each))
        ]
        # Unread before it is out of hand: a signal in between must not lose it.
        self._return(kept)
        if begin == 0:
            del self._works[work.ticket]
            self._release_handles(work)
        else:
            assert not work.done, "a batch is cut before it is handed out"
            work.messages = work.messages[:begin]
            work._firsts = None

    def _return(self, messages: list[M]) -> None:
        """All that is given back comes before the rest, however many bodies have had it. What is
        there already, from a try that was interrupted, stays once."""
        first = self._chunks[0] if self._chunks and self._chunks[0].returned else None
        there = first.unread() if first is not None else []
        known = set(map(id, there))
        missing = [each for each in messages if id(each) not in known]
        if missing:
            ordered = sorted([*there, *missing], key=lambda each: (place_of(each), each.offset()))
            chunk = _Chunk(ordered, returned=True)
            if first is None:
                self._chunks.appendleft(chunk)
            else:
                self._chunks[0] = chunk
        self.unread = sum(map(len, self._chunks))

    def skip(self, place: Place, offset: int) -> bool:
        """Pass over one unread message, as if it were finished; whether it was there."""
        before = self.unread
        self._filter(lambda each: each.offset() != offset or place_of(each) != place)
        return self.unread < before

    # -- finishing one by one

    def expect_each(self, work: Work[M], handles: Mapping[int, int]) -> None:
        """Each of these is finished by its own handle; positions without one are finished now."""
        work.one_by_one = True
        for handle, position in handles.items():
            self._handles[handle] = (work, position)
        wanted = set(handles.values())
        for position in range(len(work.messages)):
            if position not in wanted and position not in work.done and work.finish_at(position):
                self.finish(work)

    def finish_one(self, handle: int) -> bool:
        """Whether it still counts: it was in hand, and its partition is in the same run."""
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
    def is_worked_on(self) -> bool:
        """Whether something is in hand."""
        return bool(self._works)

    @property
    def in_hand(self) -> list[Work[M]]:
        """What bodies work on, the oldest first."""
        return list(self._works.values())

    def parted(self, owner: object) -> Work[M] | None:
        """What somebody still works on although a partition of it went elsewhere."""
        return next((each for each in self._parted.values() if each.owner is owner), None)

    def is_stale(self, place: Place, offset: int) -> bool:
        """Whether a commit of this would take back what the group had when the partition came:
        another member has read on meanwhile. Who moves a partition himself may go back."""
        lane = self._lanes.get(place)
        if lane is None:
            return True
        return lane.start is not None and not lane.moved and offset <= lane.start

    def covers(self, offsets: Mapping[Place, int], caller: object) -> bool:
        """Whether these hold all that the caller has in hand: what others have before it would
        keep them back."""
        return all(
            _lies_below(work, offsets)
            for work in self._works.values()
            if work.owner is caller and not work.one_by_one
        )

    def is_with_others(self, caller: object) -> bool:
        """Whether something is in hand, and nothing of it in the caller's."""
        works = [each for each in self._works.values() if not each.one_by_one]
        return bool(works) and not any(each.owner is caller for each in works)

    def holds(self, work: Work[M]) -> bool:
        """Whether it is still in hand, with something of a present run."""
        return self._works.get(work.ticket) is work

    def since_before(self, moment: float) -> list[Work[M]]:
        """Work in hand that was begun before a moment, the oldest first."""
        found = []
        for work in self._works.values():
            if work.since >= moment:
                break
            found.append(work)
        return found

    def touching(self, places: Collection[Place]) -> list[Work[M]]:
        """Work in hand that has unfinished records of these partitions."""
        return [
            work
            for work in self._works.values()
            if any(each in places and self._is_current(work, each) for each in work.firsts())
        ]

    def position(self, place: Place) -> int | None:
        """The offset that is read next, as far as it is known."""
        lane = self._lanes.get(place)
        unread = [chunk.firsts()[place] for chunk in self._chunks if place in chunk.firsts()]
        if unread:
            return min(unread)
        return None if lane is None else lane.end

    def ends(self) -> dict[Place, int | None]:
        """The offsets behind all that was fetched, as far as they are known."""
        return {place: lane.end for place, lane in self._lanes.items()}

    def finished(self, but: object = None) -> dict[Place, int]:
        """The first offset that is not finished, of partitions where something is. What the owner
        `but` has in hand counts as finished, unless he finishes it one by one."""
        firsts: dict[Place, int] = {}
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
        for place, lane in self._lanes.items():
            offset_or_none = firsts.get(place, lane.end)
            if offset_or_none is None or lane.start is None:
                continue
            if lane.moved or offset_or_none > lane.start:
                found[place] = offset_or_none
        return found

    # -- commits

    def due(self) -> dict[Place, int]:
        """What is finished and not known to be committed. A commit that the application has made
        further on is not taken back."""
        found: dict[Place, int] = {}
        if self.left_to_transactions:
            return found
        for place, offset in self.finished().items():
            noted = self._lanes[place].noted
            if noted is None or offset > noted:
                found[place] = offset
        return found

    def note(self, offsets: Mapping[Place, int]) -> None:
        """These are committed."""
        for place, offset in offsets.items():
            lane = self._lanes.get(place)
            if lane is not None:
                lane.noted = offset

    def finish_below(self, offsets: Mapping[Place, int]) -> None:
        """What is in hand and lies before these is finished, whatever becomes of its body."""
        for work in list(self._works.values()):
            if _lies_below(work, offsets):
                self.finish(work)
                continue
            for position, message in enumerate(work.messages):
                at = offsets.get(place_of(message))
                if at is not None and message.offset() < at and work.finish_at(position):
                    self.finish(work)

    # -- inside

    def _is_current(self, work: Work[M], place: Place) -> bool:
        lane = self._lanes.get(place)
        return lane is not None and work.ticket >= lane.barrier

    def _forget(self, place: Place) -> None:
        """Unread records of a partition go; so does work that has nothing else."""
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

    def _release_handles(self, work: Work[M]) -> None:
        if self._handles and work.records:
            for record in work.records:
                self._handles.pop(id(record), None)
