"""`Cluster(brokers=3)`: nodes end, pause and are cut off one by one, and the others go on."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.client.admin.blocking import Admin
from penstock.testing import Cluster, Fail, NotPossible, assert_records
from penstock.testing.node_settings import SHORT_TIMEOUTS

UNREPLICATED = {"default.replication.factor": 1, "min.insync.replicas": 1}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as made:
        yield made


def others(cluster: Cluster, *without: int) -> list[int]:
    return [each for each in cluster.nodes if each not in without]


def led_by(cluster: Cluster, node: int, topic: str) -> int:
    """Return a partition that a node leads."""
    return next(each for each in range(3) if cluster.leader_of(topic, each) == node)


def test_the_bootstrap_names_all_nodes(cluster: Cluster) -> None:
    assert cluster.nodes == (1, 2, 3)
    assert cluster.bootstrap == ",".join(
        f"{host}:{port}" for host, port in map(cluster.address_of, cluster.nodes)
    )


def test_partitions_are_spread_over_the_nodes(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    assert {cluster.leader_of(topic, each) for each in range(3)} == {1, 2, 3}


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_client_of_any_node_finds_all_partitions(cluster: Cluster, node: int) -> None:
    topic = cluster.create_topic("t", 3)
    host, port = cluster.address_of(node)
    producer = Producer({"bootstrap.servers": f"{host}:{port}"})
    for partition in range(3):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(20) == 0
    assert_records(cluster, topic, ["0", "1", "2"], in_order=False)


def test_another_node_is_the_controller_after_a_kill(cluster: Cluster) -> None:
    before = cluster.controller()
    cluster.kill(before)
    cluster.wait_until(lambda: cluster.controller() != before)
    cluster.create_topic("afterwards")


@pytest.mark.parametrize("processes", [False, True])
def test_records_outlive_the_kill_of_their_leader(processes: bool) -> None:
    with Cluster(brokers=3, processes=processes) as cluster:
        topic = cluster.create_topic("t", 3)
        partition = led_by(cluster, 2, topic)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        producer.produce(topic, b"before", partition=partition)
        assert producer.flush(20) == 0
        cluster.kill(2)
        cluster.wait_until(lambda: cluster.leader_of(topic, partition) in (1, 3))
        producer.produce(topic, b"after", partition=partition)
        assert producer.flush(20) == 0
        assert_records(cluster, topic, ["before", "after"])


def test_a_killed_node_comes_back_with_partitions_of_one_replica() -> None:
    with Cluster(UNREPLICATED, brokers=3) as cluster:
        topic = cluster.create_topic("t", 3)
        partition = led_by(cluster, 2, topic)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce(topic, b"before", partition=partition)
        assert producer.flush(20) == 0
        cluster.kill(2)
        cluster.wait_until(lambda: cluster.leader_of(topic, partition) is None)
        cluster.restart(2)
        cluster.wait_until(lambda: cluster.leader_of(topic, partition) == 2)
        assert_records(cluster, topic, ["before"])


def test_a_stopped_node_hands_its_partitions_over_before_its_end(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    partition = led_by(cluster, 3, topic)
    cluster.stop(3)
    assert cluster.leader_of(topic, partition) in (1, 2)


def test_replicas_of_a_node_that_is_away_are_not_in_sync(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    cluster.kill(3)
    with pytest.raises(TimeoutError, match=r"t-0 has \[[12], [12]\] of"):
        cluster.wait_until_in_sync(topic, timeout_s=0)


def test_no_replica_is_in_sync_when_all_nodes_are_away(cluster: Cluster) -> None:
    cluster.kill()
    with pytest.raises(TimeoutError, match="all nodes are stopped, killed or paused"):
        cluster.wait_until_in_sync()


def test_replicas_are_in_sync_again_after_a_restart(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    cluster.kill(3)
    cluster.wait_until(lambda: cluster.leader_of(topic, 0) in (1, 2))
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(topic, b"meanwhile", partition=0)
    assert producer.flush(20) == 0
    cluster.restart(3)
    cluster.wait_until_in_sync()
    replica = cluster.broker_of(3).replicas.by_name[topic][0]
    assert replica.log.end_offset == 1


def test_leaders_log_which_broker_joins_their_in_sync_replicas(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.replication")
    topic = cluster.create_topic("t", 3)
    cluster.wait_until_in_sync(topic)
    cluster.kill(3)
    cluster.wait_until(lambda: cluster.leader_of(topic, 0) in (1, 2))
    cluster.restart(3)
    cluster.wait_until(lambda: "broker 3 joined the in-sync replicas of " in caplog.text)


def test_a_topic_that_is_not_there_does_not_get_in_sync(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match="node 1: missing: "):
        cluster.wait_until_in_sync("missing", timeout_s=0)


@pytest.mark.parametrize(("brokers", "factor", "in_sync"), [(2, 2, 1), (3, 3, 2)])
def test_topics_are_replicated_by_default(brokers: int, factor: int, in_sync: int) -> None:
    with Cluster(brokers=brokers) as cluster:
        topic = cluster.create_topic("t")
        image = cluster.broker_of(1).image
        assert len(image.topics[topic].partitions[0].replicas) == factor
        assert cluster.broker_of(1).replicas.settings(topic).min_insync == in_sync


def test_more_in_sync_replicas_than_replicas_are_warned_of(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.create_topic("t", config={"min.insync.replicas": 4})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(topic, b"all three count")
    assert producer.flush(20) == 0
    assert "t: min.insync.replicas=4 is above its replication factor 3" in caplog.text


def test_a_paused_controller_is_replaced_and_comes_back_as_a_follower(cluster: Cluster) -> None:
    before = cluster.controller()
    cluster.pause(before)
    cluster.wait_until(lambda: cluster.controller() != before)
    cluster.resume(before)
    cluster.create_topic("afterwards")
    assert cluster.controller() != before


def test_a_controller_that_is_cut_off_is_replaced(cluster: Cluster) -> None:
    before = cluster.controller()
    majority = others(cluster, before)
    cluster.partition({before}, majority)
    broker = cluster.broker_of(majority[0])
    cluster.wait_until(lambda: broker.metadata.describe().leader_id in majority)
    cluster.heal()
    lonely = cluster.broker_of(before)
    cluster.wait_until(lambda: lonely.metadata.describe().leader_id in majority)


def test_a_broker_that_is_cut_off_is_fenced_until_the_network_heals(cluster: Cluster) -> None:
    active = cluster.controller()
    lonely = others(cluster, active)[0]
    cluster.partition({lonely}, others(cluster, lonely))
    image = cluster.broker_of(active).metadata
    cluster.wait_until(lambda: image.image.brokers[lonely].fenced)
    cluster.heal()
    cluster.wait_until(lambda: not image.image.brokers[lonely].fenced)


@pytest.mark.parametrize("lonely", [1, 2, 3])
def test_questions_go_to_the_larger_side_of_a_partition(cluster: Cluster, lonely: int) -> None:
    topic = cluster.create_topic("t", 3)
    partition = led_by(cluster, lonely, topic)
    cluster.partition({lonely}, others(cluster, lonely))
    cluster.wait_until(lambda: cluster.controller() != lonely)
    cluster.wait_until(lambda: cluster.leader_of(topic, partition) not in (None, lonely))
    cluster.heal()
    cluster.wait_until_in_sync()


def test_a_restart_does_not_heal_the_network(cluster: Cluster) -> None:
    active = cluster.controller()
    lonely, other = others(cluster, active)
    cluster.partition({lonely}, {active, other})
    image = cluster.broker_of(active).metadata
    cluster.wait_until(lambda: image.image.brokers[lonely].fenced)
    cluster.kill(lonely)
    with pytest.raises(TimeoutError, match="a majority of the controllers"):
        restart_within(cluster, lonely, seconds=0.5)
    cluster.heal()
    cluster.start(lonely)
    cluster.wait_until(lambda: not image.image.brokers[lonely].fenced)


def restart_within(cluster: Cluster, node: int, *, seconds: float) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("penstock.testing.embedded.START_SECONDS_MAX", seconds)
        cluster.restart(node)


@pytest.mark.parametrize(
    ("sides", "reason"),
    [(({1}, {7}), "no node 7 to partition; there is 1, 2, 3"), (({1}, {1, 2}), "on two sides")],
)
def test_a_partition_of_no_nodes_is_rejected(
    cluster: Cluster, sides: tuple[set[int], ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        cluster.partition(*sides)


def test_a_request_is_intercepted_on_every_node(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    with cluster.intercept("Produce", Fail(6), times=6) as failing:
        for partition in range(3):
            producer.produce(topic, b"%d" % partition, partition=partition)
        assert producer.flush(20) == 0
    assert failing.count == 6
    assert_records(cluster, topic, ["0", "1", "2"], in_order=False)


def test_intercepted_fetches_are_those_of_clients(cluster: Cluster) -> None:
    with cluster.intercept("Fetch", Fail(6)) as failing:
        cluster.create_topic("needs the quorum".replace(" ", "-"))
    assert failing.count == 0


def test_requests_between_nodes_cannot_be_intercepted(cluster: Cluster) -> None:
    with pytest.raises(NotPossible, match="BrokerHeartbeat is not served"):
        cluster.intercept("BrokerHeartbeat", Fail(6))


def test_time_cannot_leap_on_several_nodes(cluster: Cluster) -> None:
    with pytest.raises(NotPossible, match="advance: only for a cluster of one node"):
        cluster.advance(minutes=5)


def test_a_group_goes_on_after_a_kill_of_its_coordinator(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition in range(3):
        producer.produce(topic, b"before", partition=partition)
    assert producer.flush(20) == 0
    assert len(read(consumer, 3)) == 3
    with Admin(bootstrap=cluster.bootstrap) as admin:
        (coordinator,) = {each.coordinator for each in admin.groups.list_all()}
    assert coordinator is not None
    cluster.kill(coordinator)
    for partition in range(3):
        producer.produce(topic, b"after", partition=partition)
    assert producer.flush(20) == 0
    assert len(read(consumer, 3)) == 3
    consumer.commit(asynchronous=False)
    consumer.close()


def read(consumer: Consumer, count: int) -> list[object]:
    found: list[object] = []
    for _ in range(200):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_transaction_survives_the_kill_of_any_node(cluster: Cluster, gone: int) -> None:
    topic = cluster.create_topic("t", 3)
    partition = led_by(cluster, 1, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "x"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=partition)
    assert producer.flush(20) == 0
    cluster.kill(gone)
    producer.commit_transaction(20)
    assert_records(cluster, topic, ["committed"])


def test_settings_override_the_short_timeouts() -> None:
    with Cluster({"broker.session.timeout.ms": 3000}, brokers=2) as cluster:
        config = cluster.broker_of(1).config
        assert config.get("broker.session.timeout.ms") == 3000
        assert config.get("broker.heartbeat.interval.ms") == int(
            SHORT_TIMEOUTS["broker.heartbeat.interval.ms"]
        )


def test_controllers_may_be_nodes_of_their_own() -> None:
    with Cluster(brokers=2, controllers=1) as cluster:
        assert cluster.nodes == (1, 2, 3)
        assert cluster.controller() == 3
        assert len(cluster.bootstrap.split(",")) == 2
        topic = cluster.create_topic("t", 2)
        assert {cluster.leader_of(topic, each) for each in range(2)} == {1, 2}
        with pytest.raises(ValueError, match="node 3 is no broker; brokers are 1, 2"):
            cluster.address_of(3)


@pytest.mark.parametrize("key", ["listeners", "node.id", "log.dirs"])
def test_a_setting_of_one_node_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key}: each of several nodes has its own"):
        Cluster({key: "1"}, brokers=3)


@pytest.mark.parametrize(("brokers", "controllers"), [(0, None), (3, 0)])
def test_a_count_of_no_nodes_is_rejected(brokers: int, controllers: int | None) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Cluster(brokers=brokers, controllers=controllers)


@pytest.mark.parametrize("processes", [False, True])
def test_data_of_several_nodes_can_be_used_again_on_other_ports(
    tmp_path: Path, processes: bool
) -> None:
    with Cluster(brokers=3, data=tmp_path, processes=processes) as cluster:
        cluster.create_topic("t", 3)
    assert (tmp_path / "node-3" / "meta.properties").exists()
    with Cluster(brokers=3, data=tmp_path, processes=processes) as cluster:
        assert names(cluster) == ["t"]


def names(cluster: Cluster) -> list[str]:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return [each.name for each in admin.list_topics()]


def test_several_processes_survive_the_kill_and_the_pause_of_one() -> None:
    with Cluster(brokers=3, processes=True) as cluster:
        first = cluster.controller()
        cluster.kill(first)
        cluster.wait_until(lambda: cluster.controller() != first)
        cluster.restart(first)
        second = cluster.controller()
        cluster.pause(second)
        cluster.wait_until(lambda: cluster.controller() != second)
        cluster.resume(second)
        assert cluster.create_topic("t", 3) == "t"
        with pytest.raises(NotPossible, match="partition: only between nodes in this process"):
            cluster.partition({1}, {2, 3})


def test_a_consumer_reads_from_all_nodes(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition in range(3):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
    assert len(read(consumer, 3)) == 3
    consumer.close()


def test_the_guide_names_the_short_timeouts() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    assert "".join(f"{key}={text}\n" for key, text in SHORT_TIMEOUTS.items()) in guide
