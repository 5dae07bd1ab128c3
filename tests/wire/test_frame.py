"""Headers around requests and responses, and the table of APIs."""

import subprocess
import sys
from random import Random

import pytest
from kafka.protocol.api_header import RequestHeader as TheirHeader
from random_messages import random_message

from penstock.wire.apis import APIS, request_class, response_class
from penstock.wire.codec import read, write
from penstock.wire.frame import (
    parse_request_header,
    parse_response_header,
    request_frame,
    request_header_version,
    response_frame,
    response_header_version,
)
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.primitives import Malformed
from penstock.wire.schema import schema_of

CASES = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.versions[0], api.versions[1] + 1)
]


@pytest.mark.parametrize("key", APIS)
def test_the_table_says_what_the_classes_say(key: int) -> None:
    api = APIS[key]
    for cls, response in ((request_class(key), False), (response_class(key), True)):
        schema = schema_of(cls)
        assert schema.key == key
        assert (schema.versions.first, schema.versions.last) == api.versions
        assert schema.flexible_from == api.flexible
        assert schema.response is response
    assert api.module.startswith(f"k{key:02d}_")


def test_importing_the_table_loads_no_message() -> None:
    code = "import sys, penstock.wire.frame; print([m for m in sys.modules if '.messages.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_request_frame_parses_back_in_every_version() -> None:
    for key, version in CASES:
        message = random_message(request_class(key), version, Random(f"{key} {version}"))
        for client_id in (None, "", "größe"):
            frame = request_frame(key, version, 77, client_id, message)
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            header = parse_request_header(memoryview(frame)[4:])
            assert header[:4] == (key, version, 77, client_id)
            assert frame[4 + header.body_position :] == write(message, version)


def test_a_response_frame_parses_back_in_every_version() -> None:
    for key, version in CASES:
        message = random_message(response_class(key), version, Random(f"{key} {version}"))
        frame = response_frame(key, version, -3, message)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        correlation_id, position = parse_response_header(key, version, frame, 4)
        assert correlation_id == -3
        assert read(response_class(key), version, frame, position) == message


def test_the_header_of_a_request_is_kafkas() -> None:
    for flexible, version in ((False, 2), (True, 3)):
        theirs = TheirHeader(
            request_api_key=18, request_api_version=version, correlation_id=5, client_id="me"
        ).encode(flexible=flexible)
        message = ApiVersionsRequest()
        frame = request_frame(18, version, 5, "me", message)
        assert frame[4:] == bytes(theirs) + write(message, version)


def test_an_api_versions_response_never_has_tags_in_its_header() -> None:
    message = ApiVersionsResponse()
    assert response_header_version(18, 3) == 0
    assert response_frame(18, 3, 1, message)[8:] == write(message, 3)
    assert response_frame(18, 3, 1, message)[4:8] == b"\x00\x00\x00\x01"


def test_flexible_versions_have_tags_in_both_headers() -> None:
    assert [request_header_version(1, version) for version in (11, 12)] == [1, 2]
    assert [response_header_version(1, version) for version in (11, 12)] == [0, 1]


@pytest.mark.parametrize(("key", "version"), [(4, 0), (999, 0), (-1, 3), (1, 3), (1, 19), (0, 2)])
def test_of_an_unknown_request_only_the_beginning_is_read(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\x00\x00\x00\x09"
    header = parse_request_header(frame)
    assert header == (key, version, 9, None, -1)


def test_unknown_tags_in_a_header_are_skipped() -> None:
    frame = b"\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff" + b"\x01\x07\x02ab" + b"body"
    assert frame[parse_request_header(frame).body_position :] == b"body"


def test_a_header_cut_short_is_malformed() -> None:
    frame = request_frame(18, 3, 1, "client", ApiVersionsRequest())[4:]
    end = parse_request_header(frame).body_position
    for size in range(end):
        with pytest.raises(Malformed):
            parse_request_header(frame[:size])


def test_a_client_id_that_is_not_utf_8_is_malformed() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        parse_request_header(b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x01\xff")


def test_a_response_header_cut_short_is_malformed() -> None:
    for size in range(5):
        with pytest.raises(Malformed):
            parse_response_header(1, 12, bytes(size))
