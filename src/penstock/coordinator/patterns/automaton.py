"""Matches whole names against a regular expression, one character after the other.

All paths through the expression are followed at once: a set of nodes, kept as the bits of a number.
Sets that came up before are remembered, so that most characters cost one look-up. The work for a
name is bounded by its length times the number of nodes, for every expression.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.coordinator.patterns.alphabet import (
    BIT,
    OTHER,
    WORD_CHARACTERS,
)
from penstock.coordinator.patterns.syntax import (
    REPEAT_MAX,
    UNLIMITED,
    Alternation,
    Characters,
    Concatenation,
    Node,
    PositionAssertion,
    Repeat,
    parse,
)
from penstock.errors import InvalidRegularExpression

# Any number of names is matched against what a client sends, and a name may cost a look at every
# node for each of its characters. The longest counted repetition of one character fits.
NODES_MAX: Final = REPEAT_MAX + 100
REMEMBERED_MAX: Final = 1000
# Of one search, in looks at eight nodes: some tens of milliseconds. Expressions that people write
# take a few thousand for any number of names, since nearly all steps are remembered.
EFFORT_MAX: Final = 200_000

_ACCEPT: Final = 0  # the node that every path through the expression ends in


class _Around(NamedTuple):
    """The surroundings of a position in the name."""

    begin: bool
    end: bool
    edge: bool  # a character of a word on one side only

    def allows(self, where: str) -> bool:
        match where:
            case "begin":
                return self.begin
            case "end":
                return self.end
            case "edge":
                return self.edge
            case _:
                return not self.edge


class _Nodes:
    """A tree as a network: nodes that take a character, and edges between them that take none."""

    def __init__(self, tree: Node) -> None:
        self.takes: list[int] = [0]  # by node: the characters that it takes
        self.edges: list[list[int]] = [[]]  # by node: where it leads
        self.assertions: dict[int, str] = {}  # nodes that may be passed at such a position only
        self.start = self._add(tree, _ACCEPT)

    def _node(self, takes: int, *edges: int) -> int:
        if len(self.takes) >= NODES_MAX:
            raise InvalidRegularExpression(
                f"the regular expression is too large: more than {NODES_MAX} steps"
            )
        self.takes.append(takes)
        self.edges.append(list(edges))
        return len(self.takes) - 1

    def _add(self, tree: Node, then: int) -> int:
        """Return the node where this part of the expression begins, if `then` follows it."""
        match tree:
            case Characters(bits):
                # No character at all: an edge that leads nowhere.
                return self._node(bits, then) if bits else self._node(0)
            case PositionAssertion(where):
                node = self._node(0, then)
                self.assertions[node] = where
                return node
            case Concatenation(parts):
                for part in reversed(parts):
                    then = self._add(part, then)
                return then
            case Alternation(options):
                return self._node(0, *[self._add(option, then) for option in options])
            case Repeat(part, least, most):
                return self._repeat(part, least, most, then)

    def _repeat(self, part: Node, least: int, most: int, then: int) -> int:
        if most == UNLIMITED:
            again = self._node(0, then)
            inner = self._add(part, again)
            self.edges[again].append(inner)
            then = again if least == 0 else inner
            least = max(0, least - 1)
        else:
            after = then
            for _ in range(most - least):
                then = self._node(0, self._add(part, then), after)
        for _ in range(least):
            before, then = then, self._add(part, then)
            if then == before:
                break  # nothing, however often it comes
        return then


class _State:
    """The nodes that took the last character, and what was found to come after it."""

    __slots__ = ("after", "begin", "matches", "taken", "word")

    def __init__(self, taken: int, *, word: bool, begin: bool = False) -> None:
        self.taken = taken
        self.word = word
        self.begin = begin
        self.after: dict[str, _State] = {}
        self.matches: bool | None = None


class NamePattern:
    """A regular expression, ready to be asked."""

    def __init__(self, text: str) -> None:
        nodes = _Nodes(parse(text))
        self._edges = nodes.edges
        self._assertions = nodes.assertions
        self._first = nodes.start
        self._takers = {
            character: sum(1 << node for node, takes in enumerate(nodes.takes) if takes & bit)
            for character, bit in BIT.items()
        }
        self._consuming = [takes != 0 for takes in nodes.takes]
        self._reached: dict[tuple[int, _Around], int] = {}
        # Eight nodes at a time: which nodes follow them, by their index and their bits.
        self._followers: dict[_Around, list[dict[int, int]]] = {}
        self._text = text
        self.effort = 0  # of this search
        self._forget()

    def search(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names that match; raise InvalidRegularExpression if that takes too long."""
        self.effort = 0
        for name in names:
            if self.matches(name):
                yield name

    def matches(self, name: str) -> bool:
        """Return whether the whole name is what the expression describes."""
        state = self._start
        for character in name:
            state = state.after.get(character) or self._step(state, character)
        if state.matches is None:
            state.matches = self._ends_in(state)
        return state.matches

    def _forget(self) -> None:
        self._start = _State(0, word=False, begin=True)
        self._states: dict[tuple[int, bool], _State] = {}

    def _step(self, state: _State, character: str) -> _State:
        if self.effort > EFFORT_MAX:
            raise InvalidRegularExpression(f"{self._text!r} takes too long to look for")
        self.effort += 1
        if character not in BIT:
            character = OTHER
            if character in state.after:
                return state.after[character]
        word = character in WORD_CHARACTERS
        around = _Around(state.begin, False, state.word != word)
        taken = self._after(state, around) & self._takers[character]
        found = self._states.get((taken, word))
        if found is None:
            if len(self._states) >= REMEMBERED_MAX:
                self._forget()
            found = self._states[taken, word] = _State(taken, word=word)
        state.after[character] = found
        return found

    def _ends_in(self, state: _State) -> bool:
        around = _Around(state.begin, True, state.word)
        return bool(self._after(state, around) & (1 << _ACCEPT))

    def _after(self, state: _State, around: _Around) -> int:
        """Return the nodes that may take the next character; _ACCEPT among them if the text may
        end."""
        if state.begin:
            return self._closure(self._first, around)
        followers = self._followers.get(around)
        if followers is None:
            followers = [{} for _ in range(len(self._edges) // 8 + 1)]
            self._followers[around] = followers
        result = 0
        for index, eight in enumerate(state.taken.to_bytes(len(followers), "little")):
            if eight:
                self.effort += 1
                known = followers[index].get(eight)
                if known is None:
                    known = 0
                    for bit in range(8):
                        if eight >> bit & 1:
                            known |= self._closure(self._edges[index * 8 + bit][0], around)
                    followers[index][eight] = known
                result |= known
        return result

    def _closure(self, node: int, around: _Around) -> int:
        """Return the nodes that take a character, and _ACCEPT, that are reached without one."""
        known = self._reached.get((node, around))
        if known is not None:
            return known
        result, seen, waiting = 0, 1 << node, [node]
        while waiting:
            each = waiting.pop()
            if each == _ACCEPT or self._consuming[each]:
                result |= 1 << each
                continue
            where = self._assertions.get(each)
            if where is not None and not around.allows(where):
                continue
            for following in self._edges[each]:
                if not seen >> following & 1:
                    seen |= 1 << following
                    waiting.append(following)
        self._reached[node, around] = result
        return result
