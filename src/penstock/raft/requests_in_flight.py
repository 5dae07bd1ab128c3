"""Requests in flight: at most one per node, with a timeout, and a pause after each failure."""

from dataclasses import dataclass

from penstock.raft.quorum_events import QuorumRequest
from penstock.raft.roles import FOREVER


@dataclass(frozen=True, slots=True)
class OutstandingRequest:
    """A request without an answer so far."""

    request_id: int
    node_id: int
    request: QuorumRequest
    deadline_ms: float


class OutstandingRequests:
    """All requests of a replica that wait for an answer, and nodes that failed a moment ago."""

    def __init__(self, timeout_ms: float, backoff_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._by_node: dict[int, OutstandingRequest] = {}
        self._backoff_until_ms: dict[int, float] = {}
        self._last_id = 0

    def begin(self, node_id: int, request: QuorumRequest, now_ms: float) -> int:
        """Note a request to a node that is ready; return the id of the request."""
        assert node_id not in self._by_node, "one request per node is in flight"
        self._last_id += 1
        deadline_ms = now_ms + self._timeout_ms
        self._by_node[node_id] = OutstandingRequest(self._last_id, node_id, request, deadline_ms)
        return self._last_id

    def take(self, request_id: int) -> OutstandingRequest | None:
        """Return the request of an answer; None for one that is no longer expected."""
        for node_id, each in self._by_node.items():
            if each.request_id == request_id:
                del self._by_node[node_id]
                return each
        return None

    def back_off(self, node_id: int, now_ms: float) -> None:
        self._backoff_until_ms[node_id] = now_ms + self._backoff_ms

    def expire(self, now_ms: float) -> None:
        """Forget requests whose timeout has passed, and pauses that are over.

        A node that did not answer in time is paused, so the next fetch tries another one.
        """
        if not self._by_node and not self._backoff_until_ms:
            return
        for node_id in [n for n, until_ms in self._backoff_until_ms.items() if until_ms <= now_ms]:
            del self._backoff_until_ms[node_id]
        for each in [each for each in self._by_node.values() if each.deadline_ms <= now_ms]:
            del self._by_node[each.node_id]
            self.back_off(each.node_id, now_ms)

    def is_ready(self, node_id: int) -> bool:
        return node_id not in self._by_node and node_id not in self._backoff_until_ms

    @property
    def has_any(self) -> bool:
        return bool(self._by_node)

    def clear(self) -> None:
        """Forget everything: answers to earlier requests do not count in another role."""
        self._by_node.clear()
        self._backoff_until_ms.clear()

    @property
    def deadline_ms(self) -> float:
        deadline_ms = FOREVER
        for each in self._by_node.values():
            deadline_ms = min(deadline_ms, each.deadline_ms)
        for until_ms in self._backoff_until_ms.values():
            deadline_ms = min(deadline_ms, until_ms)
        return deadline_ms
