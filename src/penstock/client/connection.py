"""One blocking connection: sends a request, waits for its answer.

For tools and tests. It has no producer's batching and no consumer's polling; admin.py stands on
it.
"""

import socket
import struct
from types import TracebackType
from typing import TypeVar

from penstock import __version__
from penstock.errors import UnsupportedVersion, from_code
from penstock.wire.apis import APIS
from penstock.wire.codec import read
from penstock.wire.frame import API_VERSIONS, parse_response_header, request_frame
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.primitives import Malformed
from penstock.wire.schema import schema_of

R = TypeVar("R")

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
CLIENT_SOFTWARE_NAME = "penstock"

_SIZE = struct.Struct(">i")
_ERROR = struct.Struct(">h")


class CannotReach(Exception):
    """The server could not be reached, did not answer in time, or went away."""


class Connection:
    """Open, with the server's versions known. Close it, or use it in a `with`."""

    def __init__(
        self, host: str, port: int, *, client_id: str = "penstock", timeout_ms: int = 30_000
    ) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._correlation_id = 0
        self._socket = self._connect()
        try:
            self.versions = self._learn_versions()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        try:
            opened = socket.create_connection((self.host, self.port), self._timeout_ms / 1000)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, OverflowError) as problem:
            raise CannotReach(f"{self} cannot be reached: {_reason(problem)}") from problem
        return opened

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed, or has failed."""
        return self._socket.fileno() < 0

    def version_for(self, message: object) -> int:
        """The highest version that both sides know; UnsupportedVersion if there is none."""
        schema = schema_of(type(message))
        assert schema.key is not None, f"{type(message).__name__} is no request"
        name = APIS[schema.key].name
        if schema.key not in self.versions:
            raise UnsupportedVersion(f"the server at {self} does not serve {name}")
        low, high = self.versions[schema.key]
        version = min(high, schema.versions.last)
        if version < max(low, schema.versions.first):
            raise UnsupportedVersion(
                f"the server at {self} serves {name} {low} to {high}, "
                f"this client speaks {schema.versions.first} to {schema.versions.last}"
            )
        return version

    def request(self, message: object, expect: type[R], version: int | None = None) -> R:
        """Send and wait; the highest common version unless `version` says which.

        Errors inside the answer are the caller's to look at. After CannotReach the connection is
        of no further use.
        """
        if version is None:
            version = self.version_for(message)
        key = schema_of(type(message)).key
        assert key is not None, f"{type(message).__name__} is no request"
        frame = self._exchange(key, version, message)
        try:
            _, position = parse_response_header(key, version, frame)
            return read(expect, version, frame, position)
        except Malformed as problem:
            raise CannotReach(
                f"{self} sent an answer that is not {expect.__name__} v{version}: {problem}"
            ) from problem

    def _learn_versions(self) -> dict[int, tuple[int, int]]:
        """Ask with the newest version; a server that does not know it answers in the oldest."""
        version = APIS[API_VERSIONS].versions[1]
        message = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__
        )
        try:
            frame = self._exchange(API_VERSIONS, version, message)
            (error,) = _ERROR.unpack_from(frame, 4)
            if error == UnsupportedVersion.code:
                version = 0
                frame = self._exchange(API_VERSIONS, version, ApiVersionsRequest())
            answer = read(ApiVersionsResponse, version, frame, 4)
        except (Malformed, struct.error) as problem:
            raise CannotReach(f"{self} does not speak Kafka's protocol: {problem}") from problem
        if answer.error_code:
            raise from_code(answer.error_code)
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _exchange(self, key: int, version: int, message: object) -> bytes:
        self._correlation_id += 1
        frame = request_frame(key, version, self._correlation_id, self._client_id, message)
        try:
            self._socket.sendall(frame)
            answer = self._receive()
        except OSError as problem:
            self.close()
            raise CannotReach(
                f"{self} did not answer {APIS[key].name}: {_reason(problem)}"
            ) from problem
        (correlation_id,) = _SIZE.unpack_from(answer) if len(answer) >= 4 else (None,)
        if correlation_id != self._correlation_id:
            self.close()
            raise CannotReach(f"{self} does not speak Kafka's protocol")
        return answer

    def _receive(self) -> bytes:
        (size,) = _SIZE.unpack(self._read_exactly(_SIZE.size))
        if not 0 <= size <= RESPONSE_BYTES_MAX:
            raise OSError("it does not speak Kafka's protocol")
        return self._read_exactly(size)

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise OSError("it closed the connection")
            view = view[count:]
        return bytes(data)


def _reason(problem: Exception) -> str:
    match problem:
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return "no answer in time"
        case socket.gaierror():
            return "no such host"
        case OSError(strerror=str(text)):
            return text.lower()
        case _:
            return str(problem)
