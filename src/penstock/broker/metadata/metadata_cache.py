"""Metadata answers joined from kept pieces: a topic is encoded once per version, not per request.

Clients ask for the same topics again and again; encoding hundreds of partitions each time would be
the largest cost of a quiet node. The cache is emptied when metadata changes or a directory fails.
"""

from struct import Struct

from penstock.broker.sliced_work import Slices
from penstock.wire.codec import write, write_in_slices
from penstock.wire.frame import response_header_version
from penstock.wire.messages.k03_metadata import MetadataResponse, MetadataResponseTopic
from penstock.wire.primitives import write_uvarint

KEY = 3
FLEXIBLE = 9
BYTES_MAX = 64 * 1024 * 1024
_INT32 = Struct(">i")


def _after_topics(version: int) -> int:
    """Return the bytes behind the topics: cluster operations (v8-v10), an error (v13+), tags."""
    operations = 4 if 8 <= version <= 10 else 0
    return operations + (2 if version >= 13 else 0) + (1 if version >= FLEXIBLE else 0)


class MetadataCache:
    """Encoded topics by name, version, and whether operations are included."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, int, bool], bytes] = {}
        self._bytes = 0
        self.clears = 0  # so far: topics encoded before the last clear may be stale

    def clear(self) -> None:
        self.clears += 1
        self._topics.clear()
        self._bytes = 0

    def find(self, name: str, version: int, with_operations: bool) -> bytes | None:
        return self._topics.get((name, version, with_operations))

    def keep(self, name: str, version: int, with_operations: bool, data: bytes) -> None:
        if self._bytes + len(data) > BYTES_MAX:
            self.clear()
        self._topics[name, version, with_operations] = data
        self._bytes += len(data)


def encode_topic(topic: MetadataResponseTopic, version: int) -> Slices[bytes]:
    """Return one topic as encoded inside an answer."""
    whole = bytearray()
    yield from write_in_slices(MetadataResponse(topics=[topic]), version, whole)
    empty = len(write(MetadataResponse(), version))
    after = _after_topics(version)
    return bytes(whole[empty - after : len(whole) - after])


def join(
    response: MetadataResponse, topics: list[bytes], version: int, correlation_id: int
) -> bytes:
    """Return the frame of an answer from encoded topics; `response` has no topics."""
    whole = write(response, version)
    after = len(whole) - _after_topics(version)
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    if response_header_version(KEY, version):
        out.append(0)
    if version >= FLEXIBLE:
        out += whole[: after - 1]
        write_uvarint(out, len(topics) + 1)
    else:
        out += whole[: after - 4]
        out += _INT32.pack(len(topics))
    out += b"".join(topics)
    out += whole[after:]
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)
