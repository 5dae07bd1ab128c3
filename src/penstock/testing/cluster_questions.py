"""Questions of a cluster for tests to its nodes: which node leads, which replicas are in sync."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from penstock.client.transport.connection import CannotReach, Connection
from penstock.errors import from_code
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k55_describe_quorum as k55

ANSWER_MS_MAX = 2_000
LOOK_AGAIN_SECONDS = 0.02
NO_NODE = -1
LISTED_MAX = 10

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


def wait_for_replicas(
    addresses: Mapping[int, HostAndPort], topic: str | None, timeout_s: float
) -> None:
    """Wait until the replicas of a topic, or of all, are in sync by the metadata of every node:
    one of them may not have heard of a loss yet. Raise TimeoutError with the others, at once if
    there is no node to ask."""
    if not addresses:
        raise TimeoutError("no replica is in sync: all nodes are stopped, killed or paused")
    lagging: list[str] = []

    def is_whole() -> bool:
        lagging[:] = lagging_partitions(addresses, topic)
        return not lagging

    try:
        wait_until(is_whole, timeout_s)
    except TimeoutError:
        listed = "; ".join(lagging[:LISTED_MAX])
        more = f"; and {len(lagging) - LISTED_MAX} more" if len(lagging) > LISTED_MAX else ""
        raise TimeoutError(f"not in sync within {timeout_s:g} seconds: {listed}{more}") from None


def lagging_partitions(addresses: Mapping[int, HostAndPort], topic: str | None) -> list[str]:
    """Return a text for each partition with a replica out of sync, and for each silent node."""
    request = k03.MetadataRequest(
        topics=None if topic is None else [k03.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
    )
    found: dict[str, None] = {}
    for node, address in addresses.items():
        answer = _ask(address, request, k03.MetadataResponse)
        if answer is None:
            found[f"node {node} does not answer"] = None
            continue
        for each in answer.topics:
            if each.error_code:  # this node may not have the topic yet
                found[f"node {node}: {each.name}: {from_code(each.error_code)}"] = None
            for partition in each.partitions:
                in_sync = [member for member in partition.isr_nodes if member in addresses]
                if partition.leader_id == NO_NODE or len(in_sync) < len(partition.replica_nodes):
                    name = f"{each.name}-{partition.partition_index}"
                    found[f"{name} has {in_sync} of {partition.replica_nodes} in sync"] = None
    return list(found)


def _ask(address: HostAndPort, request: object, expect: type[R]) -> R | None:
    try:
        with Connection(*address, timeout_ms=ANSWER_MS_MAX) as connection:
            return connection.request(request, expect)
    except CannotReach:
        return None
