"""One key of a client: its type and limits, its handling, and its description."""

from enum import StrEnum
from functools import partial
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
    """One key of one client: `passed("client.rack", TEXT).described("The rack of ...")`."""

    name: str
    kind: SettingType
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
    fate: KeyHandling = KeyHandling.PASSED
    # The effect here; of a rejected key the next step, of a key without effect the reason.
    about: str = ""

    def described(self, about: str) -> "SettingRow":
        """Return the row with its text."""
        return self._replace(about=about)


passed = SettingRow
translated = partial(SettingRow, fate=KeyHandling.TRANSLATED)
ours = partial(SettingRow, fate=KeyHandling.OURS)
no_effect = partial(SettingRow, fate=KeyHandling.NO_EFFECT)
refused = partial(SettingRow, fate=KeyHandling.REFUSED)

BOOLEAN = SettingType.BOOLEAN
WHOLE = SettingType.WHOLE
NUMBER = SettingType.NUMBER
TEXT = SettingType.TEXT
LIST = SettingType.LIST
CLASS = SettingType.CLASS
PASSWORD = SettingType.PASSWORD
CALLBACK = SettingType.CALLBACK
