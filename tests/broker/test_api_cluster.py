"""DescribeCluster, DescribeQuorum, UpdateFeatures, DescribeLogDirs, ListPartitionReassignments."""

from collections.abc import Iterator

import pytest
from api_asking import Asker, asking, batch, new_topic, produce, versions

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k18_api_versions as k18
from penstock.wire.messages import k34_alter_replica_log_dirs as k34
from penstock.wire.messages import k35_describe_log_dirs as k35
from penstock.wire.messages import k46_list_partition_reassignments as k46
from penstock.wire.messages import k55_describe_quorum as k55
from penstock.wire.messages import k57_update_features as k57
from penstock.wire.messages import k60_describe_cluster as k60
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.messages import k69_consumer_group_describe as k69

pytest_plugins = ["api_fixtures"]

BROKERS, CONTROLLERS = 1, 2
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NO_OPERATIONS = -0x80000000


# -- DescribeCluster


@pytest.mark.parametrize("version", versions(60))
def test_the_cluster_names_its_brokers(
    asker: Asker, penstock_cluster: Cluster, version: int
) -> None:
    answer = asker.ask(k60.DescribeClusterRequest(), version)
    [broker] = answer.brokers
    assert (answer.error_code, answer.error_message, answer.endpoint_type) == (0, None, BROKERS)
    assert (broker.host, broker.port) == penstock_cluster.address
    assert answer.controller_id == broker.broker_id == 1
    assert len(answer.cluster_id) == 22


@pytest.mark.parametrize("version", versions(60))
@pytest.mark.parametrize("wanted", [False, True])
def test_cluster_operations_are_told_on_request(asker: Asker, version: int, wanted: bool) -> None:
    request = k60.DescribeClusterRequest(include_cluster_authorized_operations=wanted)
    told = asker.ask(request, version).cluster_authorized_operations
    assert (told != NO_OPERATIONS) == wanted


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (CONTROLLERS, errors.MismatchedEndpointType),
        (0, errors.UnsupportedEndpointType),
        (3, errors.UnsupportedEndpointType),
    ],
)
def test_a_broker_listener_tells_of_brokers_only(
    asker: Asker, version: int, endpoint_type: int, error: type[errors.KafkaError]
) -> None:
    request = k60.DescribeClusterRequest(endpoint_type=endpoint_type)
    answer = asker.ask(request, version)
    assert (answer.error_code, answer.brokers) == (error.code, [])


# -- DescribeQuorum


def _quorum(
    asker: Asker, version: int, topic: str = "__cluster_metadata", partition: int = 0
) -> k55.DescribeQuorumResponse:
    wanted = k55.RequestPartitionData(partition_index=partition)
    request = k55.DescribeQuorumRequest(
        topics=[k55.RequestTopicData(topic_name=topic, partitions=[wanted])]
    )
    answer = asker.ask(request, version)
    assert isinstance(answer, k55.DescribeQuorumResponse)
    return answer


@pytest.mark.parametrize("version", versions(55))
def test_the_quorum_names_its_leader_and_voters(asker: Asker, version: int) -> None:
    answer = _quorum(asker, version)
    [one] = answer.topics[0].partitions
    [voter] = one.current_voters
    assert (answer.error_code, one.error_code, one.leader_id) == (0, 0, 1)
    assert one.leader_epoch >= 1
    assert 0 < one.high_watermark <= voter.log_end_offset
    assert (voter.last_fetch_timestamp > 0) == (version >= 1)
    assert (voter.replica_directory_id != bytes(16)) == (version >= 2)
    assert [each.node_id for each in answer.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize("version", versions(55))
@pytest.mark.parametrize(("topic", "index"), [("zork", 0), ("__cluster_metadata", 1)])
def test_there_is_one_quorum_only(asker: Asker, version: int, topic: str, index: int) -> None:
    [one] = _quorum(asker, version, topic, index).topics[0].partitions
    assert one.error_code == errors.UnknownTopicOrPartition.code


# -- UpdateFeatures


def _update(
    asker: Asker, *levels: tuple[str, int, int], version: int = 2, validate_only: bool = True
) -> k57.UpdateFeaturesResponse:
    updates = [
        k57.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in levels
    ]
    request = k57.UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    answer = asker.ask(request, version)
    assert isinstance(answer, k57.UpdateFeaturesResponse)
    return answer


def _levels(asker: Asker) -> dict[str, int]:
    request = k18.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    finalized = asker.ask(request, 4).finalized_features
    return {each.name: each.max_version_level for each in finalized}


def _consumer_protocol(asker: Asker) -> tuple[tuple[int, str | None], ...]:
    """What a heartbeat without any field, and a description, are answered."""
    beat = asker.ask(k68.ConsumerGroupHeartbeatRequest(), 1)
    [described] = asker.ask(k69.ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    return tuple((each.error_code, each.error_message) for each in (beat, described))


def test_without_group_version_there_are_no_consumer_groups(asker: Asker) -> None:
    _update(asker, ("group.version", 0, SAFE_DOWNGRADE), validate_only=False)
    off = _consumer_protocol(asker)
    _update(asker, ("group.version", 1, UPGRADE), validate_only=False)
    assert off == ((errors.UnsupportedVersion.code, None),) * 2
    assert _consumer_protocol(asker)[0] == (errors.InvalidRequest.code, "GroupId can't be empty.")


def test_a_node_that_offers_the_classic_protocol_only_says_so_before_all_else() -> None:
    with (
        Cluster({"group.coordinator.rebalance.protocols": "classic"}) as cluster,
        asking(cluster) as asker,
    ):
        assert _consumer_protocol(asker) == ((errors.UnsupportedVersion.code, None),) * 2


@pytest.mark.parametrize("version", [1, 2])
def test_validate_only_leaves_the_levels_alone(asker: Asker, version: int) -> None:
    before = _levels(asker)
    answer = _update(asker, ("group.version", 0, SAFE_DOWNGRADE), version=version)
    assert answer.error_code == 0
    assert _levels(asker) == before


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "level",
    [
        pytest.param(("metadata.version", 99, UPGRADE), id="beyond what is supported"),
        pytest.param(("zork", 1, UPGRADE), id="an unknown feature"),
        pytest.param(("metadata.version", 25, UPGRADE), id="a downgrade called upgrade"),
        pytest.param(("metadata.version", 10, UNSAFE_DOWNGRADE), id="a downgrade that loses"),
        pytest.param(("group.version", -1, SAFE_DOWNGRADE), id="a negative level"),
        pytest.param(("metadata.version", 29, 9), id="an unknown kind of change"),
        pytest.param(("", 1, UPGRADE), id="no name"),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    asker: Asker, version: int, level: tuple[str, int, int]
) -> None:
    answer = _update(asker, level, version=version)
    assert answer.error_code == errors.InvalidUpdateVersion.code
    assert answer.error_message


def test_one_bad_level_refuses_them_all(asker: Asker) -> None:
    before = _levels(asker)
    answer = _update(
        asker, ("group.version", 0, SAFE_DOWNGRADE), ("zork", 1, UPGRADE), validate_only=False
    )
    assert answer.error_code == errors.InvalidUpdateVersion.code
    assert _levels(asker) == before


def test_a_level_can_be_lowered_and_raised_again(asker: Asker) -> None:
    lowered = _update(asker, ("group.version", 0, SAFE_DOWNGRADE), validate_only=False)
    without = _levels(asker)
    raised = _update(asker, ("group.version", 1, UPGRADE), validate_only=False)
    assert (lowered.error_code, raised.error_code) == (0, 0)
    assert "group.version" not in without
    assert _levels(asker)["group.version"] == 1


# -- DescribeLogDirs


@pytest.mark.parametrize(
    ("topic", "path", "error"),
    [
        ("no-such-topic", None, errors.UnknownTopicOrPartition),
        ("no-such-topic", "/nowhere", errors.LogDirNotFound),
        ("x" * 249, "/nowhere", errors.InvalidTopic),
    ],
)
def test_a_move_that_cannot_be_is_refused_as_kafka_does(
    asker: Asker, topic: str, path: str | None, error: type[errors.KafkaError]
) -> None:
    [here] = asker.ask(k35.DescribeLogDirsRequest(topics=[]), 4).results
    wanted = k34.AlterReplicaLogDirTopic(name=topic, partitions=[0])
    move = k34.AlterReplicaLogDir(path=path or here.log_dir, topics=[wanted])
    [one] = asker.ask(k34.AlterReplicaLogDirsRequest(dirs=[move]), 2).results
    assert one.partitions[0].error_code == error.code


@pytest.mark.parametrize("version", versions(35))
def test_log_dirs_tell_the_size_of_partitions(asker: Asker, topic: str, version: int) -> None:
    stored = batch(b"x" * 1_000)
    produce(asker, topic, stored)
    wanted = k35.DescribableLogDirTopic(topic=topic, partitions=[0, 7])
    answer = asker.ask(k35.DescribeLogDirsRequest(topics=[wanted]), version)
    [directory] = answer.results
    [told] = directory.topics
    [one] = told.partitions
    assert (answer.error_code, directory.error_code) == (0, 0)
    assert (told.name, one.partition_index, one.partition_size) == (topic, 0, len(stored))
    assert (one.offset_lag, one.is_future_key) == (0, False)
    assert (directory.total_bytes >= 0) == (version >= 4)


@pytest.mark.parametrize("version", versions(35))
def test_all_partitions_can_be_asked_for(asker: Asker, topic: str, version: int) -> None:
    [directory] = asker.ask(k35.DescribeLogDirsRequest(topics=None), version).results
    assert topic in {each.name for each in directory.topics}


@pytest.fixture(scope="module")
def two_directories() -> Iterator[Cluster]:
    with Cluster({"log.dirs": "first,second"}) as cluster:
        yield cluster


def test_each_directory_is_described(two_directories: Cluster) -> None:
    topic = new_topic(two_directories, partitions=4)
    asker = Asker(two_directories.address)
    answer = asker.ask(k35.DescribeLogDirsRequest(topics=None), 4)
    asker.close()
    spread = [
        len(told.partitions)
        for directory in answer.results
        for told in directory.topics
        if told.name == topic
    ]
    assert spread == [2, 2]


# -- ListPartitionReassignments


@pytest.mark.parametrize("name", [None, "zork"])
def test_nothing_is_being_moved(asker: Asker, name: str | None) -> None:
    request = k46.ListPartitionReassignmentsRequest(topics=None, timeout_ms=5_000)
    if name is not None:
        wanted = k46.ListPartitionReassignmentsTopics(name=name, partition_indexes=[0])
        request.topics = [wanted]
    answer = asker.ask(request, 0)
    assert (answer.error_code, answer.topics) == (0, [])
