"""Reads options one by one: each has a name, a form, and a sentence for a wrong value."""

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

TRUE, FALSE = ("true",), ("false",)
UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
# The similarity of names that may be misspelt, and of names that surely are; 1 is equality.
ALIKE, MISSPELT = 0.75, 0.9
SAID_MAX = 1_000  # a process that reads options for ever must not remember them all

logger = logging.getLogger("penstock.spark")
_said: set[str] = set()


class BadOption(ValueError):
    """An option is missing, unknown or wrong; the text names it and its values."""


class OptionBag:
    """The options of one read or write; their names ignore case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else str(value)

    def whole(self, name: str, default: int | None = None, at_least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value.strip())
        except ValueError:
            raise BadOption(f"{name} is {value!r}; it takes a whole number") from None
        if number < at_least:
            raise BadOption(f"{name} is {number}; it must be at least {at_least}")
        return number

    def number(self, name: str, default: int, at_least: int = 0) -> int:
        value = self.whole(name, default, at_least)
        assert value is not None, "a default was given"
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word not in (*TRUE, *FALSE):
            raise BadOption(f"{name} is {value!r}; it takes true or false")
        return word in TRUE

    def choice(self, name: str, words: tuple[str, ...], default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word not in words:
            raise BadOption(f"{name} is {value!r}; it takes {', '.join(words)}")
        return word

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Parse Spark's time strings: 15m, 100ms, 2h; a bare number is milliseconds."""
        value = self.text(name)
        if value is None:
            return default_ms
        word = value.strip().lower()
        digits = word.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = word[len(digits) :].strip() or "ms"
        if not digits.isdecimal() or unit not in UNITS_MS:
            raise BadOption(f"{name} is {value!r}; it takes a time such as 100ms, 30s or 15m")
        return int(digits) * UNITS_MS[unit]

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return the options with this prefix, without it."""
        return {
            name[len(prefix) :]: str(value)
            for name, value in self._values.items()
            if name.startswith(prefix)
        }

    def names(self) -> list[str]:
        return sorted(self._values)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values


def likeness(name: str, names: Sequence[str], least: float = ALIKE) -> str | None:
    """Return the name that this one probably stands for."""
    by_lower = {each.lower(): each for each in names}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=least)
    return by_lower[found[0]] if found else None


def warn_once(sentence: str) -> None:
    """Log a warning once per process: options are read again and again."""
    if sentence in _said:
        return
    if len(_said) >= SAID_MAX:
        _said.clear()
    _said.add(sentence)
    logger.warning("%s", sentence)


def pass_over_unknown(
    bag: OptionBag, known: Sequence[str], ours: Sequence[str], silent: Sequence[str], side: str
) -> None:
    """Ignore unknown names with a warning, as Spark's Kafka source and sink do.

    A name that resembles an option of Penstock alone (`ours`) is an error: the job was
    written for this very `side`, and would promise something else without the option.
    """
    taken = {name.lower() for name in (*known, *silent)}
    for name in bag.names():
        if name in taken or name.startswith("kafka."):
            continue
        meant = likeness(name, ours)
        if meant is not None:
            raise BadOption(f"there is no option {name}; is {meant} meant?")
        near = likeness(name, known)
        hint = f"; is {near} meant?" if near else f"; the {side} takes {', '.join(known)}"
        warn_once(f"the option {name} is not known to the {side} and has no effect{hint}")
