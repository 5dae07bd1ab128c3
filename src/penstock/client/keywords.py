"""Unknown keyword arguments: the error suggests the right one."""

from collections.abc import Iterable, Mapping
from typing import NoReturn

_SECONDS = "timeout_s, in seconds"
# Names of other clients, and of earlier releases.
RENAMED: Mapping[str, str] = {
    "api_timeout_ms": "api_timeout_s, in seconds",
    "bootstrap_server": "bootstrap='host:port'",
    "bootstrap_servers": "bootstrap='host:port'",
    "brokers": "bootstrap='host:port'",
    "group_id": "group",
    "key_deserializer": "key",
    "key_serializer": "key",
    "timeout": _SECONDS,
    "timeout_ms": _SECONDS,
    "topic": "topics=['name']",
    "value_deserializer": "value",
    "value_serializer": "value",
    "within": _SECONDS,
    "within_s": _SECONDS,
}


def refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError about the first of `given` that is not among `known`."""
    taken = set(known)
    for name in given:
        if name not in taken:
            _refuse(what, name, sorted(taken))


def refuse_text(call: str, names: object) -> None:
    """Raise TypeError if one name is given in place of a list of names."""
    if isinstance(names, str):
        raise TypeError(f"{call}() takes a list of names, not one name: {call}([{names!r}])")


def _refuse(what: str, name: str, known: list[str]) -> NoReturn:
    meant = RENAMED.get(name, "")
    if meant.partition("=")[0].partition(",")[0] in known:
        raise TypeError(f"{what} takes no {name!r}; it is called {meant}")
    key = name.replace("_", ".")
    if what in _CLIENTS and _is_setting(key):
        raise TypeError(f"{what} takes no {name!r}; it is a setting: {what}({{{key!r}: ...}}, ...)")
    raise TypeError(f"{what} takes no {name!r}; known: {', '.join(known)}")


_CLIENTS = ("Admin", "Consumer", "Producer")


def _is_setting(key: str) -> bool:
    from penstock.client.settings.table import PASSING, ROWS, Client

    return any(key in ROWS[each] or key in PASSING[each] for each in Client)
