"""One key of a client: its type and limits, its handling, and its description."""

from enum import StrEnum
from typing import NamedTuple

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class KeyHandling(StrEnum):
    PASSED = "passed on"
    TRANSLATED = "translated"
    OURS = "done here"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


class SettingType(StrEnum):
    BOOLEAN = "boolean"
    WHOLE = "whole number"
    NUMBER = "number"
    TEXT = "text"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"
    CALLBACK = "function"


class SettingRow(NamedTuple):
    """One key of one client."""

    name: str
    kind: SettingType
    fate: KeyHandling
    # The effect here; of a rejected key the next step, of a key without effect the reason.
    about: str
    default: str = ""
    low: int | None = None
    high: int | None = None
    words: tuple[str, ...] = ()
    # librdkafka's name, if it differs and the value is the same.
    becomes: str = ""
    # librdkafka's limits; values beyond are brought to the limit, with a note.
    least: int | None = None
    most: int | None = None
    # Values without an effect, which are accepted even for a rejected key.
    harmless: tuple[str, ...] = ()


BOOLEAN = SettingType.BOOLEAN
WHOLE = SettingType.WHOLE
NUMBER = SettingType.NUMBER
TEXT = SettingType.TEXT
LIST = SettingType.LIST
CLASS = SettingType.CLASS
PASSWORD = SettingType.PASSWORD
CALLBACK = SettingType.CALLBACK
PASSED = KeyHandling.PASSED
TRANSLATED = KeyHandling.TRANSLATED
OURS = KeyHandling.OURS
NO_EFFECT = KeyHandling.NO_EFFECT
REFUSED = KeyHandling.REFUSED
