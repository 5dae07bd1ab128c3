"""Requests of every API for the table of permissions (access_cases.py).

A request changes nothing that a later one could see: it only validates, or names what does not
exist. Deletions and creations get topics of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from penstock.credentials.acls import AclOperation, AclPermission, AclResourceType, PatternType
from penstock.wire.batch import Record, build_batch
from penstock.wire.codec import write
from penstock.wire.frame import request_frame
from penstock.wire.records.principal import DefaultPrincipalData
from penstock.wire.structures import EntityData

Op, Kind = AclOperation, AclResourceType
ANN, EVERYONE = "User:ann", "User:*"
ADMIN, NOBODY = "admin", ""  # names of callers; NOBODY does not log in
CALLER = "ann"
OTHER_HOST = "10.9.9.9"
NO_BROKER = 999
WRONG_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
NOTHING = bytes(16)
DIRECTORY = bytes(15) + b"\x09"


@dataclass(frozen=True)
class Names:
    """The resources of the requests. `missing` does not exist."""

    topic: str
    topic_id: bytes
    missing: str
    group: str = "accessg"
    transactional_id: str = "accessx"


Build = Callable[[Names, int, Any], object]


def produce(names: Names, _version: int, k: Any, *, transactional: bool = False) -> object:
    record = Record(0, 1_750_000_000_000, None, b"value")
    batch = build_batch([record])
    if transactional:
        batch = build_batch(
            [record], producer_id=4_000, producer_epoch=0, base_sequence=0, transactional=True
        )
    known = k.TopicProduceData(
        name=names.topic,
        topic_id=names.topic_id,
        partition_data=[k.PartitionProduceData(index=0, records=batch)],
    )
    unknown = k.TopicProduceData(
        name=names.missing,
        topic_id=DIRECTORY,
        partition_data=[k.PartitionProduceData(index=0, records=build_batch([record]))],
    )
    topics = [known] if transactional else [known, unknown]
    return k.ProduceRequest(
        transactional_id=names.transactional_id if transactional else None,
        acks=1,
        timeout_ms=1_000,
        topic_data=topics,
    )


def fetch(names: Names, _version: int, k: Any, *, replica_id: int = -1) -> object:
    partition = k.FetchPartition(partition=0, partition_max_bytes=1_000)
    topics = [
        k.FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
        for name, topic_id in ((names.topic, names.topic_id), (names.missing, DIRECTORY))
    ]
    return k.FetchRequest(
        replica_id=replica_id,
        replica_state=k.ReplicaState(replica_id=replica_id),
        max_wait_ms=0,
        max_bytes=1_000,
        topics=topics,
    )


def fetch_metadata(_names: Names, _version: int, k: Any) -> object:
    partition = k.FetchPartition(partition=0, partition_max_bytes=1_000)
    wanted = k.FetchTopic(
        topic="__cluster_metadata", topic_id=bytes(15) + b"\x01", partitions=[partition]
    )
    return k.FetchRequest(cluster_id=WRONG_CLUSTER, max_wait_ms=0, topics=[wanted])


def list_offsets(names: Names, _version: int, k: Any) -> object:
    asked = [k.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return k.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            k.ListOffsetsTopic(name=each, partitions=asked) for each in (names.topic, names.missing)
        ],
    )


def metadata(names: Names, _version: int, k: Any, *, creates: bool = False) -> object:
    topics = [k.MetadataRequestTopic(name=names.topic), k.MetadataRequestTopic(name=names.missing)]
    return k.MetadataRequest(
        topics=topics[1:] if creates else topics,
        allow_auto_topic_creation=creates,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


def metadata_by_id(names: Names, _version: int, k: Any) -> object:
    asked = [
        k.MetadataRequestTopic(name=None, topic_id=each) for each in (names.topic_id, DIRECTORY)
    ]
    return k.MetadataRequest(topics=asked, allow_auto_topic_creation=False)


def every_topic(_names: Names, version: int, k: Any) -> object:
    return k.MetadataRequest(topics=None if version else [], allow_auto_topic_creation=False)


def offset_commit(names: Names, _version: int, k: Any) -> object:
    partition = k.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    return k.OffsetCommitRequest(
        group_id=names.group,
        topics=[
            k.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])
            for name, topic_id in ((names.topic, names.topic_id), (names.missing, DIRECTORY))
        ],
    )


def offset_fetch(names: Names, version: int, k: Any) -> object:
    wanted = ((names.topic, names.topic_id), (names.missing, DIRECTORY))
    if version < 8:
        topics = [k.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name, _ in wanted]
        return k.OffsetFetchRequest(group_id=names.group, topics=topics)
    named = [
        k.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
        for name, topic_id in wanted
    ]
    return k.OffsetFetchRequest(
        groups=[k.OffsetFetchRequestGroup(group_id=names.group, topics=named)]
    )


def all_offsets(names: Names, version: int, k: Any) -> object:
    if version < 8:
        return k.OffsetFetchRequest(group_id=names.group, topics=None)
    return k.OffsetFetchRequest(
        groups=[k.OffsetFetchRequestGroup(group_id=names.group, topics=None)]
    )


def find_coordinator(key_type: int) -> Build:
    def build(names: Names, version: int, k: Any) -> object:
        key = names.group if key_type == 0 else names.transactional_id
        if version >= 4:
            return k.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return k.FindCoordinatorRequest(key=key, key_type=key_type)

    return build


def join(names: Names, _version: int, k: Any) -> object:
    return k.JoinGroupRequest(
        group_id=names.group,
        session_timeout_ms=1,  # too short for any group
        rebalance_timeout_ms=1_000,
        protocol_type="consumer",
        protocols=[k.JoinGroupRequestProtocol(name="range")],
    )


def sync(names: Names, _version: int, k: Any) -> object:
    return k.SyncGroupRequest(
        group_id=names.group,
        generation_id=7,
        member_id="nobody",
        protocol_type="consumer",
        protocol_name="range",
    )


def leave(names: Names, version: int, k: Any) -> object:
    if version < 3:
        return k.LeaveGroupRequest(group_id=names.group, member_id="nobody")
    return k.LeaveGroupRequest(group_id=names.group, members=[k.MemberIdentity(member_id="nobody")])


def create_topics(names: Names, _version: int, k: Any) -> object:
    wanted = k.CreatableTopic(name=names.missing, num_partitions=1, replication_factor=1)
    return k.CreateTopicsRequest(topics=[wanted], timeout_ms=30_000, validate_only=True)


def delete_topics(names: Names, version: int, k: Any) -> object:
    if version < 6:
        return k.DeleteTopicsRequest(topic_names=[names.topic, names.missing], timeout_ms=30_000)
    asked = [k.DeleteTopicState(name=each) for each in (names.topic, names.missing)]
    return k.DeleteTopicsRequest(topics=asked, timeout_ms=30_000)


def delete_topics_by_id(names: Names, _version: int, k: Any) -> object:
    asked = [k.DeleteTopicState(topic_id=each) for each in (names.topic_id, DIRECTORY)]
    return k.DeleteTopicsRequest(topics=asked, timeout_ms=30_000)


def delete_records(names: Names, _version: int, k: Any) -> object:
    partition = k.DeleteRecordsPartition(partition_index=0, offset=0)
    return k.DeleteRecordsRequest(
        topics=[
            k.DeleteRecordsTopic(name=each, partitions=[partition])
            for each in (names.topic, names.missing)
        ],
        timeout_ms=30_000,
    )


def init_producer_id(transactional: bool, two_phase: bool = False) -> Build:
    def build(names: Names, _version: int, k: Any) -> object:
        return k.InitProducerIdRequest(
            transactional_id=names.transactional_id if transactional else None,
            transaction_timeout_ms=10_000,
            enable_2pc=two_phase,
        )

    return build


def epochs(names: Names, _version: int, k: Any) -> object:
    partition = k.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return k.OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            k.OffsetForLeaderTopic(topic=each, partitions=[partition])
            for each in (names.topic, names.missing)
        ],
    )


def add_partitions(names: Names, version: int, k: Any) -> object:
    topics = [
        k.AddPartitionsToTxnTopic(name=each, partitions=[0])
        for each in (names.topic, names.missing, "__consumer_offsets")
    ]
    if version >= 4:
        asked = k.AddPartitionsToTxnTransaction(
            transactional_id=names.transactional_id, producer_id=4_000, topics=topics
        )
        return k.AddPartitionsToTxnRequest(transactions=[asked])
    return k.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=names.transactional_id,
        v3_and_below_producer_id=4_000,
        v3_and_below_topics=topics,
    )


def add_offsets(names: Names, _version: int, k: Any) -> object:
    return k.AddOffsetsToTxnRequest(
        transactional_id=names.transactional_id, producer_id=4_000, group_id=names.group
    )


def end_txn(names: Names, _version: int, k: Any) -> object:
    return k.EndTxnRequest(transactional_id=names.transactional_id, producer_id=4_000)


def markers(names: Names, _version: int, k: Any) -> object:
    marker = k.WritableTxnMarker(
        producer_id=4_000,
        topics=[k.WritableTxnMarkerTopic(name=names.missing, partition_indexes=[0])],
    )
    return k.WriteTxnMarkersRequest(markers=[marker])


def txn_commit(names: Names, _version: int, k: Any) -> object:
    partition = k.TxnOffsetCommitRequestPartition(partition_index=0)
    return k.TxnOffsetCommitRequest(
        transactional_id=names.transactional_id,
        group_id=names.group,
        producer_id=4_000,
        topics=[
            k.TxnOffsetCommitRequestTopic(name=each, partitions=[partition])
            for each in (names.topic, names.missing)
        ],
    )


def describe_acls(_names: Names, _version: int, k: Any) -> object:
    return k.DescribeAclsRequest(
        resource_type_filter=Kind.TOPIC,
        resource_name_filter="no such topic",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Op.ANY,
        permission_type=AclPermission.ANY,
    )


def create_acls(_names: Names, _version: int, k: Any) -> object:
    wrong = k.AclCreation(
        resource_type=Kind.TOPIC, resource_name="", principal=ANN, host="*", operation=Op.READ,
        permission_type=AclPermission.ALLOW,
    )  # fmt: skip
    return k.CreateAclsRequest(creations=[wrong])


def delete_acls(_names: Names, _version: int, k: Any) -> object:
    none = k.DeleteAclsFilter(
        resource_type_filter=Kind.TOPIC, resource_name_filter="no such topic",
        principal_filter=None, host_filter=None, operation=Op.ANY,
        permission_type=AclPermission.ANY,
    )  # fmt: skip
    return k.DeleteAclsRequest(filters=[none])


TOPIC_CONFIG, BROKER_CONFIG, CLIENT_METRICS, GROUP_CONFIG = 2, 4, 16, 32


def described_configs(names: Names, _version: int, k: Any) -> object:
    asked = (
        (TOPIC_CONFIG, names.topic, "retention.ms"),
        (TOPIC_CONFIG, names.missing, "retention.ms"),
        (BROKER_CONFIG, "1", "num.partitions"),
        (GROUP_CONFIG, names.group, "consumer.session.timeout.ms"),
    )
    return k.DescribeConfigsRequest(
        resources=[
            k.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=[setting]
            )
            for kind, name, setting in asked
        ]
    )


def altered_configs(names: Names, _version: int, k: Any) -> object:
    asked = (
        (TOPIC_CONFIG, names.topic, "retention.ms", "1000"),
        (TOPIC_CONFIG, names.missing, "retention.ms", "1000"),
        (BROKER_CONFIG, "1", "log.cleaner.threads", "1"),
        (GROUP_CONFIG, names.group, "consumer.session.timeout.ms", "50000"),
    )
    request = getattr(k, "IncrementalAlterConfigsRequest", None) or k.AlterConfigsRequest
    return request(
        resources=[
            k.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[k.AlterableConfig(name=setting, value=value)],
            )
            for kind, name, setting, value in asked
        ],
        validate_only=True,
    )


def move(names: Names, _version: int, k: Any) -> object:
    topics = [k.AlterReplicaLogDirTopic(name=names.topic, partitions=[0])]
    return k.AlterReplicaLogDirsRequest(
        dirs=[k.AlterReplicaLogDir(path="/no/such/directory", topics=topics)]
    )


def log_dirs(names: Names, _version: int, k: Any) -> object:
    return k.DescribeLogDirsRequest(
        topics=[k.DescribableLogDirTopic(topic=names.topic, partitions=[0])]
    )


def more_partitions(names: Names, _version: int, k: Any) -> object:
    topics = [
        k.CreatePartitionsTopic(name=each, count=2, assignments=None)
        for each in (names.topic, names.missing)
    ]
    return k.CreatePartitionsRequest(topics=topics, timeout_ms=30_000, validate_only=True)


def elect(names: Names, _version: int, k: Any) -> object:
    return k.ElectLeadersRequest(
        topic_partitions=[k.TopicPartitions(topic=names.topic, partitions=[0])], timeout_ms=30_000
    )


def reassign(names: Names, _version: int, k: Any) -> object:
    cancelled = k.ReassignablePartition(partition_index=0, replicas=None)
    topics = [k.ReassignableTopic(name=names.topic, partitions=[cancelled])]
    return k.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=topics)


def offset_delete(names: Names, _version: int, k: Any) -> object:
    partition = k.OffsetDeleteRequestPartition(partition_index=0)
    return k.OffsetDeleteRequest(
        group_id=names.group,
        topics=[
            k.OffsetDeleteRequestTopic(name=each, partitions=[partition])
            for each in (names.topic, names.missing)
        ],
    )


def quorum_topic(k: Any, **fields: Any) -> list[object]:
    partition = k.RequestPartitionData(partition_index=0, **fields)
    return [k.RequestTopicData(topic_name="__cluster_metadata", partitions=[partition])]


def vote(_names: Names, _version: int, k: Any) -> object:
    topics = quorum_topic(k, replica_id=NO_BROKER)
    return k.VoteRequest(cluster_id=WRONG_CLUSTER, topics=topics)


def begin_epoch(_names: Names, _version: int, k: Any) -> object:
    topics = quorum_topic(k, leader_id=NO_BROKER)
    return k.BeginQuorumEpochRequest(cluster_id=WRONG_CLUSTER, topics=topics)


def end_epoch(_names: Names, _version: int, k: Any) -> object:
    topics = quorum_topic(k, leader_id=NO_BROKER)
    return k.EndQuorumEpochRequest(cluster_id=WRONG_CLUSTER, topics=topics)


def describe_quorum(_names: Names, _version: int, k: Any) -> object:
    return k.DescribeQuorumRequest(topics=quorum_topic(k))


def alter_partition(_names: Names, version: int, k: Any) -> object:
    epochs = [k.BrokerState(broker_id=NO_BROKER)] if version >= 3 else []
    partition = k.RequestPartitionData(new_isr=[NO_BROKER], new_isr_with_epochs=epochs)
    topics = [k.RequestTopicData(topic_id=DIRECTORY, partitions=[partition])]
    return k.AlterPartitionRequest(broker_id=NO_BROKER, broker_epoch=1, topics=topics)


def quotas(_names: Names, _version: int, k: Any) -> object:
    component = k.ComponentData(entity_type="user", match_type=0, match="nobody-has-this-name")
    return k.DescribeClientQuotasRequest(components=[component])


def altered_quotas(_names: Names, _version: int, k: Any) -> object:
    entity = [EntityData(entity_type="user", entity_name="nobody-has-this-name")]
    operation = k.OpData(key="producer_byte_rate", value=1024.0)
    entry = k.RequestEntryData(entity=entity, ops=[operation])
    return k.AlterClientQuotasRequest(entries=[entry], validate_only=True)


def users(_names: Names, _version: int, k: Any) -> object:
    user = k.UserName(name="nobody-has-this-name")
    return k.DescribeUserScramCredentialsRequest(users=[user])


def removed_users(_names: Names, _version: int, k: Any) -> object:
    deletion = k.ScramCredentialDeletion(name="nobody-has-this-name", mechanism=1)
    return k.AlterUserScramCredentialsRequest(deletions=[deletion])


def features(_names: Names, _version: int, k: Any) -> object:
    unknown = k.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
    return k.UpdateFeaturesRequest(feature_updates=[unknown])


def envelope(_names: Names, _version: int, k: Any) -> object:
    """In it, the super user asks for an election of no partition."""
    inner = import_module("penstock.wire.messages.k43_elect_leaders")
    frame = request_frame(43, 2, 7, "inner", inner.ElectLeadersRequest(topic_partitions=[]))
    principal = write(DefaultPrincipalData(type="User", name=ADMIN), 0)
    return k.EnvelopeRequest(
        request_data=frame[4:],
        request_principal=b"\0\0" + principal,
        client_host_address=bytes((127, 0, 0, 1)),
    )


def fetch_snapshot(_names: Names, _version: int, k: Any) -> object:
    partition = k.RequestPartitionSnapshot(partition=0)
    topics = [k.RequestTopicSnapshot(name="__cluster_metadata", partitions=[partition])]
    return k.FetchSnapshotRequest(cluster_id=WRONG_CLUSTER, topics=topics)


def describe_cluster(endpoint_type: int) -> Build:
    def build(_names: Names, version: int, k: Any) -> object:
        return k.DescribeClusterRequest(
            include_cluster_authorized_operations=True,
            endpoint_type=endpoint_type if version else 1,
        )

    return build


def producers(names: Names, _version: int, k: Any) -> object:
    return k.DescribeProducersRequest(
        topics=[
            k.TopicRequest(name=each, partition_indexes=[0])
            for each in (names.topic, names.missing)
        ]
    )


def registration(_names: Names, _version: int, k: Any) -> object:
    return k.BrokerRegistrationRequest(
        broker_id=NO_BROKER, cluster_id=WRONG_CLUSTER, incarnation_id=DIRECTORY
    )


def transactions(names: Names, _version: int, k: Any) -> object:
    return k.DescribeTransactionsRequest(transactional_ids=[names.transactional_id])


def consumer_heartbeat(names: Names, _version: int, k: Any) -> object:
    return k.ConsumerGroupHeartbeatRequest(
        group_id=names.group,
        member_id="nobody",
        member_epoch=5,
        subscribed_topic_names=[names.topic],
    )


def assignments(_names: Names, _version: int, k: Any) -> object:
    partition = k.RequestPartitionData(partition_index=0)
    topics = [k.RequestTopicData(topic_id=DIRECTORY, partitions=[partition])]
    directories = [k.RequestDirectoryData(id=DIRECTORY, topics=topics)]
    return k.AssignReplicasToDirsRequest(
        broker_id=NO_BROKER, broker_epoch=1, directories=directories
    )


def topic_partitions(names: Names, _version: int, k: Any) -> object:
    topics = [k.TopicRequest(name=each) for each in (names.topic, names.missing)]
    return k.DescribeTopicPartitionsRequest(topics=topics)


def plain(request: str, **fields: Any) -> Build:
    """A request with fixed fields; a function gets the names."""

    def build(names: Names, _version: int, k: Any) -> object:
        values = {
            name: value(names) if callable(value) else value for name, value in fields.items()
        }
        return getattr(k, request)(**values)

    return build
