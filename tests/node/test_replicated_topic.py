"""Three simulated nodes with replicas of one partition: no acknowledged record is lost."""

from collections.abc import Iterator

import pytest
from replicated_topic import REPLICATED, ReplicatedTopic, stored_values

from own_thread import patch_own_thread
from penstock.broker.replication.followers import FollowedReplica
from penstock.broker.startup.startup import CLEAN_MARKER
from penstock.errors import NotEnoughReplicas, NotLeaderOrFollower
from penstock.node import PenstockNode
from penstock.testing.sim.cluster import SimCluster
from penstock.testing.sim.cluster.sim_cluster import SimNode
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k64_unregister_broker as k64

SEED = 5


@pytest.fixture(params=["page-cache", "fsync"])
def cluster(request: pytest.FixtureRequest) -> SimCluster:
    made = SimCluster(SEED, settings=REPLICATED | {"log.durability": request.param})
    made.start()
    return made


@pytest.fixture
def topic(cluster: SimCluster) -> ReplicatedTopic:
    return ReplicatedTopic(cluster, min_insync_replicas="2")


def test_each_replica_gets_the_records(topic: ReplicatedTopic) -> None:
    assert topic.produce(b"a", b"b") == 0
    topic.run_until_equal()
    assert [stored_values(each) for each in topic.replicas()] == [[b"a", b"b"]] * 3


def test_a_record_is_committed_when_every_replica_in_sync_has_it(topic: ReplicatedTopic) -> None:
    assert topic.produce(b"a") == 0
    assert [each.log.end_offset for each in topic.replicas()] == [1, 1, 1]


def test_consumers_read_what_is_committed(topic: ReplicatedTopic) -> None:
    topic.produce(b"a")
    assert topic.values() == [b"a"]


@pytest.mark.parametrize("end", ["stop", "kill", "cut_power"])
def test_another_replica_leads_after_the_end_of_the_leader(
    topic: ReplicatedTopic, end: str
) -> None:
    assert topic.produce(b"a") == 0
    former = topic.leader
    getattr(topic.cluster.nodes[former], end)()
    topic.run_until(lambda: topic.leader not in (-1, former))
    topic.run_until(lambda: topic.replica(topic.leader).leading)
    assert topic.produce(b"b") == 0
    assert topic.values() == [b"a", b"b"]


@pytest.mark.parametrize("end", ["stop", "kill", "cut_power"])
def test_a_replica_that_returns_is_in_sync_again(topic: ReplicatedTopic, end: str) -> None:
    former = topic.cluster.nodes[topic.leader]
    topic.produce(b"a")
    getattr(former, end)()
    topic.run_until(lambda: former.is_over and topic.leader not in (-1, former.node_id))
    topic.produce(b"b")
    former.start()
    topic.run_until_in_sync()
    assert stored_values(topic.replica(former.node_id)) == [b"a", b"b"]


def replaced_leader(topic: ReplicatedTopic) -> SimNode:
    """Cut the leader off until another one leads; return the former one. Its last record is not
    committed."""
    former = topic.cluster.nodes[topic.leader]
    others = [each.host for each in topic.cluster.running if each is not former]
    topic.cluster.simulation.network.separate([former.host], others)
    topic.produce(b"lost", acks=1, node_id=former.node_id)
    topic.run_until(lambda: topic.leader not in (-1, former.node_id))
    return former


def test_records_of_a_former_leader_that_were_not_committed_are_cut(topic: ReplicatedTopic) -> None:
    topic.produce(b"a")
    former = replaced_leader(topic)
    assert topic.produce(b"kept") == 0
    topic.cluster.simulation.network.heal()
    topic.run_until_in_sync()
    topic.run_until_equal()
    assert stored_values(topic.replica(former.node_id)) == [b"a", b"kept"]


def test_a_former_leader_whose_records_are_all_deleted_begins_anew(topic: ReplicatedTopic) -> None:
    topic.produce(b"a")
    former = replaced_leader(topic)
    assert topic.produce(b"b", b"c", b"d") == 0
    topic.replica(topic.leader).delete_before(2)  # the end of the former leader's log
    topic.cluster.simulation.network.heal()
    topic.run_until_in_sync()
    topic.run_until_equal()
    assert stored_values(topic.replica(former.node_id)) == [b"b", b"c", b"d"]
    assert topic.replica(former.node_id).log.start_offset == 2


def test_a_follower_that_was_killed_behind_a_truncation_serves_again(
    topic: ReplicatedTopic,
) -> None:
    topic.produce(b"a")
    former = replaced_leader(topic)
    assert topic.produce(b"kept") == 0
    former.stop()  # its recovery point covers the record that is to be cut
    topic.run_until(lambda: former.is_over)
    topic.cluster.simulation.network.heal()
    former.start()
    topic.run_until(lambda: 0 in former.broker.replicas.by_name.get("t", {}))
    cut = topic.replica(former.node_id).log
    topic.run_until(lambda: cut.end_offset == 1 and not cut.truncating)
    former.kill()
    former.start()
    topic.run_until_in_sync()
    assert stored_values(topic.replica(former.node_id)) == [b"a", b"kept"]


def test_a_follower_warns_once_of_each_outage_of_its_leader(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = REPLICATED | {"replica.socket.timeout.ms": "600"}
    cluster = SimCluster(SEED, ["controller", "broker", "broker"], settings)
    cluster.start()
    topic = ReplicatedTopic(cluster, replicas=2)
    simulation, hosts = cluster.simulation, [[cluster.nodes[each].host] for each in (2, 3)]
    for outages in (1, 2):
        simulation.network.separate(*hosts)
        simulation.run_for(5_000)
        warnings = [each for each in caplog.messages if "cannot fetch from node" in each]
        assert len(warnings) == outages
        assert f"node {topic.leader}, which leads 1 of this node's partitions" in warnings[-1]
        simulation.network.heal()
        simulation.run_for(2_000)


@pytest.fixture
def alone() -> ReplicatedTopic:
    """Return a topic whose leader is alone in sync; the controller is on a node of its own."""
    cluster = SimCluster(SEED, ["controller", *["broker"] * 3], REPLICATED)
    cluster.start()
    topic = ReplicatedTopic(cluster, min_insync_replicas="2")
    for node in cluster.running:
        if node.node_id not in (1, topic.leader):
            node.kill()
    topic.run_until(lambda: topic.replica(topic.leader).leader.isr == (topic.leader,))
    return topic


def test_acks_all_is_rejected_below_min_insync_replicas(alone: ReplicatedTopic) -> None:
    assert alone.produce(b"a") == NotEnoughReplicas.code


def test_nothing_is_committed_below_min_insync_replicas(alone: ReplicatedTopic) -> None:
    alone.produce(b"a", acks=1)
    assert alone.values() == []


def test_a_consumer_at_a_follower_is_sent_to_the_leader(topic: ReplicatedTopic) -> None:
    follower = next(each for each in (1, 2, 3) if each != topic.leader)
    data = topic.fetch(node_id=follower)
    assert (data.error_code, data.current_leader.leader_id) == (
        NotLeaderOrFollower.code,
        topic.leader,
    )


def test_a_follower_that_is_cut_off_leaves_the_in_sync_set_and_joins_again(
    topic: ReplicatedTopic,
) -> None:
    leader = topic.cluster.nodes[topic.leader]
    away = next(each for each in topic.cluster.running if each is not leader)
    network = topic.cluster.simulation.network
    network.separate([leader.host], [away.host])
    assert topic.produce(b"a") != 0 or len(topic.state.isr) == 2
    topic.run_until_in_sync(2)
    assert topic.produce(b"b") == 0
    network.heal()
    topic.run_until_in_sync(3)
    topic.run_until_equal()


def test_a_follower_syncs_what_an_earlier_role_left_unsynced(topic: ReplicatedTopic) -> None:
    topic.produce(b"a")
    topic.run_until_equal()
    node = next(each for each in topic.cluster.running if each.node_id != topic.leader)
    replica = topic.replica(node.node_id)
    replica.log.synced_offset = 0  # as a restart of the log behind the leader's start leaves it
    node.broker.followers.end(replica)
    node.broker.replicas.take_role(replica)
    assert topic.produce(b"b") == 0
    topic.run_until_in_sync()
    assert stored_values(replica) == [b"a", b"b"]


def test_followers_of_an_idle_partition_stay_in_sync(topic: ReplicatedTopic) -> None:
    topic.produce(b"a")
    topic.cluster.simulation.run_for(20_000)
    assert topic.produce(b"b") == 0
    assert len(topic.state.isr) == 3


def test_all_nodes_return_with_all_records_after_a_stop_of_all(topic: ReplicatedTopic) -> None:
    topic.produce(b"a")
    nodes = list(topic.cluster.nodes.values())
    for node in nodes:
        node.kill()
    for node in nodes:
        node.start()
    topic.cluster.run_until_ready()
    topic.run_until_in_sync()
    assert topic.values() == [b"a"]


@pytest.fixture
def idle() -> ReplicatedTopic:
    """Return a topic with one record; the controller is on a node of its own."""
    cluster = SimCluster(SEED, ["controller", *["broker"] * 3], REPLICATED)
    cluster.start()
    topic = ReplicatedTopic(cluster, min_insync_replicas="2")
    assert topic.produce(b"a") == 0
    topic.run_until_equal()
    return topic


def fence(topic: ReplicatedTopic, node_id: int) -> None:
    """Cut a node off from the controller until its replica has left the in-sync set."""
    nodes, network = topic.cluster.nodes, topic.cluster.simulation.network
    network.separate([nodes[1].host], [nodes[node_id].host])
    topic.run_until(lambda: node_id not in topic.state.isr)
    network.heal()


def test_a_follower_that_was_fenced_joins_an_idle_partition_again(idle: ReplicatedTopic) -> None:
    fence(idle, next(each for each in (2, 3, 4) if each != idle.leader))
    idle.run_until_in_sync(3)


def test_a_follower_that_registers_again_joins_an_idle_partition(idle: ReplicatedTopic) -> None:
    away = next(each for each in (2, 3, 4) if each != idle.leader)
    nodes, network = idle.cluster.nodes, idle.cluster.simulation.network
    network.separate([nodes[1].host], [nodes[away].host])
    idle.run_until(lambda: away not in idle.state.isr)
    request = k64.UnregisterBrokerRequest(broker_id=away)
    assert idle.cluster.ask(idle.leader, request, 0).error_code == 0
    network.heal()
    idle.run_until_in_sync(3)


def test_leaders_that_append_nothing_follow_the_next_leader(idle: ReplicatedTopic) -> None:
    for _ in range(2):
        fence(idle, idle.leader)
    idle.run_until(lambda: len(idle.state.isr) == 3, limit_ms=10_000)


def load_one_by_one(node: PenstockNode, loading: Iterator[None]) -> None:
    """Open one log per turn, with time for the network in between."""
    for _ in loading:
        at_ms = node.world.clock.mono_ms() + 50
        node.world.timers.at(at_ms, lambda: load_one_by_one(node, loading))
        return
    assert node._contact is not None, "loaded before opened"
    node._loaded = True
    node._contact.opened()


def test_a_start_follows_no_leader_before_the_marker_of_the_clean_stop_is_gone(
    topic: ReplicatedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_own_thread(monkeypatch, PenstockNode, "_load_on", load_one_by_one)
    node = next(each for each in topic.cluster.running if each.node_id != topic.leader)
    node.stop()
    topic.run_until(lambda: node.is_over)
    assert topic.produce(b"a") == 0
    node.start()
    early = False

    def serves() -> bool:
        nonlocal early
        has_marker = node.world.disk("data").exists(CLEAN_MARKER)
        followed = [each for each in node.broker.replicas.all() if each.following is not None]
        early = early or (has_marker and bool(followed))
        return node.is_ready

    topic.run_until(serves)
    assert not early


def test_a_replica_is_online_again_after_a_kill_behind_its_truncation(
    topic: ReplicatedTopic,
) -> None:
    cluster, former = topic.cluster, topic.cluster.nodes[topic.leader]
    others = [each.host for each in cluster.running if each is not former]
    cluster.simulation.network.separate([former.host], others)
    topic.produce(b"lost", acks=1, node_id=former.node_id)
    replica = topic.replica(former.node_id)
    replica.directory.wrote(replica)  # page-cache syncs later
    former.broker.touch()
    topic.run_until(lambda: replica.log.synced_offset == 1)
    cluster.simulation.run_for(2_000)  # the durable record goes into the checkpoints
    topic.cluster.simulation.network.heal()
    topic.run_until(lambda: replica.log.end_offset == 0 and not replica.log.truncating)
    former.kill()
    former.start()
    topic.run_until_in_sync()


def test_a_node_that_stops_follows_no_new_leader(topic: ReplicatedTopic) -> None:
    cluster, former = topic.cluster, topic.cluster.nodes[topic.leader]
    for node in cluster.running:
        node.broker.followers.stop()
    former.kill()
    topic.run_until(lambda: topic.leader not in (-1, former.node_id))
    follower = next(each for each in cluster.running if each.node_id != topic.leader)
    following = topic.replica(follower.node_id).following
    topic.run_until(lambda: topic.replica(follower.node_id).leader.epoch > 0)
    assert isinstance(following, FollowedReplica)
    assert following.fetches is None


def test_a_process_that_has_its_id_again_makes_the_partitions_of_the_time_between() -> None:
    two_directories = {"log.dirs": "data,more-data"}
    cluster = SimCluster(SEED, ["controller", *["broker"] * 3], REPLICATED | two_directories)
    cluster.start()
    node, double = cluster.nodes[4], cluster.make_node(4, "broker", "double")
    node.world.pause(5_000)
    double.start()
    cluster.simulation.run_until(lambda: double.is_ready)
    topic = k19.CreatableTopic(name="t", num_partitions=1, replication_factor=3)
    cluster.ask(2, k19.CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    cluster.simulation.run_until(lambda: "t" in double.broker.replicas.by_name)
    double.kill()
    cluster.simulation.run_until(lambda: "t" in node.broker.replicas.by_name)
