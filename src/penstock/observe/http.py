"""The part of HTTP/1.1 that a scraper needs: request heads in, whole responses out. Pure.

GET and HEAD, no bodies. All input is bounded. An invalid request gets one response with a sentence,
and the connection ends.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

HEAD_BYTES_MAX = 8 * 1024
HEADERS_MAX = 64
TARGET_BYTES_MAX = 4 * 1024
PARAMETERS_MAX = 16
METHODS = ("GET", "HEAD")

PLAIN_TYPE = "text/plain; charset=utf-8"
REASONS = {
    200: "OK",
    400: "Bad HttpRequest",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "HttpRequest Timeout",
    413: "Content Too Large",
    414: "URI Too Long",
    431: "HttpRequest Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION = re.compile(r"HTTP/(\d)\.(\d)")
_LINE_END = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class BadRequest(Exception):
    """An invalid request: its response, after which the connection ends."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class HttpRequest(NamedTuple):
    """The head of a request. Header names are in lower case."""

    method: str
    path: str
    parameters: Mapping[str, str]  # of the query; the last value of a repeated name counts
    headers: Mapping[str, str]
    keep_alive: bool


class Response(NamedTuple):
    status: int
    body: bytes
    content_type: str = PLAIN_TYPE


class HeadReader:
    """Splits the bytes of one connection into requests."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def waiting_bytes(self) -> int:
        return len(self._data)

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes; raise BadRequest if the pending bytes exceed the limit of a request."""
        self._data += data
        if len(self._data) > HEAD_BYTES_MAX:
            raise BadRequest(431, f"A request has at most {HEAD_BYTES_MAX} bytes.")

    def next(self) -> HttpRequest | None:
        """Return the next whole request or None; raise BadRequest for an invalid one."""
        while self._data.startswith((b"\r\n", b"\n")):  # some clients send an extra line end
            del self._data[: 2 if self._data.startswith(b"\r") else 1]
        end = _HEAD_END.search(self._data)
        if end is None:
            return None
        head = bytes(self._data[: end.start()])
        del self._data[: end.end()]
        return parse_head(head)


def parse_head(head: bytes) -> HttpRequest:
    try:
        first, *lines = (line.decode("ascii") for line in _LINE_END.split(head))
    except UnicodeDecodeError:
        raise BadRequest(400, "The head of a request is ASCII.") from None
    words = first.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]):
        raise BadRequest(400, "A request begins with METHOD PATH HTTP/1.1.")
    method, target, version = words
    spoken = _VERSION.fullmatch(version)
    if spoken is None:
        raise BadRequest(400, "A request begins with METHOD PATH HTTP/1.1.")
    if spoken[1] != "1":
        raise BadRequest(505, "HTTP/1.1 is spoken here.")
    headers = _headers(lines)
    minor = int(spoken[2])
    if minor and "host" not in headers:
        raise BadRequest(400, "A request has a Host header.")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        if method not in METHODS:
            raise BadRequest(405, not_served(method))
        raise BadRequest(413, "A request here has no body.")
    path, parameters = _target(target)
    words = [word.strip() for word in headers.get("connection", "").lower().split(",")]
    keep_alive = "close" not in words if minor else "keep-alive" in words
    return HttpRequest(method, path, parameters, headers, keep_alive)


def not_served(method: str) -> str:
    return f"{method} is not served here; {' and '.join(METHODS)} are."


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > HEADERS_MAX:
        raise BadRequest(431, f"A request has at most {HEADERS_MAX} headers.")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):  # also a continued line, which begins blank
            raise BadRequest(400, "A header is NAME: VALUE.")
        lower, value = name.lower(), value.strip(" \t")
        if not value.isprintable():
            raise BadRequest(400, "A header is NAME: VALUE.")
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return headers


def _target(target: str) -> tuple[str, dict[str, str]]:
    if len(target) > TARGET_BYTES_MAX:
        raise BadRequest(414, f"A path has at most {TARGET_BYTES_MAX} bytes.")
    if not target.startswith(("/", "http://")) or not target.isprintable():
        raise BadRequest(400, "A path begins with '/'.")
    try:
        parts = urlsplit(target)
        found = parse_qs(parts.query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise BadRequest(400, "The path cannot be understood.") from None
    return parts.path or "/", {name: values[-1] for name, values in found.items()}


def response_bytes(response: Response, *, keep_alive: bool) -> tuple[bytes, bytes]:
    """Return head and body; the response to HEAD is the head alone."""
    lines = [
        f"HTTP/1.1 {response.status} {REASONS[response.status]}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    if response.status == 405:
        lines.append(f"Allow: {', '.join(METHODS)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii"), response.body
