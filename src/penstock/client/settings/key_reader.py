"""Reads the keys of a client and checks their values, under Kafka's own names.

Values may be Python's own or text, as in a properties file. An error names the key and the values
that it takes; passwords are never shown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.client.addresses import BootstrapLike, address_problem, join_addresses
from penstock.client.settings import keys_rdkafka
from penstock.client.settings.row import KeyHandling, SettingRow, SettingType
from penstock.client.settings.table import (
    PASSING,
    RETIRED,
    ROWS,
    Client,
    is_for_serdes,
    nearest,
    other_client,
)
from penstock.client.settings.values import Ignored, RdkafkaValue, SettingRefused, SettingValue

NO_LIMIT_MS = 2**31 - 1
PORT_MAX = 65_535


@dataclass(slots=True)
class ConfiguredKeys:
    """The configured keys by Kafka's names; `own` are librdkafka's that pass unchanged."""

    client: Client
    values: dict[str, Any] = field(default_factory=dict)
    own: dict[str, RdkafkaValue] = field(default_factory=dict)
    serde: dict[str, object] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: Any) -> Any:
        return self.values.get(name, default)

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a number; without `default`, the default of the table."""
        value: int | None = self.values.get(name, default)
        return int(ROWS[self.client][name].default) if value is None else value

    def text(self, name: str) -> str | None:
        """Return the text; None if the key is missing or empty."""
        value = self.values.get(name)
        return str(value) if value else None

    def note(self, name: str, why: str) -> None:
        self.notes.append((name, why))

    @property
    def ignored(self) -> Ignored:
        return tuple(self.notes)

    def plain_rdkafka(self) -> dict[str, RdkafkaValue]:
        """Return the keys that librdkafka gets unchanged or under another name."""
        passed: dict[str, RdkafkaValue] = {}
        for name, value in self.values.items():
            row = ROWS[self.client][name]
            # To Kafka empty text is no value; librdkafka rejects it.
            if value != "" and (row.fate is KeyHandling.PASSED or row.becomes):
                passed[row.becomes or name] = self._bounded(row, value)
        return passed

    def _bounded(self, row: SettingRow, value: Any) -> Any:
        bounded = value
        if row.least is not None and value < row.least:
            bounded = row.least
        if row.most is not None and value > row.most:
            bounded = row.most
        # -1 and 0 mean "none"; the bound stands for them.
        if bounded != value and value > 0:
            self.note(row.name, f"{value} is taken as {bounded}, librdkafka's limit")
        return bounded


def read(
    given: Mapping[str, SettingValue] | None, client: Client, bootstrap: BootstrapLike | None = None
) -> ConfiguredKeys:
    """Read and check every key."""
    check_mapping(given)
    found = ConfiguredKeys(client)
    for said, value in (given or {}).items():
        if not isinstance(said, str):
            raise SettingRefused(repr(said), "a key is text, e.g. bootstrap.servers")
        if value is not None:
            _take(found, said, value)
    _take_bootstrap(found, bootstrap)
    return found


def check_mapping(given: object) -> None:
    """Reject settings without keys: an address alone is a common mistake."""
    if given is not None and not isinstance(given, Mapping):
        raise SettingRefused(
            "settings",
            f"are a mapping of Kafka's keys, and {given!r} is none; an address is said as "
            "bootstrap='127.0.0.1:9092'",
        )


def _take_bootstrap(found: ConfiguredKeys, given: BootstrapLike | None) -> None:
    if given is not None:
        bootstrap = join_addresses(given)
        said = found.values.get("bootstrap.servers")
        if said is not None and said != bootstrap:
            raise SettingRefused(
                "bootstrap.servers", f"is {said}, and bootstrap= says {bootstrap}; say one of them"
            )
        found.values["bootstrap.servers"] = bootstrap
    said = str(found.values.get("bootstrap.servers", "")).strip()
    if not said:
        raise SettingRefused("bootstrap.servers", "is missing; it looks like 127.0.0.1:9092")
    problem = address_problem(said)
    if problem:
        raise SettingRefused("bootstrap.servers", problem)
    for each in filter(None, (part.strip() for part in said.split(","))):
        port = _port(each)
        if port is not None and not (port.isdecimal() and 0 < int(port) <= PORT_MAX):
            raise SettingRefused(
                "bootstrap.servers", f"has {each!r}; an address looks like 127.0.0.1:9092"
            )


def _port(address: str) -> str | None:
    """Return the port of an address; librdkafka takes addresses without one, and with a
    protocol."""
    host = address.rpartition("://")[2]
    bare_ipv6 = host.count(":") > 1 and not host.startswith("[")
    if bare_ipv6 or host.endswith("]") or ":" not in host:
        return None
    return host.rpartition(":")[2]


def _take(found: ConfiguredKeys, said: str, value: SettingValue) -> None:
    name = _meant(said, found.client)
    row = ROWS[found.client].get(name)
    if row is not None:
        _take_row(found, said, row, value)
    elif name in PASSING[found.client]:
        found.own[name] = _own_value(name, value)
    elif name in keys_rdkafka.TAKEN:
        raise SettingRefused(name, keys_rdkafka.TAKEN[name])
    elif is_for_serdes(name):
        found.serde[name] = value
    elif name in RETIRED:
        found.note(name, RETIRED[name])
    else:
        other = other_client(name, found.client)
        if other is None:
            near = nearest(name, found.client)
            hint = f"; is {near} meant?" if near else ""
            raise SettingRefused(name, f"there is no such key{hint}")
        article = "an" if other is Client.ADMIN else "a"
        found.note(name, f"it is a key of {article} {other}, and this is not one")


def _meant(said: str, client: Client) -> str:
    meant = keys_rdkafka.ALIASES.get(said, said)
    # message.max.bytes of a consumer is librdkafka's own; of a producer it is Kafka's.
    if said == "message.max.bytes" and client is Client.PRODUCER:
        return "max.request.size"
    return meant


def _take_row(found: ConfiguredKeys, said: str, row: SettingRow, value: SettingValue) -> None:
    if row.fate is KeyHandling.REFUSED:
        if _as_text(value) not in row.harmless:
            raise SettingRefused(row.name, row.about)
        return
    parsed = _PARSERS[row.kind](row, value)
    # librdkafka's name has one value with another meaning.
    if said == "message.timeout.ms" and parsed == 0:
        parsed = NO_LIMIT_MS
    if row.fate is KeyHandling.NO_EFFECT:
        found.note(row.name, row.about)
        return
    if row.name in found.values and found.values[row.name] != parsed:
        raise SettingRefused(row.name, f"is said twice, also as {said}; say one of them")
    found.values[row.name] = parsed


def _own_value(name: str, value: SettingValue) -> RdkafkaValue:
    if name in keys_rdkafka.FUNCTIONS:
        if name != "logger" and not callable(value):
            raise SettingRefused(name, "takes a function")
        return value
    if name in keys_rdkafka.TRUTHS:
        text = str(value).strip().lower()
        if text not in ("true", "false", "1", "0"):
            raise SettingRefused(name, f"takes true or false, not {value!r}")
        return text in ("true", "1")
    if isinstance(value, str | int | float | bool):
        return value
    raise SettingRefused(name, f"takes text, a number or a truth value, not {_kind_of(value)}")


def _boolean(row: SettingRow, value: SettingValue) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text not in ("true", "false"):
        raise SettingRefused(row.name, f"takes true or false, not {value!r}")
    return text == "true"


def _whole(row: SettingRow, value: SettingValue) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        number = int(value)
    except ValueError:
        raise SettingRefused(row.name, f"takes a whole number, not {value!r}") from None
    _check_range(row, number)
    return number


def _number(row: SettingRow, value: SettingValue) -> int | float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = value if isinstance(value, int | float) else float(value)
        if not math.isfinite(number):
            raise ValueError
    except ValueError:
        raise SettingRefused(row.name, f"takes a number, not {value!r}") from None
    _check_range(row, number)
    return int(number) if number == int(number) else number


def _check_range(row: SettingRow, number: float) -> None:
    if (row.low is not None and number < row.low) or (row.high is not None and number > row.high):
        least = "" if row.low is None else f"at least {row.low}"
        most = "" if row.high is None else f"at most {row.high}"
        bounds = " and ".join(filter(None, (least, most)))
        raise SettingRefused(row.name, f"is {number}; it takes {bounds}")


def _text(row: SettingRow, value: SettingValue) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise SettingRefused(row.name, f"takes text, not {_kind_of(value)}")
    text = str(value).strip()
    if not row.words:
        return text
    for word in row.words:
        if text.lower() == word.lower():
            return word
    raise SettingRefused(row.name, f"is {text!r}; it takes {', '.join(row.words)}")


def _password(row: SettingRow, value: SettingValue) -> str:
    if not isinstance(value, str):
        raise SettingRefused(row.name, f"takes text, not {_kind_of(value)}")
    return value


def _listing(row: SettingRow, value: SettingValue) -> Any:
    """Return the items of a list, or of text with commas; classes stay classes."""
    if isinstance(value, str):
        parts: Sequence[object] = [each.strip() for each in value.split(",") if each.strip()]
    elif isinstance(value, Sequence):
        parts = list(value)
    elif row.name == "interceptor.classes":
        parts = [value]
    else:
        raise SettingRefused(row.name, f"takes a list, not {_kind_of(value)}")
    if row.name == "interceptor.classes":
        return tuple(parts)
    if not all(isinstance(each, str) for each in parts):
        raise SettingRefused(row.name, "takes a list of texts")
    return ",".join(str(each).strip() for each in parts)


def _class(row: SettingRow, value: SettingValue) -> object:
    if isinstance(value, bool | int | float):
        raise SettingRefused(row.name, f"takes an object, a class or a name, not {value!r}")
    return value.strip() or None if isinstance(value, str) else value


def _function(row: SettingRow, value: SettingValue) -> object:
    if not callable(value):
        raise SettingRefused(row.name, "takes a function")
    return value


def _as_text(value: SettingValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value)
    return value.strip() if isinstance(value, str) else str(value)


def _kind_of(value: object) -> str:
    return type(value).__name__


_PARSERS: Mapping[SettingType, Callable[[SettingRow, SettingValue], Any]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.WHOLE: _whole,
    SettingType.NUMBER: _number,
    SettingType.TEXT: _text,
    SettingType.LIST: _listing,
    SettingType.CLASS: _class,
    SettingType.PASSWORD: _password,
    SettingType.CALLBACK: _function,
}
