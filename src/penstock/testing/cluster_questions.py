"""Questions of a cluster for tests to one of its nodes: which node leads."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.client.transport.connection import CannotReach, Connection
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k55_describe_quorum as k55

ANSWER_MS_MAX = 2_000
LOOK_AGAIN_SECONDS = 0.02
NO_NODE = -1

R = TypeVar("R")

HostAndPort = tuple[str, int]


def wait_until(condition: Callable[[], object], timeout_s: float) -> None:
    """Wait until a condition is true; raise TimeoutError at the end of the time."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= until_s:
            raise TimeoutError(f"the condition did not become true within {timeout_s:g} seconds")
        time.sleep(LOOK_AGAIN_SECONDS)


def wait_for_controller(addresses: Sequence[HostAndPort], timeout_s: float) -> int:
    """Return the leader of the metadata quorum; raise TimeoutError if none is elected in time."""
    found: list[int] = []

    def is_known() -> bool:
        leader = controller_of(addresses)
        if leader is not None:
            found.append(leader)
        return leader is not None

    wait_until(is_known, timeout_s)
    return found[0]


def controller_of(addresses: Iterable[HostAndPort]) -> int | None:
    """Return the leader of the metadata quorum, by the first node that knows one."""
    topic = k55.RequestTopicData(
        topic_name=CLUSTER_METADATA_TOPIC,
        partitions=[k55.RequestPartitionData(partition_index=0)],
    )
    request = k55.DescribeQuorumRequest(topics=[topic])
    for address in addresses:
        answer = _ask(address, request, k55.DescribeQuorumResponse)
        if answer is None or answer.error_code or not answer.topics:
            continue
        found = answer.topics[0].partitions[0]
        if not found.error_code and found.leader_id != NO_NODE:
            return found.leader_id
    return None


def partition_leader(addresses: Iterable[HostAndPort], topic: str, partition: int) -> int | None:
    """Return the leader of a partition, by the first node that answers; None without one."""
    request = k03.MetadataRequest(
        topics=[k03.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    for address in addresses:
        answer = _ask(address, request, k03.MetadataResponse)
        for each in answer.topics[0].partitions if answer is not None else ():
            if each.partition_index == partition:
                return None if each.leader_id == NO_NODE else each.leader_id
        if answer is not None:
            raise ValueError(f"there is no partition {partition} of topic {topic}")
    return None


def _ask(address: HostAndPort, request: object, expect: type[R]) -> R | None:
    try:
        with Connection(*address, timeout_ms=ANSWER_MS_MAX) as connection:
            return connection.request(request, expect)
    except CannotReach:
        return None
