"""Every API that is served, asked something meaningful in every version that is advertised."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from api_asking import (
    Asker,
    asking,
    batch,
    fetch_request,
    fetch_topic,
    list_offsets_request,
    new_topic,
    produce,
    produce_request,
    topic_id,
    unused_name,
)
from delivery_cases import DELIVERY_CASES

from penstock.broker.handlers import HANDLERS
from penstock.errors import (
    BrokerIdNotRegistered,
    DuplicateResource,
    ElectionNotNeeded,
    IllegalSaslState,
    ResourceNotFound,
    SecurityDisabled,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.release import NODE_SOFTWARE_NAME, VERSION
from penstock.testing.cluster import Cluster
from penstock.wire.apis import APIS, OWN_FROM
from penstock.wire.codec import read_from
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k17_sasl_handshake as k17
from penstock.wire.messages import k18_api_versions as k18
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k21_delete_records as k21
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k23_offset_for_leader_epoch as k23
from penstock.wire.messages import k29_describe_acls as k29
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k34_alter_replica_log_dirs as k34
from penstock.wire.messages import k35_describe_log_dirs as k35
from penstock.wire.messages import k36_sasl_authenticate as k36
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.messages import k43_elect_leaders as k43
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k45_alter_partition_reassignments as k45
from penstock.wire.messages import k46_list_partition_reassignments as k46
from penstock.wire.messages import k48_describe_client_quotas as k48
from penstock.wire.messages import k49_alter_client_quotas as k49
from penstock.wire.messages import k50_describe_user_scram_credentials as k50
from penstock.wire.messages import k51_alter_user_scram_credentials as k51
from penstock.wire.messages import k55_describe_quorum as k55
from penstock.wire.messages import k57_update_features as k57
from penstock.wire.messages import k60_describe_cluster as k60
from penstock.wire.messages import k64_unregister_broker as k64
from penstock.wire.messages import k74_list_config_resources as k74
from penstock.wire.messages import k75_describe_topic_partitions as k75
from penstock.wire.messages import k10000_revoke_producer as k10000
from penstock.wire.structures import EntityData

pytest_plugins = ["api_fixtures"]

TOPIC = 2
SET = 0
API_VERSIONS = 18
VERSION_FROM_THE_FUTURE = 99

BROKER_KEYS = [key for key in HANDLERS if "broker" in APIS[key].listeners]
CLIENT_KEYS = [key for key in BROKER_KEYS if key < OWN_FROM]

QUOTA = "producer_byte_rate"
# What to ask about a topic of one partition that holds two records, and whether the answer is right
Case = Callable[[Asker, str, int], object]


def _produce(asker: Asker, topic: str, version: int) -> object:
    name = topic_id(asker, topic) if version >= 13 else topic
    answer = produce(asker, name, batch(b"c"), version=version)
    return answer.error_code == 0 and answer.base_offset == 2


def _fetch(asker: Asker, topic: str, version: int) -> object:
    name = topic_id(asker, topic) if version >= 13 else topic
    answer = asker.ask(fetch_request(fetch_topic(name, {0: 0})), version)
    [one] = answer.responses[0].partitions
    return one.error_code == 0 and one.high_watermark == 2 and len(one.records) > 0


def _list_offsets(asker: Asker, topic: str, version: int) -> object:
    [one] = asker.ask(list_offsets_request(topic, -1), version).topics[0].partitions
    return one.error_code == 0 and one.offset == 2


def _metadata(asker: Asker, topic: str, version: int) -> object:
    request = k03.MetadataRequest(topics=[k03.MetadataRequestTopic(name=topic)])
    answer = asker.ask(request, version)
    [one] = answer.topics
    return one.name == topic and one.partitions[0].leader_id == answer.brokers[0].node_id


def _api_versions(asker: Asker, _topic: str, version: int) -> object:
    request = k18.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = asker.ask(request, version)
    return not answer.error_code and set(CLIENT_KEYS) == {each.api_key for each in answer.api_keys}


def _create_topics(asker: Asker, _topic: str, version: int) -> object:
    wanted = k19.CreatableTopic(name=unused_name(), num_partitions=3, replication_factor=1)
    [one] = asker.ask(k19.CreateTopicsRequest(topics=[wanted]), version).topics
    return one.error_code == 0 and (version < 5 or one.num_partitions == 3)


def _delete_topics(asker: Asker, topic: str, version: int) -> object:
    request = k20.DeleteTopicsRequest(timeout_ms=5_000)
    if version >= 6:
        request.topics = [k20.DeleteTopicState(name=topic)]
    else:
        request.topic_names = [topic]
    [one] = asker.ask(request, version).responses
    return one.error_code == 0 and one.name == topic


def _delete_records(asker: Asker, topic: str, version: int) -> object:
    wanted = k21.DeleteRecordsPartition(partition_index=0, offset=1)
    request = k21.DeleteRecordsRequest(
        topics=[k21.DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5_000
    )
    [one] = asker.ask(request, version).topics[0].partitions
    return one.error_code == 0 and one.low_watermark == 1


def _init_producer_id(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k22.InitProducerIdRequest(transactional_id=None), version)
    return answer.error_code == 0 and answer.producer_id >= 0 and answer.producer_epoch == 0


def _offset_for_leader_epoch(asker: Asker, topic: str, version: int) -> object:
    wanted = k23.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = k23.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[k23.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    [one] = asker.ask(request, version).topics[0].partitions
    return (one.error_code, one.leader_epoch, one.end_offset) == (0, 0, 2)


def _describe_acls(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k29.DescribeAclsRequest(resource_type_filter=1), version)
    return answer.error_code == SecurityDisabled.code and answer.resources == []


def _create_acls(asker: Asker, topic: str, version: int) -> object:
    wanted = k30.AclCreation(resource_type=TOPIC, resource_name=topic)
    results = asker.ask(k30.CreateAclsRequest(creations=[wanted, wanted]), version).results
    return [each.error_code for each in results] == [SecurityDisabled.code] * 2


def _delete_acls(asker: Asker, _topic: str, version: int) -> object:
    wanted = k31.DeleteAclsFilter(resource_type_filter=1)
    results = asker.ask(k31.DeleteAclsRequest(filters=[wanted]), version).filter_results
    return [each.error_code for each in results] == [SecurityDisabled.code]


def _describe_configs(asker: Asker, topic: str, version: int) -> object:
    wanted = k32.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=["retention.ms"]
    )
    [one] = asker.ask(k32.DescribeConfigsRequest(resources=[wanted]), version).results
    return one.error_code == 0 and one.configs[0].value == "604800000"


def _alter_configs(asker: Asker, topic: str, version: int) -> object:
    config = k33.AlterableConfig(name="retention.ms", value="5000")
    wanted = k33.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
    [one] = asker.ask(k33.AlterConfigsRequest(resources=[wanted]), version).responses
    return one.error_code == 0 and one.resource_name == topic


def _alter_replica_log_dirs(asker: Asker, topic: str, version: int) -> object:
    [here] = asker.ask(k35.DescribeLogDirsRequest(topics=[]), 4).results
    wanted = k34.AlterReplicaLogDirTopic(name=topic, partitions=[0])
    move = k34.AlterReplicaLogDir(path=here.log_dir, topics=[wanted])
    [one] = asker.ask(k34.AlterReplicaLogDirsRequest(dirs=[move]), version).results
    return one.topic_name == topic and one.partitions[0].error_code == 0


def _describe_log_dirs(asker: Asker, topic: str, version: int) -> object:
    wanted = k35.DescribableLogDirTopic(topic=topic, partitions=[0])
    [one] = asker.ask(k35.DescribeLogDirsRequest(topics=[wanted]), version).results
    return one.error_code == 0 and one.topics[0].partitions[0].partition_size > 0


def _create_partitions(asker: Asker, topic: str, version: int) -> object:
    wanted = k37.CreatePartitionsTopic(name=topic, count=2, assignments=None)
    request = k37.CreatePartitionsRequest(topics=[wanted], timeout_ms=5_000)
    [one] = asker.ask(request, version).results
    return one.error_code == 0 and one.name == topic


def _elect_leaders(asker: Asker, topic: str, version: int) -> object:
    wanted = k43.TopicPartitions(topic=topic, partitions=[0])
    answer = asker.ask(k43.ElectLeadersRequest(topic_partitions=[wanted]), version)
    [one] = answer.replica_election_results[0].partition_result
    return answer.error_code == 0 and one.error_code == ElectionNotNeeded.code


def _incremental_alter_configs(asker: Asker, topic: str, version: int) -> object:
    config = k44.AlterableConfig(name="retention.ms", config_operation=SET, value="5000")
    wanted = k44.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
    [one] = asker.ask(k44.IncrementalAlterConfigsRequest(resources=[wanted]), version).responses
    return one.error_code == 0 and one.resource_name == topic


def _alter_partition_reassignments(asker: Asker, topic: str, version: int) -> object:
    here = k45.ReassignablePartition(partition_index=0, replicas=[1])
    wanted = k45.ReassignableTopic(name=topic, partitions=[here])
    answer = asker.ask(k45.AlterPartitionReassignmentsRequest(topics=[wanted]), version)
    [one] = answer.responses[0].partitions
    return answer.error_code == 0 and (one.error_code, one.error_message) == (0, None)


def _list_partition_reassignments(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k46.ListPartitionReassignmentsRequest(topics=None), version)
    return answer.error_code == 0 and answer.topics == []


def _alter_client_quotas(asker: Asker, topic: str, version: int) -> object:
    entity = [EntityData(entity_type="user", entity_name=topic)]
    wanted = k49.RequestEntryData(entity=entity, ops=[k49.OpData(key=QUOTA, value=1e9)])
    [one] = asker.ask(k49.AlterClientQuotasRequest(entries=[wanted]), version).entries
    return (one.error_code, one.error_message, one.entity) == (0, None, entity)


def _describe_client_quotas(asker: Asker, topic: str, version: int) -> object:
    assert _alter_client_quotas(asker, topic, 1)
    wanted = k48.ComponentData(entity_type="user", match_type=0, match=topic)
    answer = asker.ask(k48.DescribeClientQuotasRequest(components=[wanted]), version)
    assert answer.entries is not None
    [one] = answer.entries
    return answer.error_code == 0 and one.values == [k48.ValueData(key=QUOTA, value=1e9)]


def _describe_quorum(asker: Asker, _topic: str, version: int) -> object:
    wanted = k55.RequestTopicData(
        topic_name="__cluster_metadata", partitions=[k55.RequestPartitionData(partition_index=0)]
    )
    answer = asker.ask(k55.DescribeQuorumRequest(topics=[wanted]), version)
    [one] = answer.topics[0].partitions
    return answer.error_code == one.error_code == 0 and one.leader_id == 1


def _update_features(asker: Asker, _topic: str, version: int) -> object:
    update = k57.FeatureUpdateKey(feature="metadata.version", max_version_level=30)
    answer = asker.ask(k57.UpdateFeaturesRequest(feature_updates=[update]), version)
    named = [each.feature for each in answer.results]
    return answer.error_code == 0 and named == (["metadata.version"] if version <= 1 else [])


def _describe_cluster(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k60.DescribeClusterRequest(), version)
    return answer.error_code == 0 and [each.broker_id for each in answer.brokers] == [1]


def _unregister_broker(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k64.UnregisterBrokerRequest(broker_id=99), version)
    return answer.error_code == BrokerIdNotRegistered.code


def _list_config_resources(asker: Asker, topic: str, version: int) -> object:
    answer = asker.ask(k74.ListConfigResourcesRequest(), version)
    names = {each.resource_name for each in answer.config_resources}
    return answer.error_code == 0 and (topic in names) == (version >= 1)


def _describe_topic_partitions(asker: Asker, topic: str, version: int) -> object:
    request = k75.DescribeTopicPartitionsRequest(topics=[k75.TopicRequest(name=topic)])
    [one] = asker.ask(request, version).topics
    return one.error_code == 0 and [each.isr_nodes for each in one.partitions] == [[1]]


def _revoke_producer(asker: Asker, topic: str, version: int) -> object:
    wanted = k10000.RevokeProducerTopic(name=topic, partition_indexes=[0, 1])
    request = k10000.RevokeProducerRequest(producer_id=7, producer_epoch=0, topics=[wanted])
    [answer] = asker.ask(request, version).topics
    return [each.error_code for each in answer.partitions] == [0, UnknownTopicOrPartition.code]


def _sasl_handshake(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k17.SaslHandshakeRequest(mechanism="PLAIN"), version)
    return answer.error_code == IllegalSaslState.code


def _sasl_authenticate(asker: Asker, _topic: str, version: int) -> object:
    answer = asker.ask(k36.SaslAuthenticateRequest(auth_bytes=b"x"), version)
    return answer.error_code == IllegalSaslState.code


def _alter_users(asker: Asker, topic: str, version: int) -> object:
    change = k51.ScramCredentialUpsertion(
        name=topic, mechanism=1, iterations=5_000, salt=b"salt", salted_password=bytes(32)
    )
    missing = k51.ScramCredentialDeletion(name="missing", mechanism=1)
    request = k51.AlterUserScramCredentialsRequest(deletions=[missing], upsertions=[change])
    results = asker.ask(request, version).results
    return [each.error_code for each in results] == [ResourceNotFound.code, 0]


def _describe_users(asker: Asker, topic: str, version: int) -> object:
    change = k51.ScramCredentialUpsertion(
        name=topic, mechanism=2, iterations=5_000, salt=b"salt", salted_password=bytes(32)
    )
    asker.ask(k51.AlterUserScramCredentialsRequest(upsertions=[change]), 0)
    wanted = [k50.UserName(name=each) for each in (topic, "twice", "missing", "twice")]
    answer = asker.ask(k50.DescribeUserScramCredentialsRequest(users=wanted), version)
    known = [(each.mechanism, each.iterations) for each in answer.results[0].credential_infos]
    everyone = asker.ask(k50.DescribeUserScramCredentialsRequest(users=None), version)
    return (
        known == [(2, 5_000)]
        and {each.user: each.error_code for each in answer.results}
        == {topic: 0, "twice": DuplicateResource.code, "missing": ResourceNotFound.code}
        and topic in [each.user for each in everyone.results]
    )


CASES: dict[int, Case] = {
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: _metadata,
    17: _sasl_handshake,
    18: _api_versions,
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    22: _init_producer_id,
    23: _offset_for_leader_epoch,
    29: _describe_acls,
    30: _create_acls,
    31: _delete_acls,
    32: _describe_configs,
    33: _alter_configs,
    34: _alter_replica_log_dirs,
    35: _describe_log_dirs,
    36: _sasl_authenticate,
    37: _create_partitions,
    43: _elect_leaders,
    44: _incremental_alter_configs,
    45: _alter_partition_reassignments,
    46: _list_partition_reassignments,
    50: _describe_users,
    51: _alter_users,
    48: _describe_client_quotas,
    49: _alter_client_quotas,
    55: _describe_quorum,
    57: _update_features,
    60: _describe_cluster,
    64: _unregister_broker,
    74: _list_config_resources,
    75: _describe_topic_partitions,
    10_000: _revoke_producer,
    **DELIVERY_CASES,
}


def _every_version() -> list[Any]:
    found = []
    for key, case in CASES.items():
        low, high = APIS[key].versions
        name = APIS[key].name
        found += [pytest.param(case, v, id=f"{name}-v{v}") for v in range(low, high + 1)]
    return found


@pytest.mark.parametrize(("case", "version"), _every_version())
def test_an_advertised_version_is_answered(
    asker: Asker, penstock_cluster: Cluster, case: Case, version: int
) -> None:
    topic = new_topic(penstock_cluster)
    produce(asker, topic, batch(b"a", b"b"))
    assert case(asker, topic, version)


def test_every_served_api_has_a_case_here() -> None:
    assert set(CASES) == set(BROKER_KEYS)


def test_what_is_advertised_is_what_is_served(asker: Asker) -> None:
    answer = asker.ask(k18.ApiVersionsRequest(), 0)
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    served = {key: APIS[key].versions for key in CLIENT_KEYS}
    assert told == served | {0: (0, 13)}


def test_nodes_are_told_of_the_apis_among_nodes(asker: Asker) -> None:
    node = k18.ApiVersionsRequest(
        client_software_name=NODE_SOFTWARE_NAME, client_software_version=VERSION
    )
    told = {each.api_key for each in asker.ask(node, 4).api_keys}
    assert told == set(BROKER_KEYS)


# -- what has no answer


def _bare(key: int, version: int) -> bytes:
    return struct.pack(">ihhih", 10, key, version, 7, -1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_before_v3_closes_although_it_is_advertised(asker: Asker, version: int) -> None:
    asker.send_bytes(_bare(0, version))
    assert asker.is_closed()


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 52, 93, 32_767])
def test_an_api_key_that_is_not_served_closes(asker: Asker, key: int) -> None:
    asker.send_bytes(_bare(key, 0))
    assert asker.is_closed()


@pytest.mark.parametrize("key", sorted(set(HANDLERS) - {API_VERSIONS}))
def test_a_version_above_the_served_ones_closes(asker: Asker, key: int) -> None:
    asker.send_bytes(_bare(key, APIS[key].versions[1] + 1))
    assert asker.is_closed()


@pytest.mark.parametrize("key", [key for key in sorted(HANDLERS) if APIS[key].versions[0] > 0])
def test_a_version_below_the_served_ones_closes(asker: Asker, key: int) -> None:
    asker.send_bytes(_bare(key, APIS[key].versions[0] - 1))
    assert asker.is_closed()


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_a_request_that_ends_too_early_closes(asker: Asker, key: int) -> None:
    low, high = APIS[key].versions
    if key == API_VERSIONS:
        high, low = 2, 2  # has no body: nothing can be missing
        asker.send_bytes(struct.pack(">ihhih", 10, key, low, 7, 40))
    else:
        asker.send_bytes(_bare(key, high))
    assert asker.is_closed()


def test_a_frame_of_garbage_closes(asker: Asker) -> None:
    asker.send_bytes(b"GET / HTTP/1.1\r\nHost: penstock\r\n\r\n")
    assert asker.is_closed()


def test_a_closed_connection_leaves_the_others_alone(
    penstock_cluster: Cluster, asker: Asker
) -> None:
    with asking(penstock_cluster) as other:
        other.send_bytes(_bare(99, 0))
        assert other.is_closed()
    assert asker.ask(k18.ApiVersionsRequest(), 0).error_code == 0


# -- ApiVersions


def test_api_versions_of_the_future_gets_error_35_in_a_v0_body(asker: Asker) -> None:
    body = struct.pack(">hhih", API_VERSIONS, VERSION_FROM_THE_FUTURE, 7, -1) + b"\0\2x\2y\0"
    asker.send_bytes(struct.pack(">i", len(body)) + body)
    frame = asker.receive_bytes()
    answer, end = read_from(k18.ApiVersionsResponse, 0, frame, 4)
    assert frame[:4] == struct.pack(">i", 7)
    assert end == len(frame)
    assert answer.error_code == UnsupportedVersion.code
    assert [(e.api_key, e.min_version, e.max_version) for e in answer.api_keys] == [(18, 0, 4)]


def test_after_error_35_the_connection_goes_on(asker: Asker) -> None:
    asker.send_bytes(struct.pack(">ihhih", 10, API_VERSIONS, VERSION_FROM_THE_FUTURE, 7, -1))
    asker.receive_bytes()
    assert asker.ask(k18.ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize("name", ["", "a b", "-a", "a-", "naïve"])
def test_a_strange_software_name_is_an_invalid_request(asker: Asker, name: str) -> None:
    request = k18.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert asker.ask(request, 3).error_code == 42


def test_v3_leaves_out_features_whose_lowest_version_is_0(asker: Asker) -> None:
    request = k18.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    older = {each.name for each in asker.ask(request, 3).supported_features}
    newer = {each.name for each in asker.ask(request, 4).supported_features}
    assert older == {"metadata.version"}
    assert {"metadata.version", "kraft.version", "group.version", "transaction.version"} <= newer


@pytest.mark.parametrize("version", [3, 4])
def test_the_levels_in_force_are_told_with_their_epoch(asker: Asker, version: int) -> None:
    request = k18.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = asker.ask(request, version)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert answer.finalized_features_epoch >= 0
    assert levels["metadata.version"] == 30
    assert levels["kraft.version"] == 1
    assert levels["transaction.version"] == 2


# -- replies in order


def test_replies_keep_the_order_of_requests(asker: Asker, topic: str) -> None:
    for _ in range(50):
        asker.send(produce_request(topic, batch(b"x")), 9)
        asker.send(k18.ApiVersionsRequest(), 0)
        asker.send(list_offsets_request(topic, -1), 6)
    offsets = []
    for _ in range(50):
        offsets.append(asker.receive().responses[0].partition_responses[0].base_offset)
        assert asker.receive().error_code == 0
        asker.receive()
    assert offsets == list(range(50))


def test_requests_may_arrive_byte_by_byte(asker: Asker, topic: str) -> None:
    body = struct.pack(">hhih", 3, 1, 9, -1) + struct.pack(">ih", 1, len(topic)) + topic.encode()
    for byte in struct.pack(">i", len(body)) + body:
        asker.send_bytes(bytes([byte]))
    frame = asker.receive_bytes()
    answer, end = read_from(k03.MetadataResponse, 1, frame, 4)
    assert end == len(frame)
    assert answer.topics[0].name == topic
