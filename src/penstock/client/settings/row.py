"""What one key is: its type and limits, what becomes of it here, and the words that say so."""

from enum import StrEnum
from typing import NamedTuple

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Fate(StrEnum):
    PASSED = "passed on"
    TRANSLATED = "translated"
    OURS = "done here"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


class Kind(StrEnum):
    BOOLEAN = "boolean"
    WHOLE = "whole number"
    NUMBER = "number"
    TEXT = "text"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"
    CALLBACK = "function"


class Row(NamedTuple):
    """One key of one client."""

    name: str
    kind: Kind
    fate: Fate
    # What it does here; of a refused key the way out, of one without effect the reason.
    about: str
    default: str = ""
    low: int | None = None
    high: int | None = None
    words: tuple[str, ...] = ()
    # librdkafka's name, where it is another one and the value is the same.
    becomes: str = ""
    # What librdkafka takes; values beyond are brought to the bound, and that is said.
    least: int | None = None
    most: int | None = None
    # A value that changes nothing even where the key is refused.
    harmless: tuple[str, ...] = ()


BOOLEAN = Kind.BOOLEAN
WHOLE = Kind.WHOLE
NUMBER = Kind.NUMBER
TEXT = Kind.TEXT
LIST = Kind.LIST
CLASS = Kind.CLASS
PASSWORD = Kind.PASSWORD
CALLBACK = Kind.CALLBACK
PASSED = Fate.PASSED
TRANSLATED = Fate.TRANSLATED
OURS = Fate.OURS
NO_EFFECT = Fate.NO_EFFECT
REFUSED = Fate.REFUSED
