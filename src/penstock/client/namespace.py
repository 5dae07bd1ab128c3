"""Environments on one cluster: a prefix before the names of topics, groups and transactional ids.

Clients with the namespace `dev.` write to `dev.orders` when they say `orders`, and see `orders`
when they are told of `dev.orders`; names of others are hidden. The topics that the cluster keeps
for itself (`__consumer_offsets` and its kin) keep their names and are seen from every namespace.
It keeps environments from meeting by accident and is no security boundary: who may connect may use
any prefix. ACLs on prefixed names are the boundary.

A prefix that begins another one sees what is in it: `dev` the topics of `dev2.`, as `2.orders`. A
dot, a dash or an underscore at its end keeps such from meeting by accident; `dev.` and `dev.anna.`
are a namespace within a namespace.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.errors import InvalidTopic

NAME_CHARACTERS_MAX = 249
CLUSTER_TOPICS = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)
CLUSTER_PREFIX = "__"
_LEGAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class BadNamespace(ValueError):
    """The prefix cannot begin a name; the text says why."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One prefix; the empty one changes nothing and hides nothing."""

    prefix: str

    def __post_init__(self) -> None:
        strange = sorted(set(self.prefix) - _LEGAL)
        if strange:
            raise BadNamespace(
                f"namespace {self.prefix!r} has {strange[0]!r} in it; use letters, digits, dots, "
                "underscores and dashes, e.g. dev."
            )
        if len(self.prefix) >= NAME_CHARACTERS_MAX:
            raise BadNamespace(
                f"namespace {self.prefix[:20]}... leaves no room for a name: a topic's name has at "
                f"most {NAME_CHARACTERS_MAX} characters"
            )
        # With `__consumer_` before it a topic `offsets` would be one of the cluster's own.
        if self.prefix.startswith(CLUSTER_PREFIX):
            raise BadNamespace(
                f"namespace {self.prefix!r} begins with {CLUSTER_PREFIX}, as the cluster's own "
                "topics do; choose another beginning"
            )

    def __bool__(self) -> bool:
        return bool(self.prefix)

    def add(self, name: str) -> str:
        """The name on the cluster, of a topic, a group or a transactional id."""
        return name if name in CLUSTER_TOPICS else self.prefix + name

    def add_topic(self, name: str) -> str:
        """As `add`, and InvalidTopic where the whole is too long for a topic."""
        full = self.add(name)
        if len(full) > NAME_CHARACTERS_MAX:
            raise InvalidTopic(
                f"topic {full[:40]}... has {len(full)} characters with its namespace "
                f"{self.prefix!r}; at most {NAME_CHARACTERS_MAX} are legal"
            )
        return full

    def strip(self, name: str) -> str | None:
        """The name as it is said in this namespace; None if it belongs to another."""
        if not self.prefix or name in CLUSTER_TOPICS:
            return name
        if not name.startswith(self.prefix):
            return None
        rest = name[len(self.prefix) :]
        # Nobody here can say these: an empty name, or one that means the cluster's own topic.
        return None if not rest or rest in CLUSTER_TOPICS else rest

    def own(self, names: Iterable[str]) -> list[str]:
        """Those of the names that belong here, stripped, in their order."""
        stripped = (self.strip(name) for name in names)
        return [name for name in stripped if name is not None]

    def add_pattern(self, pattern: str) -> str:
        """A regular expression over names here, as one over names on the cluster.

        It matches from the beginning of a name, whether it says `^` or not.
        """
        if not self.prefix:
            return pattern
        # Dots are the only signs that are legal in a name and mean something in a pattern.
        prefix = self.prefix.replace(".", "\\.")
        choices = (choice.removeprefix("^") for choice in _alternatives(pattern))
        return f"^{prefix}({'|'.join(choices)})"


def _alternatives(pattern: str) -> Iterator[str]:
    """The parts between the outermost `|` of a regular expression."""
    begin = depth = position = 0
    in_class = False
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\":
            position += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
            # Right behind the opening, or behind its `^`, a closing bracket is a plain character.
            position += 1 if pattern.startswith("^", position + 1) else 0
            position += 1 if pattern.startswith("]", position + 1) else 0
        elif sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
        elif sign == "|" and depth == 0:
            yield pattern[begin:position]
            begin = position + 1
        position += 1
    yield pattern[begin:]


NO_NAMESPACE = Namespace("")


def namespace_of(said: "str | Namespace | None") -> Namespace:
    """What a client was given, as a namespace."""
    if isinstance(said, Namespace):
        return said
    return Namespace(said) if said else NO_NAMESPACE
