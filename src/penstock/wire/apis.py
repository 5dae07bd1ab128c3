"""The APIs: versions, first flexible version, listeners, and the module of the schema.

The ranges are those of Apache Kafka 4.3. Keys from OWN_FROM on are Penstock's own: its nodes use
them among themselves, and ApiVersions tells no client of them. A message module is imported when
its API is first used, so that a node starts without loading them all.
"""

from functools import cache
from importlib import import_module
from typing import Final, NamedTuple


class Api(NamedTuple):
    """One API key; `flexible` is its first flexible version, or None."""

    key: int
    name: str
    versions: tuple[int, int]
    flexible: int | None
    listeners: frozenset[str]
    module: str

    def has(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


BROKER: Final = frozenset({"broker"})
CONTROLLER: Final = frozenset({"controller"})
BOTH: Final = BROKER | CONTROLLER
OWN_FROM: Final = 10_000

_ROWS: Final = (
    Api(0, "Produce", (3, 13), 9, BROKER, "k00_produce"),
    Api(1, "Fetch", (4, 18), 12, BOTH, "k01_fetch"),
    Api(2, "ListOffsets", (1, 11), 6, BROKER, "k02_list_offsets"),
    Api(3, "Metadata", (0, 13), 9, BROKER, "k03_metadata"),
    Api(8, "OffsetCommit", (2, 10), 8, BROKER, "k08_offset_commit"),
    Api(9, "OffsetFetch", (1, 10), 6, BROKER, "k09_offset_fetch"),
    Api(10, "FindCoordinator", (0, 6), 3, BROKER, "k10_find_coordinator"),
    Api(11, "JoinGroup", (0, 9), 6, BROKER, "k11_join_group"),
    Api(12, "Heartbeat", (0, 4), 4, BROKER, "k12_heartbeat"),
    Api(13, "LeaveGroup", (0, 5), 4, BROKER, "k13_leave_group"),
    Api(14, "SyncGroup", (0, 5), 4, BROKER, "k14_sync_group"),
    Api(15, "DescribeGroups", (0, 6), 5, BROKER, "k15_describe_groups"),
    Api(16, "ListGroups", (0, 5), 3, BROKER, "k16_list_groups"),
    Api(17, "SaslHandshake", (0, 1), None, BOTH, "k17_sasl_handshake"),
    Api(18, "ApiVersions", (0, 4), 3, BOTH, "k18_api_versions"),
    Api(19, "CreateTopics", (2, 7), 5, BOTH, "k19_create_topics"),
    Api(20, "DeleteTopics", (1, 6), 4, BOTH, "k20_delete_topics"),
    Api(21, "DeleteRecords", (0, 2), 2, BROKER, "k21_delete_records"),
    Api(22, "InitProducerId", (0, 6), 2, BROKER, "k22_init_producer_id"),
    Api(23, "OffsetForLeaderEpoch", (2, 4), 4, BROKER, "k23_offset_for_leader_epoch"),
    Api(24, "AddPartitionsToTxn", (0, 5), 3, BROKER, "k24_add_partitions_to_txn"),
    Api(25, "AddOffsetsToTxn", (0, 4), 3, BROKER, "k25_add_offsets_to_txn"),
    Api(26, "EndTxn", (0, 5), 3, BROKER, "k26_end_txn"),
    Api(27, "WriteTxnMarkers", (1, 2), 1, BROKER, "k27_write_txn_markers"),
    Api(28, "TxnOffsetCommit", (0, 5), 3, BROKER, "k28_txn_offset_commit"),
    Api(29, "DescribeAcls", (1, 3), 2, BOTH, "k29_describe_acls"),
    Api(30, "CreateAcls", (1, 3), 2, BOTH, "k30_create_acls"),
    Api(31, "DeleteAcls", (1, 3), 2, BOTH, "k31_delete_acls"),
    Api(32, "DescribeConfigs", (1, 4), 4, BOTH, "k32_describe_configs"),
    Api(33, "AlterConfigs", (0, 2), 2, BOTH, "k33_alter_configs"),
    Api(34, "AlterReplicaLogDirs", (1, 2), 2, BROKER, "k34_alter_replica_log_dirs"),
    Api(35, "DescribeLogDirs", (1, 5), 2, BROKER, "k35_describe_log_dirs"),
    Api(36, "SaslAuthenticate", (0, 2), 2, BOTH, "k36_sasl_authenticate"),
    Api(37, "CreatePartitions", (0, 3), 2, BOTH, "k37_create_partitions"),
    Api(38, "CreateDelegationToken", (1, 3), 2, BOTH, "k38_create_delegation_token"),
    Api(39, "RenewDelegationToken", (1, 2), 2, BOTH, "k39_renew_delegation_token"),
    Api(40, "ExpireDelegationToken", (1, 2), 2, BOTH, "k40_expire_delegation_token"),
    Api(41, "DescribeDelegationToken", (1, 3), 2, BOTH, "k41_describe_delegation_token"),
    Api(42, "DeleteGroups", (0, 2), 2, BROKER, "k42_delete_groups"),
    Api(43, "ElectLeaders", (0, 2), 2, BOTH, "k43_elect_leaders"),
    Api(44, "IncrementalAlterConfigs", (0, 1), 1, BOTH, "k44_incremental_alter_configs"),
    Api(45, "AlterPartitionReassignments", (0, 1), 0, BOTH, "k45_alter_partition_reassignments"),
    Api(46, "ListPartitionReassignments", (0, 0), 0, BOTH, "k46_list_partition_reassignments"),
    Api(47, "OffsetDelete", (0, 0), None, BROKER, "k47_offset_delete"),
    Api(48, "DescribeClientQuotas", (0, 1), 1, BROKER, "k48_describe_client_quotas"),
    Api(49, "AlterClientQuotas", (0, 1), 1, BOTH, "k49_alter_client_quotas"),
    Api(50, "DescribeUserScramCredentials", (0, 0), 0, BOTH, "k50_describe_user_scram_credentials"),
    Api(51, "AlterUserScramCredentials", (0, 0), 0, BOTH, "k51_alter_user_scram_credentials"),
    Api(52, "Vote", (0, 2), 0, CONTROLLER, "k52_vote"),
    Api(53, "BeginQuorumEpoch", (0, 1), 1, CONTROLLER, "k53_begin_quorum_epoch"),
    Api(54, "EndQuorumEpoch", (0, 1), 1, CONTROLLER, "k54_end_quorum_epoch"),
    Api(55, "DescribeQuorum", (0, 2), 0, BOTH, "k55_describe_quorum"),
    Api(56, "AlterPartition", (2, 3), 0, CONTROLLER, "k56_alter_partition"),
    Api(57, "UpdateFeatures", (0, 2), 0, BOTH, "k57_update_features"),
    Api(58, "Envelope", (0, 0), 0, CONTROLLER, "k58_envelope"),
    Api(59, "FetchSnapshot", (0, 1), 0, CONTROLLER, "k59_fetch_snapshot"),
    Api(60, "DescribeCluster", (0, 2), 0, BOTH, "k60_describe_cluster"),
    Api(61, "DescribeProducers", (0, 0), 0, BROKER, "k61_describe_producers"),
    Api(62, "BrokerRegistration", (0, 4), 0, CONTROLLER, "k62_broker_registration"),
    Api(63, "BrokerHeartbeat", (0, 2), 0, CONTROLLER, "k63_broker_heartbeat"),
    Api(64, "UnregisterBroker", (0, 0), 0, BOTH, "k64_unregister_broker"),
    Api(65, "DescribeTransactions", (0, 0), 0, BROKER, "k65_describe_transactions"),
    Api(66, "ListTransactions", (0, 2), 0, BROKER, "k66_list_transactions"),
    Api(67, "AllocateProducerIds", (0, 0), 0, CONTROLLER, "k67_allocate_producer_ids"),
    Api(68, "ConsumerGroupHeartbeat", (0, 1), 0, BROKER, "k68_consumer_group_heartbeat"),
    Api(69, "ConsumerGroupDescribe", (0, 1), 0, BROKER, "k69_consumer_group_describe"),
    Api(70, "ControllerRegistration", (0, 0), 0, CONTROLLER, "k70_controller_registration"),
    Api(71, "GetTelemetrySubscriptions", (0, 0), 0, BROKER, "k71_get_telemetry_subscriptions"),
    Api(72, "PushTelemetry", (0, 0), 0, BROKER, "k72_push_telemetry"),
    Api(73, "AssignReplicasToDirs", (0, 0), 0, CONTROLLER, "k73_assign_replicas_to_dirs"),
    Api(74, "ListConfigResources", (0, 1), 0, BROKER, "k74_list_config_resources"),
    Api(75, "DescribeTopicPartitions", (0, 0), 0, BROKER, "k75_describe_topic_partitions"),
    Api(76, "ShareGroupHeartbeat", (1, 1), 0, BROKER, "k76_share_group_heartbeat"),
    Api(77, "ShareGroupDescribe", (1, 1), 0, BROKER, "k77_share_group_describe"),
    Api(78, "ShareFetch", (1, 2), 0, BROKER, "k78_share_fetch"),
    Api(79, "ShareAcknowledge", (1, 2), 0, BROKER, "k79_share_acknowledge"),
    Api(80, "AddRaftVoter", (0, 1), 0, BOTH, "k80_add_raft_voter"),
    Api(81, "RemoveRaftVoter", (0, 0), 0, BOTH, "k81_remove_raft_voter"),
    Api(82, "UpdateRaftVoter", (0, 0), 0, CONTROLLER, "k82_update_raft_voter"),
    Api(83, "InitializeShareGroupState", (0, 0), 0, BROKER, "k83_initialize_share_group_state"),
    Api(84, "ReadShareGroupState", (0, 0), 0, BROKER, "k84_read_share_group_state"),
    Api(85, "WriteShareGroupState", (0, 1), 0, BROKER, "k85_write_share_group_state"),
    Api(86, "DeleteShareGroupState", (0, 0), 0, BROKER, "k86_delete_share_group_state"),
    Api(87, "ReadShareGroupStateSummary", (0, 1), 0, BROKER, "k87_read_share_group_state_summary"),
    Api(88, "StreamsGroupHeartbeat", (0, 0), 0, BROKER, "k88_streams_group_heartbeat"),
    Api(89, "StreamsGroupDescribe", (0, 0), 0, BROKER, "k89_streams_group_describe"),
    Api(90, "DescribeShareGroupOffsets", (0, 1), 0, BROKER, "k90_describe_share_group_offsets"),
    Api(91, "AlterShareGroupOffsets", (0, 0), 0, BROKER, "k91_alter_share_group_offsets"),
    Api(92, "DeleteShareGroupOffsets", (0, 0), 0, BROKER, "k92_delete_share_group_offsets"),
    Api(10_000, "RevokeProducer", (0, 0), 0, BROKER, "k10000_revoke_producer"),
)

APIS: Final[dict[int, Api]] = {api.key: api for api in _ROWS}


@cache
def request_class(key: int) -> type:
    return _message_class(key, "Request")


@cache
def response_class(key: int) -> type:
    return _message_class(key, "Response")


def _message_class(key: int, suffix: str) -> type:
    api = APIS[key]
    module = import_module(f"penstock.wire.messages.{api.module}")
    found: type = getattr(module, api.name + suffix)
    return found
