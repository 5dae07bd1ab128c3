"""Several real nodes in one simulation: they agree, and survive the loss of any controller."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from own_thread import patch_own_thread
from penstock.broker.links.link_connection import LinkFailed
from penstock.controller.image import NO_LEADER
from penstock.credentials.principal import Caller, Principal
from penstock.errors import KafkaError, TopicAuthorizationFailed
from penstock.node.cluster_metadata import ClusterMetadata
from penstock.testing.sim.cluster import COMBINED, SimCluster, SimNode
from penstock.testing.sim.cluster.sim_cluster import CLUSTER_ID
from penstock.testing.sim.network import HostNetwork
from penstock.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.k30_create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from penstock.wire.messages.k55_describe_quorum import DescribeQuorumRequest

CREATE_TOPICS_VERSION = 7
SEED = 3
SESSION_MS, HEARTBEAT_MS = 9_000, 2_000  # Kafka's defaults


def create(cluster: SimCluster, node_id: int, name: str, partitions: int = 6) -> int:
    """Create a topic by a node; return the error code."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    answer = cluster.ask(node_id, request, CREATE_TOPICS_VERSION)
    if isinstance(answer, KafkaError):
        return answer.code
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics[0].error_code


def leaders(cluster: SimCluster, node_id: int, name: str) -> list[int]:
    topic = cluster.nodes[node_id].image.topics[name]
    return [each.leader for each in topic.partitions.values()]


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster(SEED)
    made.start()
    return made


def followers(cluster: SimCluster) -> list[int]:
    active = cluster.active
    return [each.node_id for each in cluster.running if each is not active]


def test_three_nodes_have_one_active_controller(cluster: SimCluster) -> None:
    cluster.simulation.run_for(5_000)
    assert sum(each.broker.metadata.is_active for each in cluster.nodes.values()) == 1


def test_each_node_knows_all_brokers_as_unfenced(cluster: SimCluster) -> None:
    cluster.simulation.run_for(1_000)
    for node in cluster.nodes.values():
        assert {each.broker_id: each.fenced for each in node.image.brokers.values()} == {
            1: False,
            2: False,
            3: False,
        }


def test_each_controller_registers(cluster: SimCluster) -> None:
    cluster.simulation.run_for(1_000)
    assert sorted(cluster.nodes[1].image.controllers) == [1, 2, 3]


def test_a_follower_forwards_a_change_and_answers_when_its_own_image_has_it(
    cluster: SimCluster,
) -> None:
    asked = followers(cluster)[0]
    assert create(cluster, asked, "t") == 0
    assert "t" in cluster.nodes[asked].image.topics


def test_partitions_are_spread_evenly(cluster: SimCluster) -> None:
    assert create(cluster, followers(cluster)[0], "t", partitions=6) == 0
    assert sorted(leaders(cluster, 1, "t")) == [1, 1, 2, 2, 3, 3]


def test_another_controller_takes_over_after_a_kill(cluster: SimCluster) -> None:
    create(cluster, 1, "before")
    assert cluster.active is not None
    cluster.active.kill()
    asked = cluster.running[0].node_id
    assert create(cluster, asked, "after") == 0
    assert "before" in cluster.nodes[asked].image.topics


def test_a_controller_that_stops_hands_over_at_once(cluster: SimCluster) -> None:
    stopping = cluster.active
    assert stopping is not None
    began_ms = cluster.simulation.now_ms
    stopping.stop()
    cluster.simulation.run_until(lambda: cluster.active not in (None, stopping))
    assert cluster.simulation.now_ms - began_ms < 1_000


def test_a_request_at_a_lost_controller_goes_to_the_next_one(cluster: SimCluster) -> None:
    asked = followers(cluster)[0]
    answers: list[object] = []
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    assert cluster.active is not None
    cluster.active.kill()
    metadata = cluster.nodes[asked].broker.metadata
    metadata.submit(request, CREATE_TOPICS_VERSION, answers.append)
    cluster.simulation.run_until(lambda: bool(answers), limit_ms=20_000)
    assert isinstance(answers[0], CreateTopicsResponse)


@pytest.mark.parametrize("end", ["stop", "kill", "cut_power"])
def test_a_node_comes_back_with_its_partitions(cluster: SimCluster, end: str) -> None:
    create(cluster, 1, "t")
    cluster.simulation.run_for(2_000)
    leaving = cluster.nodes[followers(cluster)[0]]
    getattr(leaving, end)()
    cluster.simulation.run_until(lambda: leaving.is_over)
    leaving.start()
    cluster.run_until_ready()
    cluster.simulation.run_for(12_000)
    for node in cluster.nodes.values():
        assert NO_LEADER not in leaders(cluster, node.node_id, "t")


def test_all_nodes_come_back_after_a_power_cut_of_all(cluster: SimCluster) -> None:
    create(cluster, 1, "t")
    for node in cluster.nodes.values():
        node.cut_power()
    for node in cluster.nodes.values():
        node.start()
    cluster.run_until_ready()
    assert "t" in cluster.nodes[1].image.topics


def test_controllers_and_brokers_on_nodes_of_their_own() -> None:
    cluster = SimCluster(SEED, roles=["controller"] * 3 + ["broker"] * 2)
    cluster.start()
    assert create(cluster, 4, "t") == 0
    assert set(leaders(cluster, 5, "t")) == {4, 5}


def test_a_controller_without_a_broker_is_ready_again_after_a_restart() -> None:
    cluster = SimCluster(SEED, roles=["controller"] * 3 + ["broker"])
    cluster.start()
    restarted = cluster.nodes[followers(cluster)[0]]
    assert restarted.node_id < 4
    restarted.kill()
    restarted.start()
    cluster.run_until_ready()
    assert restarted.is_ready


def test_a_broker_joins_later() -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, COMBINED, COMBINED, "broker"])
    for node_id in (1, 2, 3):
        cluster.nodes[node_id].start()
    cluster.run_until_ready()
    cluster.nodes[4].start()
    cluster.run_until_ready()
    assert create(cluster, 4, "t", partitions=8) == 0
    assert 4 in leaders(cluster, 4, "t")


def test_a_process_whose_id_another_one_has_taken_leads_no_partition() -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, COMBINED, COMBINED, "broker"])
    cluster.start()
    replaced = cluster.nodes[4]
    replaced.world.pause(SESSION_MS + HEARTBEAT_MS)
    double = cluster.make_node(4, "broker", "node-4-double")
    double.start()
    cluster.simulation.run_until(lambda: double.is_ready)
    assert create(cluster, 1, "t", partitions=8) == 0
    cluster.simulation.run_for(2 * SESSION_MS)
    assert 4 in leaders(cluster, 4, "t")
    assert [str(each) for each in replaced.broker.replicas.all() if each.leading] == []
    assert any(each.leading for each in double.broker.replicas.all())


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_controller_of_several_does_not_start_without_its_vote(kraft_version: int) -> None:
    cluster = SimCluster(SEED, kraft_version=kraft_version)
    cluster.start()
    node = cluster.nodes[followers(cluster)[0]]
    node.world.disk("data").remove_now("__cluster_metadata-0/quorum-state")
    node.kill()
    node.start()
    assert "quorum-state is missing" in (node.failure or "")
    assert "vote twice" in (node.failure or "")


def test_a_broker_of_several_starts_without_the_epoch_that_it_knew() -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, "broker"])
    cluster.start()
    node = cluster.nodes[2]
    node.world.disk("data").remove_now("__cluster_metadata-0/quorum-state")
    node.kill()
    node.start()
    cluster.run_until_ready()
    assert node.is_ready


def test_a_download_that_met_a_full_disk_is_installed_when_there_is_room() -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1500"}
    cluster = SimCluster(SEED, settings=settings)
    late, *others = cluster.nodes.values()
    for node in others:
        node.start()
    cluster.run_until_ready()
    for number in range(5):
        assert create(cluster, 2, f"t{number}") == 0
    late.start()
    disk = late.world.disk("data")
    directory = "__cluster_metadata-0"
    cluster.simulation.run_until(
        lambda: any(name.endswith(".part") for name in disk.list(directory))
    )
    disk.is_full = True
    cluster.simulation.run_for(2_000)
    disk.is_full = False
    cluster.run_until_ready()
    assert "t0" in late.image.topics


def test_a_silent_broker_is_fenced_when_its_session_ends(cluster: SimCluster) -> None:
    create(cluster, 1, "t")
    silent = cluster.nodes[followers(cluster)[0]]
    watching = cluster.active
    assert watching is not None
    silent.kill()
    killed_ms = cluster.simulation.now_ms
    cluster.simulation.run_until(lambda: watching.image.brokers[silent.node_id].fenced)
    waited_ms = cluster.simulation.now_ms - killed_ms
    assert SESSION_MS - HEARTBEAT_MS <= waited_ms <= SESSION_MS + 500
    assert silent.node_id not in leaders(cluster, watching.node_id, "t")


def test_a_new_active_controller_gives_each_broker_a_full_session(cluster: SimCluster) -> None:
    cluster.simulation.run_for(1_000)
    first = cluster.active
    assert first is not None
    silent = cluster.nodes[followers(cluster)[0]]
    silent.world.pause(60_000)
    first.kill()
    # A majority of three needs the paused node: its return elects the next controller.
    cluster.simulation.run_until(lambda: cluster.active not in (None, first), limit_ms=80_000)
    assert cluster.active is not None
    assert not cluster.active.image.brokers[silent.node_id].fenced


def test_a_broker_that_stops_leaves_its_partitions_before_its_end(cluster: SimCluster) -> None:
    create(cluster, 1, "t")
    leaving = cluster.nodes[followers(cluster)[0]]
    watching = cluster.active
    assert watching is not None
    began_ms = cluster.simulation.now_ms
    leaving.stop()
    cluster.simulation.run_until(lambda: leaving.is_over)
    assert watching.image.brokers[leaving.node_id].fenced
    assert leaving.node_id not in leaders(cluster, watching.node_id, "t")
    assert cluster.simulation.now_ms - began_ms < 1_000


def test_a_restarted_broker_waits_for_the_end_of_its_older_session(cluster: SimCluster) -> None:
    cluster.simulation.run_for(3_000)
    restarted = cluster.nodes[followers(cluster)[0]]
    restarted.kill()
    killed_ms = cluster.simulation.now_ms
    restarted.start()
    cluster.run_until_ready()
    waited_ms = cluster.simulation.now_ms - killed_ms
    assert SESSION_MS - HEARTBEAT_MS <= waited_ms <= SESSION_MS + 2_000


def test_a_cluster_that_was_killed_as_a_whole_waits_for_no_session(cluster: SimCluster) -> None:
    cluster.simulation.run_for(3_000)
    for node in cluster.nodes.values():
        node.kill()
    killed_ms = cluster.simulation.now_ms
    for node in cluster.nodes.values():
        node.start()
    cluster.run_until_ready()
    assert cluster.simulation.now_ms - killed_ms < SESSION_MS - HEARTBEAT_MS


def test_a_broker_joins_a_node_that_was_alone() -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, "broker"])
    cluster.nodes[1].start()
    cluster.run_until_ready()
    assert create(cluster, 1, "before") == 0
    cluster.nodes[2].start()
    cluster.run_until_ready()
    assert create(cluster, 2, "after", partitions=4) == 0
    assert set(leaders(cluster, 1, "before")) == {1}
    assert set(leaders(cluster, 1, "after")) == {1, 2}


def test_news_of_the_same_leader_do_not_send_a_request_twice(cluster: SimCluster) -> None:
    asked = followers(cluster)[0]
    metadata = cluster.nodes[asked].broker.metadata
    assert isinstance(metadata, ClusterMetadata)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answers: list[object] = []
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    metadata.submit(request, CREATE_TOPICS_VERSION, answers.append)
    for _ in range(20):
        cluster.simulation.run_for(1)
        metadata._notify_leader()
    cluster.simulation.run_until(lambda: bool(answers))
    assert isinstance(answers[0], CreateTopicsResponse)
    assert answers[0].topics[0].error_code == 0


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_no_node_connects_to_itself(kraft_version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[tuple[str, str]] = []
    connect = HostNetwork.connect

    def watched(network: HostNetwork, host: str, *rest: Any, **named: Any) -> Any:
        connected.append((network.host_name(), host))
        return connect(network, host, *rest, **named)

    patch_own_thread(monkeypatch, HostNetwork, "connect", watched)
    for seed in range(1, 6):
        cluster = SimCluster(seed, kraft_version=kraft_version)
        cluster.start()
        cluster.simulation.run_for(1_000)
    assert connected
    assert [(source, target) for source, target in connected if source == target] == []


def test_a_quorum_with_its_voters_in_the_log_survives_the_loss_of_its_controller() -> None:
    cluster = SimCluster(SEED, kraft_version=1)
    cluster.start()
    create(cluster, 1, "before")
    assert cluster.active is not None
    cluster.active.kill()
    asked = cluster.running[0].node_id
    assert create(cluster, asked, "after") == 0
    view = cluster.nodes[asked].broker.metadata.describe()
    assert view.kraft_version == 1
    assert [each.node_id for each in view.voters] == [1, 2, 3]


def test_an_answer_waits_for_the_image_though_a_connection_breaks_meanwhile(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = cluster.nodes[followers(cluster)[0]]
    metadata = asked.broker.metadata
    assert isinstance(metadata, ClusterMetadata)
    channel, questions = metadata.channel, []
    send: Callable[..., Any] = channel.send

    def break_once(message: object, *rest: Any) -> Any:
        if isinstance(message, DescribeQuorumRequest):
            questions.append(message)
            if len(questions) == 1:
                failure = LinkFailed("the connection broke", unsent=False)
                asked.world.timers.soon(lambda: rest[-1](failure))
                return None
        return send(message, *rest)

    monkeypatch.setattr(channel, "send", break_once)
    assert create(cluster, asked.node_id, "t") == 0
    assert len(questions) == 2


def test_a_broker_of_another_cluster_gives_up_and_says_so() -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, COMBINED, COMBINED, "broker"])
    stranger = cluster.nodes.pop(4)
    cluster.start()
    stranger.cluster_id = "another-cluster-000000"
    stranger.start()
    cluster.simulation.run_until(lambda: stranger.is_over, limit_ms=5_000)
    assert "belong to another cluster" in (stranger.failure or "")
    assert "another-cluster-000000" in (stranger.failure or "")


def stranger_of(cluster: SimCluster) -> SimNode:
    """Start the first three nodes, and a broker whose directories belong to another cluster."""
    stranger = cluster.nodes.pop(4)
    cluster.start()
    stranger.cluster_id = "another-cluster-000000"
    cluster.nodes[followers(cluster)[0]].kill()
    stranger.start()
    return stranger


def test_a_broker_of_another_cluster_gives_up_though_a_controller_is_away() -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, COMBINED, COMBINED, "broker"])
    stranger = stranger_of(cluster)
    cluster.simulation.run_until(lambda: stranger.is_over, limit_ms=5_000)
    assert "belong to another cluster" in (stranger.failure or "")


def test_the_first_controller_of_another_cluster_is_named_with_both_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SimCluster(SEED, roles=[COMBINED, COMBINED, COMBINED, "broker"])
    with caplog.at_level(logging.WARNING, "penstock.quorum"):
        stranger = stranger_of(cluster)
        for node in cluster.running:
            if node is not cluster.active:
                node.kill()
        cluster.simulation.run_for(5_000)
    assert not stranger.is_over
    [warning] = [each for each in caplog.messages if "another-cluster-000000" in each]
    assert f"belongs to cluster {CLUSTER_ID}" in warning


def test_a_node_without_a_quorum_says_where_no_controller_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SimCluster(SEED)
    lonely = cluster.nodes[1]
    lonely.start()
    cluster.simulation.run_until(lambda: lonely.is_over, limit_ms=90_000)
    addresses = "1@node-1:9093, 2@node-2:9093, 3@node-3:9093 (controller.quorum.voters)"
    assert f"no active controller answers at {addresses}" in (lonely.failure or "")
    assert "the client finds" not in caplog.text


GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the nodes, which do not log in
}


def test_a_forwarded_request_is_judged_by_its_client() -> None:
    cluster = SimCluster(SEED, settings=GUARDED)
    cluster.start()
    node = cluster.nodes[followers(cluster)[0]]
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    codes: list[int] = []
    for name in ("ann", "ANONYMOUS"):
        answers: list[CreateTopicsResponse] = []
        caller = Caller(Principal(name), "10.0.0.1")
        node.broker.metadata.submit(request, CREATE_TOPICS_VERSION, answers.append, caller)
        cluster.simulation.run_until(lambda: bool(answers))  # noqa: B023 - called at once
        codes.append(answers[0].topics[0].error_code)
    assert codes == [TopicAuthorizationFailed.code, 0]


def test_every_node_has_a_new_rule_within_100_ms() -> None:
    cluster = SimCluster(SEED, settings=GUARDED)
    cluster.start()
    before = {each.node_id: each.broker.access.generation for each in cluster.running}
    acl = AclCreation(
        resource_type=2, resource_name="t", principal="User:ann", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    answer = cluster.ask(1, CreateAclsRequest(creations=[acl]), 3)
    assert isinstance(answer, CreateAclsResponse) and answer.results[0].error_code == 0
    cluster.simulation.run_for(100)
    after = {each.node_id: each.broker.access.generation for each in cluster.running}
    assert after == {node_id: generation + 1 for node_id, generation in before.items()}
