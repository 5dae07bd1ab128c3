"""Reads options one by one: each has a name, a form, and a sentence for what does not fit."""

from collections.abc import Mapping

TRUE, FALSE = ("true",), ("false",)
UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class BadOption(ValueError):
    """An option that is missing, unknown or wrong; the text names it and what it takes."""


class OptionBag:
    """The options of one read or write, whatever the case of their names."""

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
        """Spark's time strings: 15m, 100ms, 2h; a bare number is milliseconds."""
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
        """What follows the prefix, with its values."""
        return {
            name[len(prefix) :]: str(value)
            for name, value in self._values.items()
            if name.startswith(prefix)
        }

    def names(self) -> list[str]:
        return sorted(self._values)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values
