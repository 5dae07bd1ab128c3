"""The frame of a request and a response: size, header, correlation id.

A frame is four bytes of size and that many bytes.  Parsing functions take the frame without its
size; writing functions return it with the size, ready to be sent.
"""

import struct
from typing import Final, NamedTuple

from penstock.wire.apis import APIS
from penstock.wire.codec import Slices, write_in_slices, write_into
from penstock.wire.primitives import Buffer, Malformed, skip_tags

API_VERSIONS: Final = 18

_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">hhi")
_RESPONSE: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">h")


class RequestHeader(NamedTuple):
    """A parsed header. For an unknown API or version only the first three fields are valid, and
    `body_position` is -1."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def request_header_version(key: int, version: int) -> int:
    return 2 if APIS[key].is_flexible(version) else 1


def response_header_version(key: int, version: int) -> int:
    # A client parses the ApiVersions response before it knows the response's version.
    return 1 if key != API_VERSIONS and APIS[key].is_flexible(version) else 0


def parse_request_header(frame: Buffer, position: int = 0) -> RequestHeader:
    try:
        key, version, correlation_id = _REQUEST.unpack_from(frame, position)
        api = APIS.get(key)
        if api is None or not api.has(version):
            return RequestHeader(key, version, correlation_id, None, -1)
        position += _REQUEST.size
        # The client id keeps its two-byte length in flexible versions.
        (length,) = _LENGTH.unpack_from(frame, position)
        position += _LENGTH.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise Malformed("a client id reaches beyond the end")
            client_id = str(frame[position:end], "utf-8")
            position = end
        if api.is_flexible(version):
            position = skip_tags(frame, position, len(frame))
    except (IndexError, struct.error) as error:
        raise Malformed("a request ends within its header") from error
    except UnicodeDecodeError as error:
        raise Malformed("a client id is not UTF-8") from error
    return RequestHeader(key, version, correlation_id, client_id, position)


def parse_response_header(
    key: int, version: int, frame: Buffer, position: int = 0
) -> tuple[int, int]:
    """Return the correlation id, and the position of the body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame, position)
        position += _RESPONSE.size
        if response_header_version(key, version) == 1:
            position = skip_tags(frame, position, len(frame))
    except (IndexError, struct.error) as error:
        raise Malformed("a response ends within its header") from error
    return correlation_id, position


def response_frame(key: int, version: int, correlation_id: int, message: object) -> bytes:
    out = _response_head(key, version, correlation_id)
    write_into(message, version, out)
    return _finished(out)


def response_frame_in_slices(
    key: int, version: int, correlation_id: int, message: object
) -> Slices[bytes]:
    """Return the same frame, with pauses while the message is written."""
    out = _response_head(key, version, correlation_id)
    yield from write_in_slices(message, version, out)
    return _finished(out)


def _response_head(key: int, version: int, correlation_id: int) -> bytearray:
    out = bytearray(_SIZE.size)
    out += _RESPONSE.pack(correlation_id)
    if response_header_version(key, version) == 1:
        out.append(0)
    return out


def request_frame(
    key: int, version: int, correlation_id: int, client_id: str | None, message: object
) -> bytes:
    out = bytearray(_SIZE.size)
    out += _REQUEST.pack(key, version, correlation_id)
    if client_id is None:
        out += _LENGTH.pack(-1)
    else:
        text = client_id.encode()
        out += _LENGTH.pack(len(text))
        out += text
    if request_header_version(key, version) == 2:
        out.append(0)
    write_into(message, version, out)
    return _finished(out)


def _finished(out: bytearray) -> bytes:
    _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
    return bytes(out)
