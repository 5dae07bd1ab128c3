"""Every API that a controller listener alone serves, in every version that is advertised."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_asking import Asker

from penstock.broker.handlers import HANDLERS
from penstock.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    SnapshotNotFound,
    StaleBrokerEpoch,
    TopicAlreadyExists,
)
from penstock.model import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID
from penstock.testing.cluster import Cluster
from penstock.wire.apis import APIS
from penstock.wire.codec import read, write
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k18_api_versions as k18
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k52_vote as k52
from penstock.wire.messages import k53_begin_quorum_epoch as k53
from penstock.wire.messages import k54_end_quorum_epoch as k54
from penstock.wire.messages import k55_describe_quorum as k55
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.messages import k58_envelope as k58
from penstock.wire.messages import k59_fetch_snapshot as k59
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.wire.messages import k67_allocate_producer_ids as k67
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.messages import k73_assign_replicas_to_dirs as k73
from penstock.wire.records.principal import DefaultPrincipalData

CONTROLLER_KEYS = [key for key in HANDLERS if APIS[key].listeners == {"controller"}]
FETCH = 1
PRINCIPAL_VERSION = b"\0\0"
SIZE_BYTES = 4
NODE_UNKNOWN = 77

Case = Callable[[Asker, int], object]


@pytest.fixture(scope="module")
def controller() -> Iterator[Asker]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
    }
    with Cluster(settings) as cluster:
        cluster.create_topic("t")
        asker = Asker(cluster.addresses["CONTROLLER"])
        yield asker
        asker.close()


def _vote(asker: Asker, version: int) -> object:
    partition = k52.RequestPartitionData(
        replica_id=NODE_UNKNOWN, replica_epoch=_leader_epoch(asker), last_offset_epoch=0
    )
    topic = k52.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    [answer] = asker.ask(k52.VoteRequest(cluster_id=None, topics=[topic]), version).topics
    [one] = answer.partitions
    return one.error_code == 0 and not one.vote_granted


def _begin_epoch(asker: Asker, version: int) -> object:
    partition = k53.RequestPartitionData(leader_id=NODE_UNKNOWN)
    topic = k53.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    request = k53.BeginQuorumEpochRequest(cluster_id=None, topics=[topic])
    return asker.ask(request, version).topics[0].partitions[0].error_code == FencedLeaderEpoch.code


def _end_epoch(asker: Asker, version: int) -> object:
    partition = k54.RequestPartitionData(leader_id=NODE_UNKNOWN)
    topic = k54.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    request = k54.EndQuorumEpochRequest(cluster_id=None, topics=[topic])
    return asker.ask(request, version).topics[0].partitions[0].error_code == FencedLeaderEpoch.code


def _create(asker: Asker, version: int) -> object:
    """Create a topic that exists, in an envelope."""
    topic = k19.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    inner = k19.CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
    request = _envelope(19, 7, inner)
    answer = asker.ask(request, version)
    _, position = parse_response_header(19, 7, answer.response_data)
    response = read(k19.CreateTopicsResponse, 7, answer.response_data, position)
    return answer.error_code == 0 and response.topics[0].error_code == TopicAlreadyExists.code


def _envelope(key: int, version: int, message: object) -> k58.EnvelopeRequest:
    frame = request_frame(key, version, 9, "client", message)
    principal = DefaultPrincipalData(type="User", name="ANONYMOUS")
    return k58.EnvelopeRequest(
        request_data=frame[SIZE_BYTES:],
        request_principal=PRINCIPAL_VERSION + write(principal, 0),
        client_host_address=bytes((127, 0, 0, 1)),
    )


def _fetch_snapshot(asker: Asker, version: int) -> object:
    partition = k59.RequestPartitionSnapshot(
        current_leader_epoch=_leader_epoch(asker),
        snapshot_id=k59.SnapshotId(end_offset=12_345, epoch=1),
    )
    topic = k59.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    request = k59.FetchSnapshotRequest(cluster_id=None, topics=[topic])
    return asker.ask(request, version).topics[0].partitions[0].error_code == SnapshotNotFound.code


def _leader_epoch(asker: Asker) -> int:
    partition = k55.RequestPartitionData(partition_index=0)
    topic = k55.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    answer = asker.ask(k55.DescribeQuorumRequest(topics=[topic]), 2)
    epoch: int = answer.topics[0].partitions[0].leader_epoch
    return epoch


def _register_broker(asker: Asker, version: int) -> object:
    request = k62.BrokerRegistrationRequest(broker_id=NODE_UNKNOWN, cluster_id="another one")
    return asker.ask(request, version).error_code == InconsistentClusterId.code


def _heartbeat(asker: Asker, version: int) -> object:
    request = k63.BrokerHeartbeatRequest(broker_id=1, broker_epoch=1_000_000)
    return asker.ask(request, version).error_code == StaleBrokerEpoch.code


def _allocate(asker: Asker, version: int) -> object:
    request = k67.AllocateProducerIdsRequest(broker_id=1, broker_epoch=1_000_000)
    return asker.ask(request, version).error_code == StaleBrokerEpoch.code


def _register_controller(asker: Asker, version: int) -> object:
    request = k70.ControllerRegistrationRequest(controller_id=NODE_UNKNOWN)
    return asker.ask(request, version).error_code == 0


def _alter_partition(asker: Asker, version: int) -> object:
    request = k56.AlterPartitionRequest(broker_id=1, broker_epoch=1_000_000)
    return asker.ask(request, version).error_code == StaleBrokerEpoch.code


def _assign_directories(asker: Asker, version: int) -> object:
    request = k73.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=1_000_000)
    return asker.ask(request, version).error_code == StaleBrokerEpoch.code


CASES: dict[int, Case] = {
    52: _vote,
    53: _begin_epoch,
    54: _end_epoch,
    56: _alter_partition,
    58: _create,
    59: _fetch_snapshot,
    62: _register_broker,
    63: _heartbeat,
    67: _allocate,
    70: _register_controller,
    73: _assign_directories,
}


def _every_version() -> list[Any]:
    found = []
    for key, case in CASES.items():
        low, high = APIS[key].versions
        found += [pytest.param(case, v, id=f"{APIS[key].name}-v{v}") for v in range(low, high + 1)]
    return found


@pytest.mark.parametrize(("case", "version"), _every_version())
def test_an_advertised_version_is_answered(controller: Asker, case: Case, version: int) -> None:
    assert case(controller, version)


def test_every_api_of_controllers_has_a_case_here() -> None:
    assert set(CASES) == set(CONTROLLER_KEYS)


def test_a_controller_listener_advertises_what_it_serves(controller: Asker) -> None:
    answer = controller.ask(k18.ApiVersionsRequest(), 0)
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    served = {key for key in HANDLERS if "controller" in APIS[key].listeners}
    assert told == {key: APIS[key].versions for key in served}


@pytest.mark.parametrize("version", range(12, 19))
def test_a_fetch_reads_the_metadata_log(controller: Asker, version: int) -> None:
    partition = k01.FetchPartition(
        current_leader_epoch=_leader_epoch(controller), last_fetched_epoch=0
    )
    topic = k01.FetchTopic(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    request = k01.FetchRequest(
        replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, topics=[topic], cluster_id=None
    )
    [answer] = controller.ask(request, version).responses
    [one] = answer.partitions
    assert one.error_code == 0
    assert one.records


@pytest.mark.parametrize(
    "inner", [k01.FetchRequest(), k03.MetadataRequest(), k52.VoteRequest()], ids=str
)
def test_an_envelope_carries_admin_requests_only(controller: Asker, inner: object) -> None:
    key = {k01.FetchRequest: 1, k03.MetadataRequest: 3, k52.VoteRequest: 52}[type(inner)]
    request = _envelope(key, APIS[key].versions[1], inner)
    assert controller.ask(request, 0).error_code == InvalidRequest.code
