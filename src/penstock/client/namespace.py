"""Environments on one cluster: a prefix of topics, groups and transactional ids.

A client with the namespace `dev.` writes to `dev.orders` for `orders`, and sees `dev.orders` as
`orders`; names of other namespaces are hidden. The cluster's own topics (`__consumer_offsets` and
others) keep their names and are visible from every namespace. A namespace prevents
accidents and is no security boundary: a client may choose any prefix. ACLs on prefixed names are
the boundary.

A prefix of another prefix sees its names: `dev` sees the topics of `dev2.` as `2.orders`. A dot,
dash or underscore at the end avoids that; `dev.` and `dev.anna.` are a namespace within a
namespace.
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
    """The prefix is invalid; the text says why."""


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
        """Return the full name of a topic, a group or a transactional id."""
        return name if name in CLUSTER_TOPICS else self.prefix + name

    def add_topic(self, name: str) -> str:
        """Return the full name of a topic; raise InvalidTopic if it is too long."""
        full = self.add(name)
        if len(full) > NAME_CHARACTERS_MAX:
            raise InvalidTopic(
                f"topic {full[:40]}... has {len(full)} characters with its namespace "
                f"{self.prefix!r}; at most {NAME_CHARACTERS_MAX} are legal"
            )
        return full

    def strip(self, name: str) -> str | None:
        """Return the name within this namespace; None for another namespace's."""
        if not self.prefix or name in CLUSTER_TOPICS:
            return name
        if not name.startswith(self.prefix):
            return None
        rest = name[len(self.prefix) :]
        # These names are invalid here: an empty one, or one of the cluster's own topics.
        return None if not rest or rest in CLUSTER_TOPICS else rest

    def own(self, names: Iterable[str]) -> list[str]:
        """Return the names of this namespace, stripped, in order."""
        stripped = (self.strip(name) for name in names)
        return [name for name in stripped if name is not None]

    def add_pattern(self, pattern: str) -> str:
        """Return a regular expression over full names.

        The pattern matches from the beginning of a name, with `^` or without.
        """
        if not self.prefix:
            return pattern
        # Only dots are legal in a name and special in a pattern.
        prefix = self.prefix.replace(".", "\\.")
        choices = (choice.removeprefix("^") for choice in _alternatives(pattern))
        return f"^{prefix}({'|'.join(choices)})"


def _alternatives(pattern: str) -> Iterator[str]:
    """Yield the parts between the outermost `|` of a regular expression."""
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
    """Return the namespace of a client's argument."""
    if isinstance(said, Namespace):
        return said
    return Namespace(said) if said else NO_NAMESPACE
