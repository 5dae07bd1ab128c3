"""Heads of HTTP requests: what is understood, and that nothing else gets through."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.http import (
    HEAD_BYTES_MAX,
    BadRequest,
    HeadReader,
    HttpRequest,
    Response,
    parse_head,
    response_bytes,
)

HEAD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def read(data: bytes) -> list[HttpRequest]:
    reader = HeadReader()
    reader.feed(data)
    found = []
    while (request := reader.next()) is not None:
        found.append(request)
    return found


def status_of(data: bytes) -> int:
    with pytest.raises(BadRequest) as refused:
        read(data)
    assert refused.value.text.endswith(".")
    return refused.value.status


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_lines_may_end_either_way(end: bytes) -> None:
    (request,) = read(HEAD.replace(b"\r\n", end))
    assert request == HttpRequest("GET", "/metrics", {}, {"host": "localhost"}, True)


def test_requests_that_come_together_are_told_one_by_one() -> None:
    assert len(read(HEAD + b"\r\n" + HEAD)) == 2


@given(st.integers(0, len(HEAD)))
def test_a_request_may_come_in_any_pieces(cut: int) -> None:
    reader = HeadReader()
    reader.feed(HEAD[:cut])
    first = reader.next()
    reader.feed(HEAD[cut:])
    assert (first or reader.next()) == parse_head(HEAD[:-4])


def test_the_query_is_decoded() -> None:
    (request,) = read(b"GET /metrics?partitions=a%2Cb&x= HTTP/1.1\r\nHost: h\r\n\r\n")
    assert request.path == "/metrics"
    assert request.parameters == {"partitions": "a,b", "x": ""}


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_a_connection_is_kept_as_the_version_and_the_peer_say(head: bytes, keeps: bool) -> None:
    (request,) = read(head)
    assert request.keep_alive is keeps


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00\x00\x00\x10garbage\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET metrics HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        (b"GET / HTTP/1.1 x\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0, 5\r\n\r\n", 413),
        (b"POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 100 + b"\r\n", 431),
        (b"GET /?" + b"a=1&" * 100 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"a" * (HEAD_BYTES_MAX + 1), 431),
    ],
)
def test_what_is_no_request_is_refused_with_a_sentence(data: bytes, status: int) -> None:
    assert status_of(data) == status


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_waited_for_and_nothing_else(data: bytes) -> None:
    with suppress(BadRequest):
        read(data + b"\r\n\r\n")


def test_an_answer_says_how_long_it_is_and_what_may_be_asked() -> None:
    head, body = response_bytes(Response(405, b"no\n"), keep_alive=False)
    assert head.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nContent-Length: 3\r\n" in head
    assert b"\r\nAllow: GET, HEAD\r\n" in head
    assert b"\r\nConnection: close\r\n" in head
    assert body == b"no\n"
