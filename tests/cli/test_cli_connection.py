"""The raw connection against a server that says what the test wants."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.client.cluster.nodes import parse_bootstrap
from penstock.client.transport.connection import CannotReach, Connection
from penstock.errors import UnsupportedVersion
from penstock.wire.frame import parse_request_header, response_frame
from penstock.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse

Answer = Callable[[int, int, int], bytes]


def versions(*ranges: tuple[int, int, int], error: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=k, min_version=low, max_version=high) for k, low, high in ranges]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], int]]:
    """Starts a server that answers each request with bytes; returns its port."""
    listening: list[socket.socket] = []

    def start(answer: Answer) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listening.append(listener)
        threading.Thread(target=_serve, args=(listener, answer), daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listening:
        listener.close()


def _serve(listener: socket.socket, answer: Answer) -> None:
    peer, _ = listener.accept()
    with contextlib.suppress(ConnectionError), peer, peer.makefile("rb") as stream:
        while head := stream.read(4):
            (size,) = struct.unpack(">i", head)
            header = parse_request_header(stream.read(size))
            peer.sendall(answer(header.api_key, header.api_version, header.correlation_id))


def test_the_highest_common_version_is_spoken(serve: Callable[[Answer], int]) -> None:
    asked: list[tuple[int, int]] = []

    def answer(key: int, version: int, correlation: int) -> bytes:
        asked.append((key, version))
        message = versions((18, 0, 4), (3, 0, 9)) if key == 18 else MetadataResponse(cluster_id="c")
        return response_frame(key, version, correlation, message)

    with Connection("127.0.0.1", serve(answer)) as connection:
        answered = connection.request(MetadataRequest(), MetadataResponse)
        connection.request(MetadataRequest(), MetadataResponse, version=5)
    assert answered.cluster_id == "c"
    assert asked == [(18, 4), (3, 9), (3, 5)]


def test_a_server_of_old_is_asked_again_in_the_oldest_version(
    serve: Callable[[Answer], int],
) -> None:
    asked: list[int] = []

    def answer(key: int, version: int, correlation: int) -> bytes:
        asked.append(version)
        error = UnsupportedVersion.code if version else 0
        return response_frame(key, 0, correlation, versions((18, 0, 0), error=error))

    with Connection("127.0.0.1", serve(answer)) as connection:
        assert connection.versions == {18: (0, 0)}
    assert asked == [4, 0]


def test_what_the_server_does_not_serve_is_said(serve: Callable[[Answer], int]) -> None:
    port = serve(lambda k, v, c: response_frame(k, v, c, versions((3, 50, 60))))
    with Connection("127.0.0.1", port) as connection:
        with pytest.raises(UnsupportedVersion, match="serves Metadata 50 to 60"):
            connection.request(MetadataRequest(), MetadataResponse)
        connection.versions.clear()
        with pytest.raises(UnsupportedVersion, match="does not serve Metadata"):
            connection.request(MetadataRequest(), MetadataResponse)


def test_the_port_of_a_controller_is_named(serve: Callable[[Answer], int]) -> None:
    port = serve(lambda k, v, c: response_frame(k, v, c, versions((62, 0, 4))))
    with Connection("127.0.0.1", port) as connection:
        with pytest.raises(UnsupportedVersion, match="is the port of a controller") as caught:
            connection.request(MetadataRequest(), MetadataResponse)
        assert "a newer broker" not in str(caught.value)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">ii", 4, 77), bytes(4)]
)
def test_another_protocol_is_recognised(serve: Callable[[Answer], int], answer: bytes) -> None:
    with pytest.raises(CannotReach, match="does not speak Kafka's protocol"):
        Connection("127.0.0.1", serve(lambda *_: answer))


def test_a_server_that_goes_away_is_said(serve: Callable[[Answer], int]) -> None:
    def reject(*_: int) -> bytes:
        raise ConnectionError

    with pytest.raises(CannotReach, match="did not answer ApiVersions: it closed the connection"):
        Connection("127.0.0.1", serve(reject))


def test_silence_ends_with_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CannotReach, match="no answer in time"):
            Connection("127.0.0.1", port, timeout_ms=50)


def test_bootstrap_addresses_are_parsed() -> None:
    assert parse_bootstrap("a:1, [::1]:2 ,b") == [("a", 1), ("::1", 2), ("b", 9092)]


@pytest.mark.parametrize("text", ["", " , ", "a:b", ":1", "a:0", "a:70000"])
def test_a_bad_bootstrap_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"e\.g\."):
        parse_bootstrap(text)
