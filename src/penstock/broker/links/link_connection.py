"""One open connection of a link: requests out, responses matched in their order.

Responses come in order, so a late response delays all that follow. A request that misses its
deadline therefore breaks the connection, and every request in flight fails. With a login, requests
are sent after it, and wait while it is repeated.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.broker.links.response_frames import ResponseFrames
from penstock.errors import UnsupportedVersion
from penstock.release import NODE_SOFTWARE_NAME, VERSION
from penstock.wire.apis import APIS, Api
from penstock.wire.codec import read
from penstock.wire.frame import API_VERSIONS, parse_response_header, request_frame
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.primitives import Malformed
from penstock.wire.schema import schema_of
from penstock.world import Buffer, Peer, Timer

if TYPE_CHECKING:
    from penstock.broker.links.link_login import LinkLogin

R = TypeVar("R")


_ERROR = struct.Struct(">h")


class LinkFailed(Exception):
    """A request got no response. The peer may have handled it, unless `unsent`."""

    def __init__(self, reason: str, *, unsent: bool) -> None:
        super().__init__(reason)
        self.unsent = unsent


class LinkRequest(Generic[R]):
    """A request that waits for its connection or its response."""

    __slots__ = (
        "answered",
        "api",
        "correlation_id",
        "expect",
        "message",
        "timer",
        "version",
        "version_min",
    )

    def __init__(
        self,
        message: object,
        expect: type[R],
        answered: Callable[[R | Exception], None],
        version_min: int = 0,
    ) -> None:
        key = schema_of(type(message)).key
        assert key is not None, f"{type(message).__name__} is no request"
        self.message = message
        self.api: Api = APIS[key]
        self.expect = expect
        self.answered: Callable[[R | Exception], None] | None = answered
        self.timer: Timer | None = None
        self.version = -1
        self.version_min = version_min
        self.correlation_id = -1

    def cancel(self) -> None:
        """Drop the request, or ignore its response if it was sent."""
        self._end()

    def finish(self, result: R | Exception) -> None:
        answered = self._end()
        if answered is not None:
            answered(result)

    def _end(self) -> Callable[[R | Exception], None] | None:
        answered, self.answered = self.answered, None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return answered


class LinkConnection:
    """A connection from its opening to its end (world.Receiver)."""

    def __init__(
        self,
        peer: Peer,
        name: str,
        client_id: str,
        opened: Callable[[], None],
        lost: Callable[[str], None],
        login: "LinkLogin | None" = None,
    ) -> None:
        """Begin. `opened` is called when requests can be sent, the versions of the peer are known
        and the login is over; `lost` at the end."""
        self.versions: dict[int, tuple[int, int]] | None = None
        self._peer = peer
        self._name = name
        self._client_id = client_id
        self._opened = opened
        self._lost = lost
        self._login = login
        self._known_versions: dict[int, tuple[int, int]] = {}
        self._in_flight: deque[LinkRequest[object]] = deque()
        self._frames = ResponseFrames()
        self._correlation_id = 0
        self._over = False
        self._ask_versions(APIS[API_VERSIONS].versions[1])

    # Requests

    def send(self, request: LinkRequest[R]) -> None:
        """Send a request in the highest common version; raise UnsupportedVersion if there is
        none."""
        self._write(request, self._version_for(request.api, request.version_min))

    def has(self, request: LinkRequest[R]) -> bool:
        """Return whether the request is in flight here."""
        return any(each is request for each in self._in_flight)

    def _write(self, request: LinkRequest[R], version: int) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.version, request.correlation_id = version, self._correlation_id
        # A request knows the type of its response; the queue does not.
        self._in_flight.append(request)  # type: ignore[arg-type]
        key, correlation_id = request.api.key, request.correlation_id
        frame = request_frame(key, version, correlation_id, self._client_id, request.message)
        self._peer.send([frame])

    def _version_for(self, api: Api, version_min: int) -> int:
        assert self.versions is not None, "requests wait for the versions"
        low, high = self.versions.get(api.key, (0, -1))
        if high < 0:
            raise UnsupportedVersion(f"{self._name} does not serve {api.name}")
        version = min(high, api.versions[1])
        lowest = max(version_min, api.versions[0])
        if version < max(low, lowest):
            raise UnsupportedVersion(
                f"{self._name} serves {api.name} in versions {low} to {high}, this node speaks "
                f"{lowest} to {api.versions[1]}"
            )
        return version

    def _ask_versions(self, version: int) -> None:
        message = ApiVersionsRequest(
            client_software_name=NODE_SOFTWARE_NAME, client_software_version=VERSION
        )
        self._write(LinkRequest(message, ApiVersionsResponse, self._learn), version)

    def _learn(self, answer: ApiVersionsResponse | Exception) -> None:
        if isinstance(answer, Exception):
            return  # the connection is lost
        if answer.error_code:
            self.end(f"{self._name} answered ApiVersions with error {answer.error_code}")
            return
        self._known_versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }
        if self._login is None:
            self.logged_in()
        else:
            self._login.begin(self, self._known_versions)

    # Login (link_login.LoginCarrier)

    def ask(
        self, message: object, expect: type[R], version: int, answered: Callable[..., None]
    ) -> None:
        self._write(LinkRequest(message, expect, answered), version)

    def login_begins(self) -> None:
        self.versions = None

    def logged_in(self) -> None:
        """Send the requests that wait."""
        self.versions = self._known_versions
        self._opened()

    # Receiver

    @property
    def room(self) -> memoryview | None:
        return self._frames.room

    def received(self, data: memoryview) -> None:
        try:
            for frame in self._frames.received(data):
                self._take(frame)
                if self._over:
                    return
        except Malformed as problem:
            self.end(f"{self._name} sent {problem}")

    def filled(self, size: int) -> None:
        frame = self._frames.filled(size)
        if frame is not None:
            self._take(frame)

    def _take(self, frame: Buffer) -> None:
        """Give a response to the oldest request in flight."""
        if not self._in_flight:
            self.end(f"{self._name} sent a response without a request")
            return
        request = self._in_flight[0]
        key, version = request.api.key, request.version
        try:
            correlation_id, position = parse_response_header(key, version, frame)
            if correlation_id != request.correlation_id:
                raise Malformed(f"it has correlation id {correlation_id}")
            if key == API_VERSIONS and _rejects_version(frame, position, version):
                self._in_flight.popleft()
                self._ask_versions(0)
                return
            answer = read(request.expect, version, frame, position)
        except Malformed as problem:
            self.end(f"{self._name} sent no response to {request.api.name}: {problem}")
            return
        self._in_flight.popleft()
        request.finish(answer)

    def sent(self) -> None:
        """Ignore this: a link counts no unsent bytes."""

    def closed(self) -> None:
        self.end(f"{self._name} closed the connection")

    # End

    def end(self, reason: str) -> None:
        """Close the connection; every request in flight fails."""
        if self._over:
            return
        self._over = True
        self.versions = None
        if self._login is not None:
            self._login.stop()
        self._peer.close()
        self._lost(reason)
        for request in self._in_flight:
            request.finish(LinkFailed(reason, unsent=False))
        self._in_flight.clear()


def _rejects_version(frame: Buffer, position: int, version: int) -> bool:
    """Return whether the peer knows only older versions of ApiVersions; such an answer is v0."""
    if version == 0 or len(frame) < position + _ERROR.size:
        return False
    return bool(_ERROR.unpack_from(frame, position)[0] == UnsupportedVersion.code)
