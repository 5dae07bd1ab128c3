"""The frame around a value whose schema is in a registry: a zero byte and the schema's id.

The id has four bytes, big-endian; the payload follows. It is what Confluent's serializers write.
"""

from struct import Struct

MAGIC = 0
_HEAD = Struct(">bI")


def frame(schema_id: int, payload: bytes) -> bytes:
    return _HEAD.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> tuple[int, bytes]:
    """The schema's id and the payload."""
    if len(data) < _HEAD.size:
        raise ValueError(
            f"{len(data)} bytes are too few for a value with a schema: a zero byte, four of the "
            "schema's id, the payload. Was it written by a serializer with a registry?"
        )
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(
            f"it begins with the byte {data[0]}, not with 0 as values do whose schema is in a "
            "registry. Was it written by a serializer with a registry?"
        )
    return schema_id, data[_HEAD.size :]
