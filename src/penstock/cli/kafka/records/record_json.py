"""Messages and stored records as Kafka's tools write them in JSON: its names, its order.

Bytes are base64; 16-byte ids are Kafka's text form. Tagged fields with their default are left out,
and fields that the version lacks.
"""

import base64

from penstock.cli.terminal.output import Json, Row
from penstock.model import id_to_text
from penstock.wire.primitives import Fixed
from penstock.wire.schema import Array, Kind, Nested, schema_of

ID_BYTES = 16


def as_json(message: object, version: int) -> Row:
    """Return the fields of this version."""
    found: Row = {}
    for field in schema_of(type(message)).fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        if field.tag is not None and value == field.fresh_default():
            continue
        found[json_name(field.name)] = _value(value, field.kind, version)
    return found


def json_name(name: str) -> str:
    """Return `commitTimestamp` for `commit_timestamp`; `kraft` becomes `kRaft`."""
    first, *others = name.rstrip("_").split("_")
    return first.replace("kraft", "kRaft") + "".join(each.capitalize() for each in others)


def _value(value: object, kind: Kind, version: int) -> Json:
    if value is None:
        return None
    match kind:
        case Array(element):
            assert isinstance(value, list), "an array is read as a list"
            return [_value(each, element, version) for each in value]
        case Nested():
            return as_json(value, version)
        case _ if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            if isinstance(kind, Fixed) and len(data) == ID_BYTES:
                return id_to_text(data)
            return base64.b64encode(data).decode()
        case _:
            assert isinstance(value, str | int | float | bool), f"{value!r} has no JSON"
            return value
