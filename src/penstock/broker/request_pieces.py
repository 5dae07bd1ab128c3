"""Requests over long lists, cut into pieces that their handlers answer one after the other.

A handler sees a short request and makes a short answer; the answers are joined into one. `Equals`
names the treatment of equal elements of a list.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from enum import Enum, auto
from typing import Any, NamedTuple

from penstock.broker.request import ClientRequest, PieceRequest
from penstock.broker.sliced_work import Slices

ITEMS_PER_PIECE = 100
# An element with long names counts as several: names are hashed, compared and written.
CHARACTERS_PER_ITEM = 300
ITEMS_PER_PAUSE = 250  # while a request is cut
PIECES_UNDER_WAY_MAX = 8  # of one request: pieces that wait for a disk share its rounds

# Handles one piece: returns its response, or None if that comes later.
PieceHandler = Callable[[ClientRequest, Any], Slices[Any]]


class Level(NamedTuple):
    """A list in a request, and the list in its answer that has the same elements."""

    asked: str
    answered: str | None  # None: the answer does not have this level
    # The attributes that name an element; none where elements are names or numbers themselves.
    key: tuple[str, ...] = ()
    answered_key: tuple[str, ...] = ()


class Equals(Enum):
    """The treatment of equal elements of a list."""

    FOLDED = auto()  # one is left: the API asks a question, and its answers name the elements
    APART = auto()  # each is handled by itself, in the order of the request
    # They are an error, which a handler finds if it sees two of them: further ones are left out.
    TOGETHER = auto()


ITEMS_MAX = 1_000_000  # of any list: the codec takes no more
EQUALS_MAX = {Equals.FOLDED: 1, Equals.APART: ITEMS_MAX, Equals.TOGETHER: 2}


class PieceRule(NamedTuple):
    """How the requests of an API are cut: lists within lists, the outermost first."""

    levels: tuple[Level, ...]
    equals: Equals = Equals.FOLDED
    items: int = ITEMS_PER_PIECE  # of the innermost lists, in one piece


def _topics(
    asked_key: str = "name",
    partitions: str = "partitions",
    index: str = "partition_index",
    answered: tuple[str, str] = ("topics", "partitions"),
) -> tuple[Level, ...]:
    """Return the levels of topics and their partitions. Where partitions are plain numbers, `index`
    is empty."""
    return (
        Level("topics", answered[0], (asked_key,), (asked_key,)),
        Level(partitions, answered[1], (index,) if index else ()),
    )


_NAME_OR_ID = ("name", "topic_id")
_RESOURCE = ("resource_type", "resource_name")
_MARKER = (
    "producer_id",
    "producer_epoch",
    "transaction_result",
    "coordinator_epoch",
    "transaction_version",
)
_WITH_IDS = (
    Level("topics", "topics", _NAME_OR_ID, _NAME_OR_ID),
    Level("partitions", "partitions", ("partition_index",)),
)

# By API key. The first cut whose outermost list is not empty counts: versions differ in it.
CUTS: dict[int, tuple[PieceRule, ...]] = {
    2: (PieceRule(_topics(), equals=Equals.TOGETHER),),
    8: (PieceRule(_WITH_IDS, equals=Equals.APART),),
    9: (
        PieceRule(
            (
                Level("groups", "groups", ("group_id", "member_id", "member_epoch"), ("group_id",)),
                Level("topics", "topics", _NAME_OR_ID, _NAME_OR_ID),
                Level("partition_indexes", "partitions"),
            )
        ),
        PieceRule(_topics(partitions="partition_indexes", index="")),
    ),
    10: (PieceRule((Level("coordinator_keys", "coordinators"),)),),
    13: (
        PieceRule(
            (Level("members", "members", ("member_id", "group_instance_id")),), equals=Equals.APART
        ),
    ),
    15: (PieceRule((Level("groups", "groups"),)),),
    20: (
        PieceRule((Level("topics", "responses", _NAME_OR_ID),), equals=Equals.TOGETHER),
        PieceRule((Level("topic_names", "responses"),), equals=Equals.TOGETHER),
    ),
    21: (PieceRule(_topics(), equals=Equals.APART),),
    23: (PieceRule(_topics(asked_key="topic", index="partition"), equals=Equals.APART),),
    24: (
        PieceRule(
            (Level("transactions", "results_by_transaction", ("transactional_id", "producer_id")),),
            equals=Equals.APART,
            items=20,
        ),
    ),
    27: (
        PieceRule(
            (
                Level("markers", "markers", _MARKER, ("producer_id",)),
                Level("topics", "topics", ("name",), ("name",)),
                Level("partition_indexes", "partitions"),
            ),
            items=5,
        ),
    ),
    28: (PieceRule(_topics(), equals=Equals.APART),),
    31: (PieceRule((Level("filters", "filter_results"),), equals=Equals.APART, items=5),),
    32: (PieceRule((Level("resources", "results", (*_RESOURCE, "configuration_keys")),), items=1),),
    33: (
        PieceRule((Level("resources", "responses", _RESOURCE),), equals=Equals.TOGETHER, items=10),
    ),
    34: (
        PieceRule(
            (
                Level("dirs", None, ("path",)),
                Level("topics", "results", ("name",), ("topic_name",)),
                Level("partitions", "partitions"),
            ),
            equals=Equals.APART,
        ),
    ),
    42: (PieceRule((Level("groups_names", "results"),)),),
    43: (
        PieceRule(
            (
                Level("topic_partitions", "replica_election_results", ("topic",), ("topic",)),
                Level("partitions", "partition_result"),
            )
        ),
    ),
    44: (
        PieceRule((Level("resources", "responses", _RESOURCE),), equals=Equals.TOGETHER, items=10),
    ),
    45: (PieceRule(_topics(answered=("responses", "partitions")), equals=Equals.APART),),
    46: (PieceRule(_topics(partitions="partition_indexes", index="")),),
    47: (PieceRule(_topics(), equals=Equals.APART),),
    50: (PieceRule((Level("users", "results", ("name",), ("user",)),), equals=Equals.TOGETHER),),
    49: (PieceRule((Level("entries", "entries"),), equals=Equals.APART),),
    55: (
        PieceRule(
            (
                Level("topics", "topics", ("topic_name",), ("topic_name",)),
                Level("partitions", "partitions", ("partition_index",)),
            )
        ),
    ),
    56: (
        PieceRule(
            (
                Level("topics", "topics", ("topic_id",), ("topic_id",)),
                Level("partitions", "partitions", ("partition_index",)),
            ),
            equals=Equals.APART,
        ),
    ),
    61: (PieceRule(_topics(partitions="partition_indexes", index="")),),
    65: (PieceRule((Level("transactional_ids", "transaction_states"),)),),
    69: (PieceRule((Level("group_ids", "groups"),)),),
    73: (
        PieceRule(
            (
                Level("directories", "directories", ("id",), ("id",)),
                Level("topics", "topics", ("topic_id",), ("topic_id",)),
                Level("partitions", "partitions", ("partition_index",)),
            ),
            equals=Equals.APART,
        ),
    ),
    10_000: (PieceRule(_topics(partitions="partition_indexes", index="")),),
}


def piece_rule_for(api_key: int, message: Any, *, long: bool = True) -> PieceRule | None:
    """Return how to cut a request that is too long for one piece; None for all others. The names of
    a request that is not `long` are short together."""
    for cut in CUTS.get(api_key, ()):
        if getattr(message, cut.levels[0].asked):
            is_too_long = _count(message, cut.levels, cut.items, weigh=long) > cut.items
            return cut if is_too_long else None
    return None


def _count(element: Any, levels: Sequence[Level], enough: int, *, weigh: bool) -> int:
    """Return the number of innermost elements, or some number above `enough`."""
    level = levels[0]
    items = getattr(element, level.asked) or ()
    if len(items) > enough or (len(levels) == 1 and not weigh):
        return len(items)
    total = 0
    for each in items:
        inner = _count(each, levels[1:], enough, weigh=weigh) or 1 if len(levels) > 1 else 1
        total += inner
        if weigh:
            total += _further_items(each, level.key)
        if total > enough:
            break
    return total


def _further_items(item: Any, names: tuple[str, ...]) -> int:
    """Return the number of elements that an element with long names counts for beside itself."""
    values = [getattr(item, name) for name in names] if names else [item]
    return sum(len(each) for each in values if isinstance(each, str)) // CHARACTERS_PER_ITEM


def answer_in_pieces(
    request: ClientRequest, message: Any, cut: PieceRule, handle: PieceHandler
) -> Slices[Any]:
    """Have a request answered piece by piece; return the answers joined in the pieces' order."""
    joined = JoinedAnswer(cut)
    under_way: list[PieceRequest] = []
    waiting: list[Callable[[], None]] = []

    def answered() -> None:
        if waiting and under_way[0].answered:
            waiting.pop()()

    def take() -> Slices[None]:
        if not under_way[0].answered:
            yield waiting.append
        joined.add(under_way.pop(0).response)

    try:
        for piece in pieces(message, cut):
            if piece is None:
                yield None
                continue
            part = PieceRequest(request, answered)
            under_way.append(part)
            response = yield from handle(part, piece)
            if response is not None:
                part.reply(response)
            yield None
            while under_way and (under_way[0].answered or len(under_way) >= PIECES_UNDER_WAY_MAX):
                yield from take()
            if joined.failed:
                break
        while under_way:
            yield from take()
    except GeneratorExit:  # the peer has gone
        request.free_later(joined.response)
        raise
    return joined.response


# The elements of a request from the outermost list inwards; an empty list ends it early.
_Path = tuple[Any, ...]


def pieces(message: Any, cut: PieceRule) -> Iterator[Any]:
    """Yield the pieces of a request, in its order; None where the cutting pauses."""
    piece = _Piece(message, cut.levels)
    for path in _walk([message], cut, 0):
        if path is None:
            yield None
            continue
        together = cut.equals is Equals.TOGETHER and piece.ends_like(path)
        if piece.items >= cut.items and not together:
            yield piece.message
            piece = _Piece(message, cut.levels)
        piece.add(path)
    yield piece.message


def _walk(parents: Sequence[Any], cut: PieceRule, depth: int) -> Iterator[_Path | None]:
    """Yield the paths below equal structures, and None where the walk pauses."""
    level, innermost = cut.levels[depth], depth == len(cut.levels) - 1
    most = EQUALS_MAX[cut.equals] if innermost else ITEMS_MAX
    first: dict[Any, Any] = {}
    further: dict[Any, list[Any]] = {}  # elements equal to the first one of their key
    place = 0
    for parent in parents:
        place += 1
        if not place % ITEMS_PER_PAUSE:
            yield None
        items = getattr(parent, level.asked)
        if items is None:  # a null list asks for all elements
            first.clear()
            break
        for item in items:
            key = _key(item, level.key)
            if not innermost and getattr(item, cut.levels[depth + 1].asked) is None:
                key = (key, None)  # null asks for all partitions: not to be mixed with a list
            if key not in first:
                first[key] = item
            elif len(others := further.setdefault(key, [])) < most - 1:
                others.append(item)
            place += 1
            if not place % ITEMS_PER_PAUSE:
                yield None
    if not first:
        yield ()
    for key, item in first.items():
        same = (item, *further.get(key, ()))
        if innermost:
            yield from ((each,) for each in same)
            continue
        folded = cut.equals is Equals.FOLDED
        for equals in [same] if folded else [(each,) for each in same]:
            for path in _walk(equals, cut, depth + 1):
                yield None if path is None else (equals[0], *path)


def _key(item: Any, names: tuple[str, ...]) -> Any:
    match names:
        case ():
            return item if isinstance(item, str | int) else id(item)
        case (name,):
            return getattr(item, name)
    values = (getattr(item, name) for name in names)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


class _Piece:
    """A request under way: copies of the structures on the paths it was given."""

    def __init__(self, message: Any, levels: tuple[Level, ...]) -> None:
        self.message = copy(message)
        setattr(self.message, levels[0].asked, [])
        self.items = 0
        self._levels = levels
        self._last: _Path = ()
        self._copies: list[Any] = [self.message]

    def add(self, path: _Path) -> None:
        shared = 0
        for ours, theirs in zip(self._last[:-1], path[:-1], strict=False):
            if ours is not theirs:
                break
            shared += 1
        del self._copies[shared + 1 :]
        for depth in range(shared, len(path)):
            item = path[depth]
            if depth < len(self._levels) - 1 and getattr(item, self._levels[depth + 1].asked):
                item = copy(item)
                setattr(item, self._levels[depth + 1].asked, [])
            level = self._levels[depth]
            getattr(self._copies[depth], level.asked).append(item)
            self._copies.append(item)
            self.items += _further_items(item, level.key)
        self._last = path
        self.items += 1

    def ends_like(self, path: _Path) -> bool:
        """Return whether the last element is equal to this one in its innermost list."""
        if not len(self._last) == len(path) == len(self._levels):
            return False
        if any(ours is not theirs for ours, theirs in zip(self._last[:-1], path[:-1], strict=True)):
            return False
        key = self._levels[len(path) - 1].key
        return bool(_key(self._last[-1], key) == _key(path[-1], key))


class JoinedAnswer:
    """The answer to a whole request, put together from those to its pieces."""

    def __init__(self, cut: PieceRule) -> None:
        self._levels = [level for level in cut.levels if level.answered is not None]
        self._known: dict[tuple[Any, ...], Any] = {}
        self.response: Any = None

    def add(self, response: Any) -> None:
        if self.response is None:
            self.response = response
            self._learn(response, 0, ())
        else:
            self._merge(self.response, response, 0, ())
            wait_ms = getattr(response, "throttle_time_ms", 0)
            if wait_ms > getattr(self.response, "throttle_time_ms", 0):
                self.response.throttle_time_ms = wait_ms

    @property
    def failed(self) -> bool:
        """Return whether a piece was rejected as a whole; its error is then the whole answer."""
        return bool(getattr(self.response, "error_code", 0))

    def _learn(self, entry: Any, depth: int, path: tuple[Any, ...]) -> None:
        """Remember the entries that a later piece may go on with."""
        self._known[path] = entry
        if depth < len(self._levels) - 1:
            level = self._levels[depth]
            for each in getattr(entry, level.answered or "") or ():
                self._learn(each, depth + 1, (*path, _key(each, level.answered_key)))

    def _merge(self, into: Any, entry: Any, depth: int, path: tuple[Any, ...]) -> None:
        level = self._levels[depth]
        name = level.answered or ""
        code = getattr(entry, "error_code", 0)
        if code:
            into.error_code = code
        items = getattr(entry, name) or []
        if depth == len(self._levels) - 1:
            getattr(into, name).extend(items)
            return
        for each in items:
            inner = (*path, _key(each, level.answered_key))
            known = self._known.get(inner)
            if known is None:
                getattr(into, name).append(each)
                self._learn(each, depth + 1, inner)
            else:
                self._merge(known, each, depth + 1, inner)
