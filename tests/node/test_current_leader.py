"""Errors of Produce and Fetch name the leader of the partition, and where clients reach it."""

from typing import Any

import pytest
from replicated_topic import ALL_BYTES, REPLICATED, ReplicatedTopic, call

from penstock.errors import FencedLeaderEpoch, NotLeaderOrFollower
from penstock.testing.sim.client import FETCH, PRODUCE
from penstock.testing.sim.cluster import SimCluster
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k01_fetch as k01

FETCH_VERSION = 18


@pytest.fixture(scope="module")
def topic() -> ReplicatedTopic:
    cluster = SimCluster(5, settings=REPLICATED)
    cluster.start()
    return ReplicatedTopic(cluster)


def follower_of(topic: ReplicatedTopic) -> int:
    return next(each for each in (1, 2, 3) if each != topic.leader)


def produce(topic: ReplicatedTopic, node_id: int, version: int) -> Any:
    records = build_batch([Record(0, 1_700_000_000_000, None, b"a")])
    data = k00.PartitionProduceData(index=0, records=records)
    asked = k00.TopicProduceData(
        name=topic.partition.topic, topic_id=topic.topic_id, partition_data=[data]
    )
    message = k00.ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[asked])
    return call(topic.cluster, node_id, PRODUCE, version, message)


def fetch(topic: ReplicatedTopic, node_id: int, epoch: int, version: int = FETCH_VERSION) -> Any:
    wanted = k01.FetchPartition(
        partition=0, current_leader_epoch=epoch, partition_max_bytes=ALL_BYTES
    )
    asked = k01.FetchTopic(topic_id=topic.topic_id, partitions=[wanted])
    message = k01.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=ALL_BYTES, topics=[asked])
    return call(topic.cluster, node_id, FETCH, version, message)


def endpoints_of(response: Any) -> list[tuple[int, str, int]]:
    return [(each.node_id, each.host, each.port) for each in response.node_endpoints]


def endpoint_of(topic: ReplicatedTopic, node_id: int) -> tuple[int, str, int]:
    endpoint = topic.cluster.nodes[node_id].image.brokers[node_id].endpoint("PLAINTEXT")
    assert endpoint is not None
    return node_id, endpoint.host, endpoint.port


@pytest.mark.parametrize("version", [10, 12, 13])
def test_a_produce_at_a_follower_is_sent_to_the_leader(
    topic: ReplicatedTopic, version: int
) -> None:
    response = produce(topic, follower_of(topic), version)
    (told,) = response.responses[0].partition_responses
    assert told.error_code == NotLeaderOrFollower.code
    leader = told.current_leader
    assert (leader.leader_id, leader.leader_epoch) == (topic.leader, topic.state.leader_epoch)
    assert endpoints_of(response) == [endpoint_of(topic, topic.leader)]


def test_a_produce_at_the_leader_names_no_leader(topic: ReplicatedTopic) -> None:
    response = produce(topic, topic.leader, 13)
    (told,) = response.responses[0].partition_responses
    assert (told.error_code, told.current_leader.leader_id) == (0, -1)
    assert response.node_endpoints == []


def test_a_fetch_at_a_follower_is_sent_to_the_leader(topic: ReplicatedTopic) -> None:
    response = fetch(topic, follower_of(topic), -1)
    (told,) = response.responses[0].partitions
    assert told.error_code == NotLeaderOrFollower.code
    assert told.current_leader.leader_id == topic.leader
    assert endpoints_of(response) == [endpoint_of(topic, topic.leader)]


def test_a_fetch_below_v16_gets_no_endpoints(topic: ReplicatedTopic) -> None:
    response = fetch(topic, follower_of(topic), -1, version=15)
    (told,) = response.responses[0].partitions
    assert told.current_leader.leader_id == topic.leader
    assert response.node_endpoints == []


def test_a_fetch_with_an_old_epoch_hears_of_the_next_leader() -> None:
    cluster = SimCluster(5, settings=REPLICATED)
    cluster.start()
    topic = ReplicatedTopic(cluster)
    former, former_epoch = topic.leader, topic.state.leader_epoch
    cluster.nodes[former].kill()
    topic.run_until(lambda: topic.leader not in (-1, former))
    response = fetch(topic, topic.leader, former_epoch)
    (told,) = response.responses[0].partitions
    assert told.error_code == FencedLeaderEpoch.code
    assert told.current_leader.leader_epoch == topic.state.leader_epoch
    assert endpoints_of(response) == [endpoint_of(topic, topic.leader)]
