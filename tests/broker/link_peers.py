"""A scripted node at the other end of links, in a simulated network."""

from collections.abc import Callable
from typing import TypeVar

from penstock.broker.links.link import Link, LinkSettings
from penstock.errors import UnsupportedVersion
from penstock.testing.sim.world import Simulation, SimWorld
from penstock.wire.codec import read
from penstock.wire.frame import API_VERSIONS, parse_request_header, response_frame
from penstock.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from penstock.wire.messages.k52_vote import VoteRequest
from penstock.wire.messages.k60_describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.world import Peer, TlsSettings

R = TypeVar("R")

VOTE, DESCRIBE_CLUSTER = 52, 60
SETTINGS = LinkSettings("node-1", connect_timeout_ms=500, backoff_ms=50, backoff_ms_max=400)
ADDRESS = ("far", 9092)


class ScriptedNode:
    """Answers ApiVersions; what it answers to DescribeCluster is the test's."""

    def __init__(self, world: SimWorld, tls: TlsSettings | None = None) -> None:
        self.world = world
        self.rejected: list[str] = []
        self.peers: list[Peer] = []
        self.requests: list[DescribeClusterRequest] = []
        self.votes: list[VoteRequest] = []  # without an answer
        self.versions_asked: list[int] = []
        self.newest_api_versions = 4
        self.serves: dict[int, tuple[int, int]] = {18: (0, 4), DESCRIBE_CLUSTER: (0, 2)}
        self.answers = True
        self.tells_versions = True
        self.raw: bytes | None = None  # sent instead of an answer
        self.listening = world.network.listen(
            *ADDRESS,
            self._accept,
            tls=tls,
            rejected=lambda _address, reason: self.rejected.append(reason),
        )

    def _accept(self, peer: Peer) -> "ScriptedConnection":
        self.peers.append(peer)
        return ScriptedConnection(self, peer)

    def answer(self, peer: Peer, frame: bytes) -> None:
        key, version, correlation_id, _client, position = parse_request_header(frame)
        if key == API_VERSIONS:
            self.versions_asked.append(version)
            if self.tells_versions:
                self._tell_versions(peer, version, correlation_id)
            return
        if key == VOTE:
            self.votes.append(read(VoteRequest, version, frame, position))
            return
        self.requests.append(read(DescribeClusterRequest, version, frame, position))
        if self.raw is not None:
            peer.send([self.raw])
        elif self.answers:
            response = DescribeClusterResponse(cluster_id=f"v{version}")
            peer.send([response_frame(key, version, correlation_id, response)])

    def _tell_versions(self, peer: Peer, version: int, correlation_id: int) -> None:
        known = version <= self.newest_api_versions
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.serves.items()
        ]
        response = ApiVersionsResponse(
            error_code=0 if known else UnsupportedVersion.code, api_keys=keys
        )
        answered_in = version if known else 0
        peer.send([response_frame(API_VERSIONS, answered_in, correlation_id, response)])


class ScriptedConnection:
    room: memoryview | None = None

    def __init__(self, node: ScriptedNode, peer: Peer) -> None:
        self._node = node
        self._peer = peer
        self._bytes = bytearray()

    def received(self, data: memoryview) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            size = int.from_bytes(self._bytes[:4])
            if len(self._bytes) < 4 + size:
                return
            frame = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            self._node.answer(self._peer, frame)

    def filled(self, size: int) -> None:
        raise AssertionError(f"there was no room for {size} bytes")

    def sent(self) -> None: ...
    def closed(self) -> None: ...


class LinkWorlds:
    """A node with a link, and the scripted node that the link leads to."""

    def __init__(
        self,
        seed: int = 1,
        *,
        listens: bool = True,
        tls: tuple[TlsSettings | None, TlsSettings | None] = (None, None),
    ) -> None:
        self.simulation = Simulation(seed)
        self.near = SimWorld(self.simulation, "near")
        self.far = SimWorld(self.simulation, "far")
        self.near_tls, far_tls = tls
        self.node = ScriptedNode(self.far, far_tls)
        if not listens:
            self.node.listening.close()
        self.link = Link(self.near, *ADDRESS, SETTINGS, lambda: self.near_tls)

    def ask(self, timeout_ms: float = 2_000) -> "Asked":
        return Asked(self, timeout_ms)

    def run_until(self, condition: Callable[[], bool]) -> None:
        self.simulation.run_until(condition, limit_ms=60_000)


class Asked:
    """A DescribeCluster request and what became of it."""

    def __init__(self, worlds: LinkWorlds, timeout_ms: float) -> None:
        self._worlds = worlds
        self.results: list[DescribeClusterResponse | Exception] = []
        self.at_ms: float | None = None
        self.request = worlds.link.request(
            DescribeClusterRequest(), DescribeClusterResponse, timeout_ms, self._answered
        )

    def _answered(self, result: DescribeClusterResponse | Exception) -> None:
        self.results.append(result)
        self.at_ms = self._worlds.simulation.now_ms

    def wait(self) -> DescribeClusterResponse | Exception:
        self._worlds.run_until(lambda: bool(self.results))
        (result,) = self.results
        return result
