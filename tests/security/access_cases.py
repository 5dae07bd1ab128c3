"""A request of every API, and the permissions that are just enough for it.

The cases are put to Apache Kafka by `compat/access.py`, which records its answers, and to a node by
test_access_table.py. A request changes nothing that a later one could see: it only validates,
names what does not exist, or has a topic of its own (`fresh`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import access_requests as ask
from access_requests import (
    ADMIN,
    ANN,
    CALLER,
    EVERYONE,
    NO_BROKER,
    NOBODY,
    OTHER_HOST,
    Build,
    Names,
)

from penstock.credentials.acls import (
    CLUSTER_NAME,
    Acl,
    AclPermission,
    PatternType,
)
from penstock.credentials.acls import AclOperation as Op
from penstock.credentials.acls import AclResourceType as Kind
from penstock.wire.apis import APIS


class Want(NamedTuple):
    """An operation on one of the resources of a case."""

    operation: Op
    kind: Kind
    missing: bool = False

    def name(self, names: Names) -> str:
        match self.kind:
            case Kind.TOPIC:
                return names.missing if self.missing else names.topic
            case Kind.GROUP:
                return names.group
            case Kind.TRANSACTIONAL_ID:
                return names.transactional_id
        return CLUSTER_NAME


@dataclass(frozen=True)
class AccessCase:
    """`build` gets the names, the version, and the module of the messages."""

    title: str
    key: int
    build: Build
    needs: Sequence[Want]
    # Other permissions, each of which is enough as well, or shows something else.
    others: Sequence[Sequence[Want]] = ()
    versions: Sequence[int] = ()
    controller: bool = False
    fresh: bool = False

    @property
    def all_versions(self) -> Sequence[int]:
        low, high = APIS[self.key].versions
        return self.versions or range(low, high + 1)

    def request(self, names: Names, version: int) -> object:
        module = import_module(f"penstock.wire.messages.{APIS[self.key].module}")
        return self.build(names, version, module)


@dataclass(frozen=True)
class Scenario:
    """A caller and the ACLs under which it asks."""

    title: str
    caller: str = CALLER
    acls: Sequence[tuple[Want, dict[str, Any]]] = field(default_factory=tuple)

    def bindings(self, names: Names) -> list[Acl]:
        found = []
        for want, changes in self.acls:
            plain = Acl(want.kind, want.name(names), ANN, want.operation)
            acl = plain._replace(**changes)
            if acl.pattern_type is PatternType.PREFIXED and want.kind is not Kind.CLUSTER:
                acl = acl._replace(resource_name=acl.resource_name[:-1])
            found.append(acl)
        return list(dict.fromkeys(found))


def scenarios(case: AccessCase) -> Iterator[Scenario]:
    def each(**changes: Any) -> list[tuple[Want, dict[str, Any]]]:
        return [(want, changes) for want in case.needs]

    yield Scenario("super user", caller=ADMIN)
    yield Scenario("nothing")
    yield Scenario("just enough", acls=each())
    for number, left_out in enumerate(case.needs):
        if len(case.needs) > 1:
            rest: list[tuple[Want, dict[str, Any]]] = [
                (want, {}) for want in case.needs if want is not left_out
            ]
            yield Scenario(f"all but {number}", acls=rest)
        denied = (left_out, {"permission": AclPermission.DENY})
        yield Scenario(f"{number} denied", acls=[*each(), denied])
    for number, wants in enumerate(case.others):
        yield Scenario(f"other {number}", acls=[(want, {}) for want in wants])
    yield Scenario("all operations", acls=each(operation=Op.ALL))
    yield Scenario("prefix", acls=each(pattern_type=PatternType.PREFIXED))
    star = [
        (want, {} if want.kind is Kind.CLUSTER else {"resource_name": "*"}) for want in case.needs
    ]
    yield Scenario("*", acls=star)
    yield Scenario("other host", acls=each(host=OTHER_HOST))
    yield Scenario("anonymous", caller=NOBODY, acls=each())
    yield Scenario("everyone", caller=NOBODY, acls=each(principal=EVERYONE))


def topic(operation: Op, *, missing: bool = False) -> Want:
    return Want(operation, Kind.TOPIC, missing)


def group(operation: Op) -> Want:
    return Want(operation, Kind.GROUP)


def transaction(operation: Op) -> Want:
    return Want(operation, Kind.TRANSACTIONAL_ID)


def cluster(operation: Op) -> Want:
    return Want(operation, Kind.CLUSTER)


_ACTION = (cluster(Op.CLUSTER_ACTION),)
_ALTER = (cluster(Op.ALTER),)
_DESCRIBE = (cluster(Op.DESCRIBE),)
_BOTH_TOPICS = (topic(Op.DESCRIBE), topic(Op.DESCRIBE, missing=True))


def _of_controller(
    title: str, key: int, build: Build, needs: Sequence[Want] = _ACTION
) -> AccessCase:
    return AccessCase(title, key, build, needs, controller=True)


CASES = (
    AccessCase("Produce", 0, ask.produce, (topic(Op.WRITE), topic(Op.WRITE, missing=True))),
    AccessCase(
        "Produce in a transaction",
        0,
        lambda names, version, k: ask.produce(names, version, k, transactional=True),
        (topic(Op.WRITE), transaction(Op.WRITE)),
    ),
    AccessCase("Fetch", 1, ask.fetch, (topic(Op.READ), topic(Op.READ, missing=True))),
    AccessCase(
        "Fetch of a follower",
        1,
        lambda names, version, k: ask.fetch(names, version, k, replica_id=NO_BROKER),
        _ACTION,
        ((topic(Op.READ),),),
    ),
    _of_controller("Fetch of the metadata log", 1, ask.fetch_metadata),
    AccessCase(
        "ListOffsets", 2, ask.list_offsets, _BOTH_TOPICS, ((topic(Op.READ),), (topic(Op.WRITE),))
    ),
    AccessCase(
        "Metadata",
        3,
        ask.metadata,
        _BOTH_TOPICS,
        (
            (cluster(Op.DESCRIBE), topic(Op.ALTER_CONFIGS)),
            (*_BOTH_TOPICS, topic(Op.CREATE, missing=True)),
            (*_BOTH_TOPICS, cluster(Op.CREATE)),
        ),
        fresh=True,  # up to v3 every request creates
    ),
    AccessCase("Metadata by id", 3, ask.metadata_by_id, (topic(Op.DESCRIBE),), versions=(12, 13)),
    AccessCase("Metadata of all topics", 3, ask.every_topic, (topic(Op.DESCRIBE),)),
    AccessCase(
        "Metadata that creates",
        3,
        lambda names, version, k: ask.metadata(names, version, k, creates=True),
        (topic(Op.DESCRIBE, missing=True), topic(Op.CREATE, missing=True)),
        ((topic(Op.DESCRIBE, missing=True), cluster(Op.CREATE)),),
        versions=(4, 13),
        fresh=True,
    ),
    AccessCase(
        "OffsetCommit",
        8,
        ask.offset_commit,
        (group(Op.READ), topic(Op.READ), topic(Op.READ, missing=True)),
    ),
    AccessCase("OffsetFetch", 9, ask.offset_fetch, (group(Op.DESCRIBE), *_BOTH_TOPICS)),
    AccessCase(
        "OffsetFetch of all topics",
        9,
        ask.all_offsets,
        (group(Op.DESCRIBE), topic(Op.DESCRIBE)),
        versions=range(2, 11),
    ),
    AccessCase("FindCoordinator", 10, ask.find_coordinator(0), (group(Op.DESCRIBE),)),
    AccessCase(
        "FindCoordinator of a transaction",
        10,
        ask.find_coordinator(1),
        (transaction(Op.DESCRIBE),),
        versions=range(1, 7),
    ),
    AccessCase("JoinGroup", 11, ask.join, (group(Op.READ),), ((group(Op.DESCRIBE),),)),
    AccessCase(
        "Heartbeat",
        12,
        ask.plain("HeartbeatRequest", group_id=lambda names: names.group, member_id="nobody"),
        (group(Op.READ),),
    ),
    AccessCase("LeaveGroup", 13, ask.leave, (group(Op.READ),)),
    AccessCase("SyncGroup", 14, ask.sync, (group(Op.READ),)),
    AccessCase(
        "DescribeGroups",
        15,
        ask.plain(
            "DescribeGroupsRequest",
            groups=lambda names: [names.group],
            include_authorized_operations=True,
        ),
        (group(Op.DESCRIBE),),
        ((group(Op.ALL),),),
    ),
    AccessCase(
        "ListGroups", 16, ask.plain("ListGroupsRequest"), (group(Op.DESCRIBE),), (_DESCRIBE,)
    ),
    AccessCase(
        "CreateTopics",
        19,
        ask.create_topics,
        (topic(Op.CREATE, missing=True), topic(Op.DESCRIBE_CONFIGS, missing=True)),
        ((cluster(Op.CREATE),),),
    ),
    AccessCase(
        "DeleteTopics",
        20,
        ask.delete_topics,
        (topic(Op.DELETE), topic(Op.DELETE, missing=True)),
        ((topic(Op.DESCRIBE),), (cluster(Op.DELETE),)),
        fresh=True,
    ),
    AccessCase(
        "DeleteTopics by id",
        20,
        ask.delete_topics_by_id,
        (topic(Op.DELETE),),
        ((topic(Op.DESCRIBE),),),
        versions=(6,),
        fresh=True,
    ),
    AccessCase(
        "DeleteRecords", 21, ask.delete_records, (topic(Op.DELETE), topic(Op.DELETE, missing=True))
    ),
    AccessCase(
        "InitProducerId", 22, ask.init_producer_id(transactional=True), (transaction(Op.WRITE),)
    ),
    AccessCase(
        "InitProducerId with two-phase commit",
        22,
        ask.init_producer_id(transactional=True, two_phase=True),
        (transaction(Op.WRITE), transaction(Op.TWO_PHASE_COMMIT)),
        versions=(6,),
    ),
    AccessCase(
        "InitProducerId without a transaction",
        22,
        ask.init_producer_id(transactional=False),
        (cluster(Op.IDEMPOTENT_WRITE),),
        ((topic(Op.WRITE),), (topic(Op.READ),)),
    ),
    AccessCase(
        "OffsetForLeaderEpoch",
        23,
        ask.epochs,
        _BOTH_TOPICS,
        (_ACTION,),
    ),
    AccessCase(
        "AddPartitionsToTxn of a client",
        24,
        ask.add_partitions,
        (transaction(Op.WRITE), topic(Op.WRITE), topic(Op.WRITE, missing=True)),
        versions=range(4),
    ),
    AccessCase(
        "AddPartitionsToTxn of a broker",
        24,
        ask.add_partitions,
        _ACTION,
        ((transaction(Op.WRITE), topic(Op.WRITE)),),
        versions=(4, 5),
    ),
    AccessCase("AddOffsetsToTxn", 25, ask.add_offsets, (transaction(Op.WRITE), group(Op.READ))),
    AccessCase("EndTxn", 26, ask.end_txn, (transaction(Op.WRITE),)),
    AccessCase("WriteTxnMarkers", 27, ask.markers, _ACTION, (_ALTER,)),
    AccessCase(
        "TxnOffsetCommit",
        28,
        ask.txn_commit,
        (
            transaction(Op.WRITE),
            group(Op.READ),
            topic(Op.READ),
            topic(Op.READ, missing=True),
        ),
    ),
    AccessCase("DescribeAcls", 29, ask.describe_acls, _DESCRIBE, (_ALTER,)),
    AccessCase("CreateAcls", 30, ask.create_acls, _ALTER),
    AccessCase("DeleteAcls", 31, ask.delete_acls, _ALTER),
    AccessCase(
        "DescribeConfigs",
        32,
        ask.described_configs,
        (
            topic(Op.DESCRIBE_CONFIGS),
            topic(Op.DESCRIBE_CONFIGS, missing=True),
            cluster(Op.DESCRIBE_CONFIGS),
            group(Op.DESCRIBE_CONFIGS),
        ),
        ((topic(Op.ALTER_CONFIGS), cluster(Op.ALTER_CONFIGS)),),
    ),
    *(
        AccessCase(
            title,
            key,
            ask.altered_configs,
            (
                topic(Op.ALTER_CONFIGS),
                topic(Op.ALTER_CONFIGS, missing=True),
                cluster(Op.ALTER_CONFIGS),
                group(Op.ALTER_CONFIGS),
            ),
        )
        for title, key in (("AlterConfigs", 33), ("IncrementalAlterConfigs", 44))
    ),
    AccessCase("AlterReplicaLogDirs", 34, ask.move, _ALTER),
    AccessCase("DescribeLogDirs", 35, ask.log_dirs, _DESCRIBE),
    AccessCase(
        "CreatePartitions",
        37,
        ask.more_partitions,
        (topic(Op.ALTER), topic(Op.ALTER, missing=True)),
    ),
    AccessCase(
        "DeleteGroups",
        42,
        ask.plain("DeleteGroupsRequest", groups_names=lambda names: [names.group]),
        (group(Op.DELETE),),
    ),
    AccessCase("ElectLeaders", 43, ask.elect, _ALTER),
    AccessCase("AlterPartitionReassignments", 45, ask.reassign, _ALTER),
    AccessCase(
        "ListPartitionReassignments",
        46,
        ask.plain("ListPartitionReassignmentsRequest", timeout_ms=30_000),
        _DESCRIBE,
    ),
    AccessCase(
        "OffsetDelete",
        47,
        ask.offset_delete,
        (group(Op.DELETE), topic(Op.READ), topic(Op.READ, missing=True)),
    ),
    AccessCase("DescribeClientQuotas", 48, ask.quotas, (cluster(Op.DESCRIBE_CONFIGS),)),
    AccessCase("AlterClientQuotas", 49, ask.altered_quotas, (cluster(Op.ALTER_CONFIGS),)),
    AccessCase("DescribeUserScramCredentials", 50, ask.users, _DESCRIBE),
    AccessCase("AlterUserScramCredentials", 51, ask.removed_users, _ALTER),
    _of_controller("Vote", 52, ask.vote),
    _of_controller("BeginQuorumEpoch", 53, ask.begin_epoch),
    _of_controller("EndQuorumEpoch", 54, ask.end_epoch),
    AccessCase("DescribeQuorum", 55, ask.describe_quorum, _DESCRIBE),
    _of_controller("AlterPartition", 56, ask.alter_partition),
    AccessCase("UpdateFeatures", 57, ask.features, _ALTER),
    _of_controller("Envelope", 58, ask.envelope),
    _of_controller("FetchSnapshot", 59, ask.fetch_snapshot),
    AccessCase("DescribeCluster", 60, ask.describe_cluster(1), _DESCRIBE, (_ALTER,)),
    AccessCase(
        "DescribeCluster of controllers",
        60,
        ask.describe_cluster(2),
        _ALTER,
        versions=(1, 2),
        controller=True,
    ),
    AccessCase(
        "DescribeProducers", 61, ask.producers, (topic(Op.READ), topic(Op.READ, missing=True))
    ),
    _of_controller("BrokerRegistration", 62, ask.registration),
    _of_controller(
        "BrokerHeartbeat",
        63,
        ask.plain("BrokerHeartbeatRequest", broker_id=NO_BROKER, broker_epoch=1),
    ),
    AccessCase(
        "UnregisterBroker", 64, ask.plain("UnregisterBrokerRequest", broker_id=NO_BROKER), _ALTER
    ),
    AccessCase(
        "DescribeTransactions",
        65,
        ask.transactions,
        (transaction(Op.DESCRIBE), topic(Op.DESCRIBE)),
    ),
    AccessCase(
        "ListTransactions", 66, ask.plain("ListTransactionsRequest"), (transaction(Op.DESCRIBE),)
    ),
    _of_controller(
        "AllocateProducerIds",
        67,
        ask.plain("AllocateProducerIdsRequest", broker_id=NO_BROKER, broker_epoch=1),
    ),
    AccessCase(
        "ConsumerGroupHeartbeat",
        68,
        ask.consumer_heartbeat,
        (group(Op.READ), topic(Op.DESCRIBE)),
    ),
    AccessCase(
        "ConsumerGroupDescribe",
        69,
        ask.plain(
            "ConsumerGroupDescribeRequest",
            group_ids=lambda names: [names.group],
            include_authorized_operations=True,
        ),
        (group(Op.DESCRIBE),),
    ),
    _of_controller("AssignReplicasToDirs", 73, ask.assignments),
    AccessCase(
        "ListConfigResources",
        74,
        ask.plain("ListConfigResourcesRequest"),
        (cluster(Op.DESCRIBE_CONFIGS),),
    ),
    AccessCase("DescribeTopicPartitions", 75, ask.topic_partitions, _BOTH_TOPICS),
    AccessCase(
        "DescribeTopicPartitions of all topics",
        75,
        ask.plain("DescribeTopicPartitionsRequest"),
        (topic(Op.DESCRIBE),),
    ),
)
