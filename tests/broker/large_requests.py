"""Large requests of every API, made from its schema: one long list each, all else short."""

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from penstock.wire.apis import APIS, request_class
from penstock.wire.primitives import Blob, Fixed
from penstock.wire.schema import Array, Kind, Nested, Text, schema_of

TOPIC = "wide"  # exists
# What a request needs in order to be taken seriously.
VALUES: dict[str, Any] = {
    "acks": -1,
    "timeout_ms": 30_000,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "session_epoch": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 16,
    "resource_type": 2,
    "num_partitions": 1,
    "replication_factor": 1,
    "validate_only": True,
    "protocol_type": "consumer",
    "group_id": "group",
    "client_software_name": "test",
    "client_software_version": "1",
    "feature_updates": [],
    "member_epoch": 0,
    "max_timestamp": 0,
    "response_partition_limit": 2_000,
    "allow_auto_topic_creation": False,
}
NAMES = ("name", "topic", "topic_name")


class Large(NamedTuple):
    """A request, and the list of it that is long."""

    api_key: int
    version: int
    path: tuple[str, ...]
    message: Any

    def __str__(self) -> str:
        return f"{APIS[self.api_key].name}-v{self.version}-{'.'.join(self.path)}"


def paths(cls: type, version: int) -> Iterator[tuple[str, ...]]:
    """Yield the way to each list of a request, through the lists around it."""
    for field in schema_of(cls).fields:
        if version not in field.versions:
            continue
        match field.kind:
            case Array(element=element):
                yield (field.name,)
                if isinstance(element, Nested):
                    for inner in paths(element.cls, version):
                        yield (field.name, *inner)
            case Nested(cls=inner_cls):
                for inner in paths(inner_cls, version):
                    yield (field.name, *inner)


def large(
    api_key: int, version: int, path: tuple[str, ...], items: int, *, equal: bool = False
) -> Large:
    """Return a request whose list at `path` has so many elements, `equal` ones or all different."""
    cls = request_class(api_key)
    size = 1 if equal else items
    message = _structure(cls, version, path, size, count(), True)
    if equal:
        holder = message
        for name in path[:-1]:
            found = getattr(holder, name)
            holder = found[0] if isinstance(found, list) else found
        setattr(holder, path[-1], getattr(holder, path[-1]) * items)
    return Large(api_key, version, path, message)


def _structure(
    cls: type, version: int, path: tuple[str, ...], items: int, numbers: Iterator[int], named: bool
) -> Any:
    message = cls()
    for field in schema_of(cls).fields:
        if version not in field.versions:
            continue
        on_path = bool(path) and field.name == path[0]
        if not on_path and field.name in VALUES and (named or field.name != "group_id"):
            setattr(message, field.name, VALUES[field.name])
        elif on_path or not isinstance(field.kind, Array | Nested):
            rest = path[1:] if on_path else ()
            if named and field.name in NAMES and isinstance(field.kind, Text):
                setattr(message, field.name, TOPIC)
                continue
            value = _value(field.kind, version, rest, items, numbers)
            setattr(message, field.name, value)
    return message


def _value(
    kind: Kind, version: int, path: tuple[str, ...], items: int, numbers: Iterator[int]
) -> Any:
    match kind:
        case Array(element=element):
            size = 1 if path else items
            if isinstance(element, Nested):
                return [
                    _structure(element.cls, version, path, items, numbers, bool(path))
                    for _ in range(size)
                ]
            return [_value(element, version, path, items, numbers) for _ in range(size)]
        case Nested(cls=cls):
            return _structure(cls, version, path, items, numbers, bool(path))
        case Text():
            return f"n{next(numbers)}"
        case Blob():
            return b""
        case Fixed(format="16s"):
            return (1 << 32 | next(numbers)).to_bytes(16)
        case Fixed(format="?"):
            return False
        case Fixed(format="b"):
            return 0
        case Fixed(format="h" | "H"):
            return next(numbers) & 0x7FFF
        case Fixed():
            return next(numbers)
