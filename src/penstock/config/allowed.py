"""Limits on values: ranges, choices, lists of choices."""

import re
from typing import NamedTuple

from penstock.config.key import LONG_MAX, Value

_PAIRS = re.compile(r"(?:\d+:\d+,)*\d+:\d+")


class Between(NamedTuple):
    """A number between two others, both included; `beside` is one more allowed value."""

    low: int | float
    high: int | float | None = None
    beside: int | None = None

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, int | float), "limits on numbers belong to numeric keys"
        if value == self.beside:
            return None
        allowed = "" if self.high is None else f"; allowed is {self.text()}"
        if value < self.low:
            return f"Value must be at least {self.low}{allowed}"
        if self.high is not None and value > self.high:
            return f"Value must be no more than {self.high}{allowed}"
        return None

    def text(self) -> str:
        words = f"at least {self.low}" if self.high is None else f"{self.low} to {self.high}"
        return words if self.beside is None else f"{words}, or {self.beside}"


class OneOf(NamedTuple):
    """One word of a few."""

    words: tuple[str, ...]
    any_case: bool = False

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, str), "choices belong to string keys"
        if value in self.words or (self.any_case and value.lower() in self.words):
            return None
        cases = " (case insensitive)" if self.any_case else ""
        return f"String must be one of{cases}: {', '.join(self.words)}"

    def text(self) -> str:
        return "one of " + ", ".join(self.words)


class EachOf(NamedTuple):
    """Allows lists without duplicates whose elements are all in `words`."""

    words: tuple[str, ...]
    may_be_empty: bool = False

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, tuple), "lists of choices belong to list keys"
        if not value and not self.may_be_empty:
            return f"must not be empty; it is {self.text()}"
        if len(set(value)) != len(value):
            return "names something twice"
        if self.stranger(value) is not None:
            return f"String must be one of: {', '.join(self.words)}"
        return None

    def stranger(self, value: Value) -> str | None:
        """Return the first word that is not allowed."""
        assert isinstance(value, tuple), "lists of choices belong to list keys"
        return next((word for word in value if word not in self.words), None)

    def text(self) -> str:
        words = "a list of " + ", ".join(self.words)
        return words + ", or empty" if self.may_be_empty else words


class NotEmpty(NamedTuple):
    """A non-empty string, or no value."""

    def refusal(self, value: Value) -> str | None:
        return "String must be non-empty" if value == "" else None

    def text(self) -> str:
        return "not empty"


class ThrottledReplicas(NamedTuple):
    """`*`, or a list of partition:broker pairs."""

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, tuple), "throttled replicas are a list"
        # One match over the whole list: a value may have thousands of pairs.
        if value in ((), ("*",)) or _PAIRS.fullmatch(",".join(value)):
            return None
        return f"must be {self.text()}"

    def text(self) -> str:
        return "'*' or a list of partition:broker pairs"


class AddressCounts(NamedTuple):
    """A list of address:count pairs."""

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, str), "the pairs are one text"
        try:
            address_counts(value)
        except ValueError:
            return f"must be {self.text()}"
        return None

    def text(self) -> str:
        return "a list of address:count pairs"


def address_counts(text: str) -> dict[str, int]:
    """Return the pairs of such a list; raise ValueError for any other text. Host names are not
    resolved."""
    counts: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        from ipaddress import ip_address  # a node without this setting starts without the import

        host, _, count = pair.rpartition(":")
        counts[str(ip_address(host.strip().strip("[]")))] = int(count)
        if int(count) < 0:
            raise ValueError(pair)
    return counts


_HOST_PORT = re.compile(r"(?:\[([^\]\s]*)\]|([^:/@\s\[\]]*)):([0-9]{1,5})")
_PORT_MAX = 65535


class HostPort(NamedTuple):
    """One address, or nothing."""

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, str), "an address is a text"
        try:
            host_port(value)
        except ValueError:
            return f"must be {self.text()}"
        return None

    def text(self) -> str:
        return "host:port, or empty for none"


def host_port(text: str) -> tuple[str, int] | None:
    """Parse one address; an empty host means every address of this machine. Raise ValueError for
    other texts."""
    if not text.strip():
        return None
    match = _HOST_PORT.fullmatch(text.strip())
    if match is None or int(match[3]) > _PORT_MAX:
        raise ValueError(text)
    return match[1] or match[2] or "", int(match[3])


class OffsetReset(NamedTuple):
    """The start of a reader without a committed offset; a duration in Java's notation, not
    negative."""

    key: str

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, str), "it is a word"
        if value in ("earliest", "latest"):
            return None
        word, _, text = value.partition(":")
        seconds = _java_seconds(text) if word == "by_duration" else None
        if seconds is not None and 0 <= seconds <= LONG_MAX:
            return None
        return (
            f"Invalid value `{value}` for configuration {self.key}. The value must be either "
            "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )

    def text(self) -> str:
        return "earliest, latest or by_duration:PnDTnHnMn.nS"


_JAVA_DURATION = (
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?"
    r"(?:([-+]?\d+(?:\.\d{0,9})?)S)?)?"
)


def _java_seconds(text: str) -> float | None:
    """Return the seconds of a duration such as P1DT2H3M4.5S; None for other texts."""
    match = re.fullmatch(_JAVA_DURATION, text.replace(",", "."), re.ASCII | re.IGNORECASE)
    if match is None:
        return None
    sign, days, hours, minutes, seconds = match.groups()
    parts = (days, 86_400), (hours, 3_600), (minutes, 60), (seconds, 1)
    if all(part is None for part, _ in parts):
        return None
    total = sum(float(part or 0) * factor for part, factor in parts)
    return -total if sign == "-" else total


def at_least(low: int) -> Between:
    return Between(low)


def between(low: float, high: float) -> Between:
    return Between(low, high)
