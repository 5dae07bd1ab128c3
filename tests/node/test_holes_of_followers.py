"""A leader that lacks offsets, as after a compaction, and followers that copy its log."""

import pytest
from replicated_topic import REPLICATED, WRITTEN_MS, ReplicatedTopic, stored_values

from penstock.log.holes import Hole, record_holes
from penstock.testing.sim.cluster import SimCluster
from penstock.wire.batch import Record, build_batch

SEED = 5


@pytest.fixture(params=["page-cache", "fsync"])
def topic(request: pytest.FixtureRequest) -> ReplicatedTopic:
    """Return a topic with the offsets 0, 10 and 11 on all replicas."""
    cluster = SimCluster(SEED, settings=REPLICATED | {"log.durability": request.param})
    cluster.start()
    topic = ReplicatedTopic(cluster, min_insync_replicas="2")
    topic.produce(b"before")
    log = topic.replica(topic.leader).log
    record_holes(log, (Hole(1, 10),), lambda _failure: None)
    topic.run_until(lambda: log.holes.cover(1, 10))
    record = Record(10, WRITTEN_MS, None, b"behind")
    epoch = log.latest_epoch
    log.append_as_follower(build_batch([record], base_offset=10, leader_epoch=epoch), WRITTEN_MS)
    assert topic.produce(b"after") == 0
    topic.run_until_equal()
    return topic


def test_followers_copy_the_records_behind_a_hole(topic: ReplicatedTopic) -> None:
    wanted = [b"before", b"behind", b"after"]
    assert [stored_values(each) for each in topic.replicas()] == [wanted] * 3


@pytest.mark.parametrize("end", ["kill", "cut_power"])
def test_a_follower_with_a_hole_returns(topic: ReplicatedTopic, end: str) -> None:
    follower = next(each for each in topic.cluster.running if each.node_id != topic.leader)
    getattr(follower, end)()
    follower.start()
    topic.cluster.run_until_ready()
    topic.run_until_in_sync()
    assert not topic.replica(follower.node_id).is_offline


def test_the_hole_is_on_record_before_the_batch_behind_it(
    topic: ReplicatedTopic,
) -> None:
    assert [each.log.holes.cover(1, 10) for each in topic.replicas()] == [True] * 3
