"""HTTP/1.1 as far as a scraper needs it: heads of requests in, whole answers out. Pure.

GET and HEAD, no bodies. Everything that a peer may send is bounded; what is not understood is
answered once, with a sentence, and the connection ends.
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
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION = re.compile(r"HTTP/(\d)\.(\d)")
_LINE_END = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class BadRequest(Exception):
    """What the peer sent cannot be answered otherwise than so; the connection ends after it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Request(NamedTuple):
    """The head of a request. Names of headers are in small letters."""

    method: str
    path: str
    parameters: Mapping[str, str]  # of the query; of one that comes twice the last
    headers: Mapping[str, str]
    keep_alive: bool


class Response(NamedTuple):
    status: int
    body: bytes
    content_type: str = PLAIN_TYPE


class HeadReader:
    """Bytes of one connection in, requests out, one at a time."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def waiting_bytes(self) -> int:
        return len(self._data)

    def feed(self, data: bytes | memoryview) -> None:
        """BadRequest if what waits is more than any request may have."""
        self._data += data
        if len(self._data) > HEAD_BYTES_MAX:
            raise BadRequest(431, f"A request has at most {HEAD_BYTES_MAX} bytes.")

    def next(self) -> Request | None:
        """The next whole request; None if there is none yet. BadRequest if it is none."""
        while self._data.startswith((b"\r\n", b"\n")):  # some send one too many
            del self._data[: 2 if self._data.startswith(b"\r") else 1]
        end = _HEAD_END.search(self._data)
        if end is None:
            return None
        head = bytes(self._data[: end.start()])
        del self._data[: end.end()]
        return parse_head(head)


def parse_head(head: bytes) -> Request:
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
    return Request(method, path, parameters, headers, keep_alive)


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
    """Head and body; HEAD gets the first alone."""
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
