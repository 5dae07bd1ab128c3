"""A configuration key: its name, type, default, limits and effect.

The tables in `keys_*.py` are built at every start, so a key is a plain tuple and its limits are
small values; texts for people are built on request.
"""

from enum import IntEnum, StrEnum
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308


class ValueType(IntEnum):
    """The types of values; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Mode(StrEnum):
    """The times at which a broker key may change."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Effect(IntEnum):
    """Whether setting the key has an effect."""

    NOW = 0
    LATER = 1
    NEVER = 2


class Allowed(Protocol):
    """A limit on the values of one key."""

    def refusal(self, value: Value) -> str | None:
        """Return the reason against the value; None if allowed."""
        ...

    def text(self) -> str:
        """Return the allowed values, for people."""
        ...


class Key(NamedTuple):
    """One row of the table: `read_only("node.id", INT, 1).now("The number of this node.")`.

    A row without a text is a key that is known by name and has no effect yet.
    """

    name: str
    type: ValueType
    default: Value
    allowed: Allowed | None = None
    # Keys that give this one its value if not set, with the factor into its unit. For a topic key
    # they are the broker's keys, strongest first.
    synonyms: tuple[tuple[str, int], ...] = ()
    internal: bool = False
    # DescribeConfigs shows the key only where it is set.
    listed_if_set: bool = False
    mode: Mode = Mode.READ_ONLY
    effect: Effect = Effect.LATER
    about: str = ""

    def now(self, about: str) -> "Key":
        """Return the key with its text, as one that has an effect."""
        return self._replace(effect=Effect.NOW, about=about)

    def later(self, about: str) -> "Key":
        """Return the key with its text, as one without an effect yet."""
        return self._replace(about=about)

    def never(self, about: str) -> "Key":
        """Return the key with its text, as one that nothing here needs."""
        return self._replace(effect=Effect.NEVER, about=about)

    @property
    def sensitive(self) -> bool:
        return self.type is ValueType.PASSWORD

    @property
    def documentation(self) -> str:
        """Return one or two sentences, and whether the key has an effect."""
        note = _EFFECT_NOTES[self.effect]
        return f"{self.about} {note}".strip()


_EFFECT_NOTES = {
    Effect.NOW: "",
    Effect.LATER: "Accepted, but without effect yet.",
    Effect.NEVER: "Accepted, but without effect: nothing here needs it.",
}

BOOLEAN = ValueType.BOOLEAN
STRING = ValueType.STRING
INT = ValueType.INT
SHORT = ValueType.SHORT
LONG = ValueType.LONG
DOUBLE = ValueType.DOUBLE
LIST = ValueType.LIST
CLASS = ValueType.CLASS
PASSWORD = ValueType.PASSWORD

# The start of a row, by the times at which its key may change.
read_only = partial(Key, mode=Mode.READ_ONLY)
per_broker = partial(Key, mode=Mode.PER_BROKER)
cluster_wide = partial(Key, mode=Mode.CLUSTER_WIDE)
