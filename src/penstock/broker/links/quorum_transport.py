"""The requests of the metadata quorum over links: elections apart from fetches, which wait."""

import logging
from collections.abc import Callable, Sequence

from penstock.broker.links.link import Link
from penstock.broker.links.links import LinkPurpose, Links
from penstock.errors import InconsistentClusterId, UnsupportedVersion
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.voters import VoterEndpoint
from penstock.wire.apis import response_class
from penstock.wire.messages.k01_fetch import FetchRequest
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest
from penstock.wire.messages.k60_describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.wire.schema import schema_of
from penstock.world import Timers

log = logging.getLogger("penstock.quorum")

FIRST_BOOTSTRAP_ID = -2  # then downwards, one for each address
CONTROLLERS, CONTROLLERS_SINCE = 2, 1  # a type of endpoint, and the version of DescribeCluster
PRE_VOTE_SINCE = 2  # of Vote: an older one would ask for a vote that binds


class LinkTransport:
    """Sends the requests of the quorum (raft.protocols.QuorumTransport).

    `bootstrap` are the addresses of controller.quorum.bootstrap.servers. A node that fails is
    logged once, and again after it has answered. So is a node of another cluster; its answer waits
    until the id of that cluster is logged.
    """

    def __init__(
        self, links: Links, timers: Timers, bootstrap: Sequence[tuple[str, int]] = ()
    ) -> None:
        self._links = links
        self._timers = timers
        self._bootstrap = bootstrap
        self._failing: set[int] = set()
        self._strangers: set[int] = set()

    def send(
        self,
        node_id: int,
        endpoint: VoterEndpoint | None,
        request: QuorumRequest,
        timeout_ms: float,
        answered: Callable[[QuorumResponse | None], None],
    ) -> None:
        """Send a request to a voter, or to the bootstrap address with a negative id."""
        address = self._address_of(node_id, endpoint)
        if address is None:
            self._timers.soon(lambda: answered(None))
            return
        waits = isinstance(request, FetchRequest | FetchSnapshotRequest)
        link = self._links.to(node_id, address, LinkPurpose.QUORUM if waits else LinkPurpose.VOTE)
        key = schema_of(type(request)).key
        assert key is not None, "a request has a key"
        asks_pre_vote = _is_pre_vote(request)

        def finish(result: QuorumResponse | Exception) -> None:
            if asks_pre_vote and isinstance(result, UnsupportedVersion):
                answered(VoteResponse(error_code=UnsupportedVersion.code))
            elif isinstance(result, Exception):
                self._note_failure(node_id, result)
                answered(None)
            else:
                self._failing.discard(node_id)
                if result.error_code != InconsistentClusterId.code:
                    self._strangers.discard(node_id)
                elif node_id not in self._strangers and not self._links.is_closed:
                    self._strangers.add(node_id)
                    self._name_stranger(
                        link, request.cluster_id, timeout_ms, lambda: answered(result)
                    )
                    return
                answered(result)

        version_min = PRE_VOTE_SINCE if asks_pre_vote else 0
        link.request(request, response_class(key), timeout_ms, finish, version_min)

    def _address_of(self, node_id: int, endpoint: VoterEndpoint | None) -> tuple[str, int] | None:
        if node_id <= FIRST_BOOTSTRAP_ID:
            return self._bootstrap[FIRST_BOOTSTRAP_ID - node_id]
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _name_stranger(
        self, link: Link, own_id: str | None, timeout_ms: float, done: Callable[[], None]
    ) -> None:
        """Log the cluster of a controller that belongs to another one."""

        def described(result: DescribeClusterResponse | Exception) -> None:
            known = isinstance(result, DescribeClusterResponse) and result.cluster_id
            log.warning(
                "the controller at %s:%d belongs to %s, and the directories of this node to cluster"
                " %s: correct controller.quorum.bootstrap.servers or controller.quorum.voters, or"
                " log.dirs",
                *link.address,
                f"cluster {known}" if known else "another cluster",
                own_id,
            )
            done()

        question = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        link.request(question, DescribeClusterResponse, timeout_ms, described, CONTROLLERS_SINCE)

    def _note_failure(self, node_id: int, failure: Exception) -> None:
        if self._links.is_closed:
            return
        level = logging.DEBUG if node_id in self._failing else logging.WARNING
        self._failing.add(node_id)
        log.log(level, "the metadata quorum waits for a controller: %s", failure)


def _is_pre_vote(request: QuorumRequest) -> bool:
    return isinstance(request, VoteRequest) and request.topics[0].partitions[0].pre_vote
