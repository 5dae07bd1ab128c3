"""Finds the node for a request, and retries after that node has moved.

The controller answers for the cluster, leaders for their partitions, coordinators for their groups
and transactional ids, every broker for itself. A request is retried RETRIES_MAX times at most; then
the last error is the result.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from penstock.client.cluster.limits import CallLimit
from penstock.client.cluster.nodes import Nodes
from penstock.client.cluster.topics import ask_topics
from penstock.client.namespace import NO_NAMESPACE, Namespace
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.client.values import TopicDescription
from penstock.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    KafkaError,
    LeaderNotAvailable,
    NotController,
    NotCoordinator,
    UnknownServerError,
    UnknownTopicOrPartition,
    from_code,
)
from penstock.model import TopicPartition
from penstock.wire.messages import k10_find_coordinator

K = TypeVar("K")
R = TypeVar("R")

API_TIMEOUT_MS = 60_000
RETRY_PAUSE_MS = 100
RETRIES_MAX = 50

MANY_COORDINATORS_FROM = 4  # the version of FindCoordinator that takes many keys
MOVING = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class KeyType(IntEnum):
    """The type of a coordinator's key."""

    GROUP = 0
    TRANSACTION = 1


class Routes:
    """The routing of requests in one cluster."""

    def __init__(
        self,
        nodes: Nodes,
        limit: CallLimit | None = None,
        namespace: Namespace = NO_NAMESPACE,
    ) -> None:
        self.nodes = nodes
        self.limit = limit or CallLimit(API_TIMEOUT_MS)
        self.namespace = namespace

    def of_controller(
        self, keys: Sequence[K], ask: Callable[[Connection], Mapping[K, R | KafkaError]]
    ) -> dict[K, R | KafkaError]:
        """Ask the controller, and follow it where it moves."""
        for attempt in range(RETRIES_MAX):
            _pause_before(attempt)
            answer = ask(self.nodes.controller())
            if not any(isinstance(each, NotController) for each in answer.values()):
                return _all_of(keys, answer)
            self.nodes.refresh()
        raise NotController("no controller was found; the cluster may be without a quorum")

    def of_controller_as_one(self, ask: Callable[[Connection], R | KafkaError]) -> R:
        """Return the controller's answer to a request that succeeds or fails as a whole. Raise the
        answer if it is a KafkaError."""
        answer = self.of_controller([""], lambda connection: {"": ask(connection)})[""]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def of_leaders(
        self,
        partitions: Sequence[TopicPartition],
        ask: Callable[
            [Connection, Sequence[TopicPartition]], Mapping[TopicPartition, R | KafkaError]
        ],
    ) -> dict[TopicPartition, R | KafkaError]:
        """Ask each partition's leader, again after leadership has moved."""
        found: dict[TopicPartition, R | KafkaError] = {}
        waiting = list(dict.fromkeys(partitions))
        attempt = 0
        while waiting and attempt < RETRIES_MAX:
            _pause_before(attempt)
            for leader, mine in self._by_leader(waiting, found).items():
                try:
                    connection = self.nodes.node(leader)
                except NotAuthenticated:
                    raise
                except CannotReach as problem:
                    found.update(dict.fromkeys(mine, LeaderNotAvailable(str(problem))))
                else:
                    found.update(_all_of(mine, ask(connection, mine)))
            waiting = [each for each in waiting if _worth_retrying(found[each])]
            attempt += 1
        return {each: found[each] for each in partitions}

    def of_coordinators(
        self,
        kind: KeyType,
        keys: Sequence[str],
        ask: Callable[[int, Connection, Sequence[str]], Mapping[str, R | KafkaError]],
        again: tuple[type[KafkaError], ...] = MOVING,
    ) -> dict[str, R | KafkaError]:
        """Ask each key's coordinator, with its id, again while it moves or loads."""
        if self.namespace and "" in keys:
            raise InvalidGroupId("a group without a name has no place in a namespace")
        found: dict[str, R | KafkaError] = {}
        waiting = list(dict.fromkeys(keys))
        attempt = 0
        while waiting and attempt < RETRIES_MAX:
            _pause_before(attempt)
            for node_id, mine in self._by_coordinator(kind, waiting, found).items():
                try:
                    connection = self.nodes.node(node_id)
                except BrokerNotAvailable as missing:
                    found.update(dict.fromkeys(mine, CoordinatorNotAvailable(missing.message)))
                else:
                    found.update(_all_of(mine, ask(node_id, connection, mine)))
            waiting = [each for each in waiting if isinstance(found[each], again)]
            attempt += 1
        return {key: found[key] for key in keys}

    def of_every_broker(self, ask: Callable[[Connection], R | KafkaError]) -> dict[int, R]:
        """Ask each broker; one that cannot answer fails the whole request."""
        self.nodes.refresh()
        return {each.node_id: self._of_broker(each.node_id, ask) for each in self.nodes.brokers}

    def _of_broker(self, node_id: int, ask: Callable[[Connection], R | KafkaError]) -> R:
        answer = ask(self.nodes.node(node_id))
        for attempt in range(1, RETRIES_MAX):
            if not isinstance(answer, CoordinatorLoadInProgress):
                break
            _pause_before(attempt)
            answer = ask(self.nodes.node(node_id))
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def _by_leader(
        self, partitions: Sequence[TopicPartition], failed: dict[TopicPartition, R | KafkaError]
    ) -> dict[int, list[TopicPartition]]:
        topics = ask_topics(self.nodes, list(dict.fromkeys(each.topic for each in partitions)))
        groups: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            leader = _leader_of(topics[each.topic], each)
            if isinstance(leader, KafkaError):
                failed[each] = leader
            else:
                groups.setdefault(leader, []).append(each)
        return groups

    def _by_coordinator(
        self, kind: KeyType, keys: Sequence[str], failed: dict[str, R | KafkaError]
    ) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for key, node_id in _all_of(keys, find_coordinators(self.nodes.any(), kind, keys)).items():
            if isinstance(node_id, KafkaError):
                failed[key] = node_id
            else:
                groups.setdefault(node_id, []).append(key)
        return groups


def find_coordinators(
    connection: Connection, kind: KeyType, keys: Sequence[str]
) -> dict[str, int | KafkaError]:
    """Return the id of each key's coordinator, as this broker knows it."""
    wire = k10_find_coordinator
    many = connection.version_for(wire.FindCoordinatorRequest()) >= MANY_COORDINATORS_FROM
    found: dict[str, int | KafkaError] = {}
    for asked in [list(keys)] if many else [[key] for key in keys]:
        request = wire.FindCoordinatorRequest(
            key=asked[0], key_type=int(kind), coordinator_keys=asked
        )
        answer = connection.request(request, wire.FindCoordinatorResponse)
        only = wire.Coordinator(
            key=asked[0],
            node_id=answer.node_id,
            error_code=answer.error_code,
            error_message=answer.error_message,
        )
        for each in answer.coordinators if many else [only]:
            failed = each.error_code != 0
            found[each.key] = (
                from_code(each.error_code, each.error_message) if failed else each.node_id
            )
    return found


def _all_of(keys: Sequence[K], answer: Mapping[K, R | KafkaError]) -> dict[K, R | KafkaError]:
    """Return one result per key, also for keys that the server left out."""
    missing = UnknownServerError("the server did not answer for it")
    return {key: answer.get(key, missing) for key in keys}


def _pause_before(attempt: int) -> None:
    """Pause before every attempt but the first."""
    if attempt:
        time.sleep(RETRY_PAUSE_MS / 1000)


def _worth_retrying(result: object) -> bool:
    """Return whether a retry may help: leadership moves, a missing topic stays missing."""
    return (
        isinstance(result, KafkaError)
        and result.retriable
        and not isinstance(result, UnknownTopicOrPartition)
    )


def _leader_of(topic: TopicDescription | KafkaError, each: TopicPartition) -> int | KafkaError:
    if isinstance(topic, KafkaError):
        return topic
    for partition in topic.partitions:
        if partition.partition == each.partition:
            return partition.leader if partition.leader >= 0 else LeaderNotAvailable()
    last = len(topic.partitions) - 1
    return UnknownTopicOrPartition(
        f"topic {each.topic} has no partition {each.partition}; its last one is {last}"
    )
