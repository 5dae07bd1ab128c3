"""What the admin client promises of any cluster of one broker, each by its address.

FACTS hold of Penstock and of Apache Kafka without an authorizer; KAFKA_FACTS are about what only
Apache Kafka serves, AUTHORIZER_FACTS about a server that has an authorizer and lets everybody do
everything. Each fact works on names of its own.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from penstock import errors
from penstock.client.admin.access_values import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    QuotaEntity,
    QuotaFilter,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import Election, FeatureChange, LogDir, Replica
from penstock.client.admin.coordinator_values import (
    CommittedOffset,
    FencedProducer,
    GroupDescription,
    TransactionDescription,
)
from penstock.client.values import (
    At,
    ConfigChange,
    CreatedTopic,
    FoundOffset,
    NewTopic,
    Operation,
    Resource,
    ResourceType,
    TopicDescription,
)
from penstock.model import TopicPartition

Fact = Callable[[str], None]

UNKNOWN_BROKER = 987
HEARD_SECONDS_MAX = 20
_numbers = itertools.count(1)


def unused_name(kind: str) -> str:
    return f"admin-{kind}-{next(_numbers)}"


def soon(look: Callable[[], object], wanted: object) -> None:
    """A broker of Apache Kafka hears of what its controller has answered a moment later."""
    deadline = time.monotonic() + HEARD_SECONDS_MAX
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"{found} is not {wanted}"


def new_topic(admin: Admin, partitions: int = 1) -> str:
    name = unused_name("topic")
    found = admin.create_topics([NewTopic(name, partitions, 1)])[name]
    assert isinstance(found, CreatedTopic), found
    soon(lambda: isinstance(admin.describe_topics([name])[name], TopicDescription), True)
    return name


def only_broker(admin: Admin) -> int:
    [broker] = admin.describe_cluster().brokers
    return broker.node_id


# -- topics


def a_topic_is_created_described_and_deleted(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        name = new_topic(admin, 3)
        described = admin.describe_topics([name])[name]
        assert isinstance(described, TopicDescription)
        assert [each.partition for each in described.partitions] == [0, 1, 2]
        assert name in [topic.name for topic in admin.list_topics()]
        assert admin.delete_topics([name]) == {name: None}
        gone = errors.UnknownTopicOrPartition
        soon(lambda: isinstance(admin.delete_topics([name])[name], gone), True)


def pages_tell_eligible_leaders_too(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        names = [new_topic(admin, 3), new_topic(admin, 2)]
        missing = unused_name("missing")
        found = admin.describe_topic_partitions([*names, missing], page_partitions=2)
        assert isinstance(found[missing], errors.UnknownTopicOrPartition)
        for name, count in zip(names, (3, 2), strict=True):
            told = found[name]
            assert isinstance(told, TopicDescription)
            assert [each.partition for each in told.partitions] == list(range(count))
            assert {each.eligible_leaders for each in told.partitions} == {()}
        assert set(names) <= set(admin.describe_topic_partitions())


def partitions_are_added_where_one_says(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        name, broker = new_topic(admin), only_broker(admin)
        grown = admin.create_partitions({name: 3}, assignments={name: [[broker], [broker]]})
        assert grown == {name: None}
        refused = admin.create_partitions({name: 4}, assignments={name: [[UNKNOWN_BROKER]]})
        assert isinstance(refused[name], errors.InvalidReplicaAssignment)


# -- configurations


def keys_are_changed_one_by_one_or_all_at_once(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        topic = Resource(ResourceType.TOPIC, new_topic(admin))
        changes = [
            ConfigChange("retention.ms", Operation.SET, "5000"),
            ConfigChange("segment.ms", Operation.SET, "6000"),
        ]
        assert admin.alter_configs({topic: changes}) == {topic: None}
        both = {"retention.ms": "5000", "segment.ms": "6000"}
        soon(lambda: _set_keys(admin, topic), both)
        assert admin.replace_configs({topic: {"segment.ms": "7000"}}) == {topic: None}
        soon(lambda: _set_keys(admin, topic), {"segment.ms": "7000"})
        wrong = [ConfigChange("retention.ms", Operation.SET, "soon")]
        assert isinstance(admin.alter_configs({topic: wrong})[topic], errors.InvalidConfig)
        assert topic in admin.list_config_resources([ResourceType.TOPIC])


def _set_keys(admin: Admin, topic: Resource) -> dict[str, str | None]:
    dynamic_topic = 1
    told = admin.describe_configs([topic])[topic]
    assert not isinstance(told, errors.KafkaError), told
    return {each.name: each.value for each in told if each.source == dynamic_topic}


def loggers_belong_to_one_broker(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        mine = Resource(ResourceType.BROKER_LOGGER, str(only_broker(admin)))
        other = Resource(ResourceType.BROKER_LOGGER, str(UNKNOWN_BROKER))
        found = admin.describe_configs([mine, other])
        assert isinstance(found[mine], list) and found[mine]
        assert isinstance(found[other], errors.BrokerNotAvailable)


# -- offsets


def an_empty_partition_begins_and_ends_at_0(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        partition = TopicPartition(new_topic(admin), 0)
        missing = TopicPartition(partition.topic, 7)
        for place in (At.BEGINNING, At.END):
            found = admin.offsets({partition: place, missing: place})
            told = found[partition]
            assert isinstance(told, FoundOffset) and told.offset == 0
            assert isinstance(found[missing], errors.UnknownTopicOrPartition)
        assert admin.delete_records({partition: -1}) == {partition: 0}


# -- leaders and replicas


def an_election_that_is_not_needed_says_so(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        partition = TopicPartition(new_topic(admin), 0)
        missing = TopicPartition(unused_name("missing"), 0)
        for election in Election:
            found = admin.elect_leaders([partition, missing], election)
            assert isinstance(found[partition], errors.ElectionNotNeeded)
            assert isinstance(found[missing], errors.UnknownTopicOrPartition)
        assert partition not in admin.elect_leaders()


def a_partition_may_be_reassigned_to_where_it_is(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        broker = only_broker(admin)
        partition = TopicPartition(new_topic(admin), 0)
        assert admin.reassignments.alter({partition: [broker]}) == {partition: None}
        held = admin.reassignments.alter(
            {partition: [broker]}, allow_replication_factor_change=False
        )
        assert held == {partition: None}
        assert admin.reassignments.list_all() == {}
        assert admin.reassignments.list_all([partition]) == {}


def a_reassignment_that_cannot_be_is_refused(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        broker = only_broker(admin)
        topic = new_topic(admin)
        here, missing = TopicPartition(topic, 0), TopicPartition(topic, 1)
        unknown_topic = TopicPartition(unused_name("missing"), 0)
        for target, error in (
            ([UNKNOWN_BROKER], errors.InvalidReplicaAssignment),
            ([broker, broker], errors.InvalidReplicaAssignment),
            ([], errors.InvalidReplicaAssignment),
            (None, errors.NoReassignmentInProgress),
        ):
            found = admin.reassignments.alter(
                {here: target, missing: target, unknown_topic: target}
            )
            assert isinstance(found[here], error), (target, found)
            assert isinstance(found[missing], errors.UnknownTopicOrPartition)
            assert isinstance(found[unknown_topic], errors.UnknownTopicOrPartition)
        more = admin.reassignments.alter(
            {here: [broker, UNKNOWN_BROKER]}, allow_replication_factor_change=False
        )
        assert isinstance(more[here], errors.InvalidReplicaAssignment)


# -- directories


def a_broker_tells_what_is_in_its_directories(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        broker = only_broker(admin)
        partition = TopicPartition(new_topic(admin), 0)
        found = admin.log_dirs.describe([broker, UNKNOWN_BROKER], [partition])
        assert isinstance(found[UNKNOWN_BROKER], errors.BrokerNotAvailable)
        [directory] = _directories(admin, broker, partition)
        assert directory.total_bytes is not None and directory.usable_bytes is not None
        assert not directory.replicas[partition].future
        everything = admin.log_dirs.describe()[broker]
        assert isinstance(everything, dict)
        told = everything[directory.path]
        assert isinstance(told, LogDir) and partition in told.replicas


def _directories(admin: Admin, broker: int, partition: TopicPartition) -> list[LogDir]:
    admin.offsets({partition: At.END})  # when that is answered its log is there
    found = admin.log_dirs.describe([broker], [partition])[broker]
    assert isinstance(found, dict), found
    told = [each for each in found.values() if isinstance(each, LogDir)]
    return [each for each in told if partition in each.replicas]


def a_replica_moves_only_to_a_directory_that_there_is(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        broker = only_broker(admin)
        partition = TopicPartition(new_topic(admin), 0)
        [directory] = _directories(admin, broker, partition)
        here = Replica(partition.topic, 0, broker)
        elsewhere = Replica(partition.topic, 0, UNKNOWN_BROKER)
        assert admin.log_dirs.alter({here: directory.path}) == {here: None}
        refused = admin.log_dirs.alter({here: "/no/such/place", elsewhere: directory.path})
        assert isinstance(refused[here], errors.LogDirNotFound)
        assert isinstance(refused[elsewhere], errors.BrokerNotAvailable)


# -- the cluster


def the_quorum_has_a_leader_that_votes(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        quorum = admin.quorum.describe()
        [voter] = [each for each in quorum.voters if each.node_id == quorum.leader_id]
        assert quorum.high_watermark > 0 and quorum.leader_epoch > 0
        assert voter.log_end_offset >= quorum.high_watermark


def features_are_told_and_guarded(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        levels = admin.features.describe()
        in_force = levels.finalized["metadata.version"].highest
        assert levels.supported["metadata.version"].highest >= in_force
        assert levels.epoch is not None
        same = {"metadata.version": FeatureChange(in_force)}
        assert admin.features.update(same, validate_only=True) == {"metadata.version": None}
        refused = admin.features.update({"no.such.feature": FeatureChange(1)})
        assert isinstance(refused["no.such.feature"], errors.InvalidUpdateVersion)


def each_broker_tells_its_versions(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        [(broker, told)] = admin.api_versions().items()
        assert broker.node_id == only_broker(admin)
        assert not isinstance(told, Exception), told
        assert told.versions[18].highest >= 4
        assert "metadata.version" in told.features.finalized


def the_only_broker_is_not_fenced(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        plain = admin.describe_cluster()
        whole = admin.describe_cluster(include_fenced=True)
        assert whole.brokers == plain.brokers
        assert (whole.cluster_id, whole.brokers[0].fenced) == (plain.cluster_id, False)


def a_broker_that_is_not_known_is_not_forgotten(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin, pytest.raises(errors.BrokerIdNotRegistered):
        admin.unregister_broker(UNKNOWN_BROKER)


# -- groups and transactions


def a_group_is_moved_and_deleted_from_outside(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        topic, group, other = new_topic(admin, 2), unused_name("group"), unused_name("group")
        p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
        committed: dict[TopicPartition, int | CommittedOffset] = {
            p0: 5,
            p1: CommittedOffset(6, 0, "by hand"),
        }
        assert admin.groups.commit(group, committed) == {p0: None, p1: None}
        found = admin.groups.offsets_of([group, other])
        assert found[other] == {}
        offsets = found[group]
        assert isinstance(offsets, dict) and offsets == admin.groups.offsets(group)
        assert (offsets[p0].offset, offsets[p1]) == (5, CommittedOffset(6, 0, "by hand"))
        described = admin.groups.describe([group])[group]
        assert isinstance(described, GroupDescription) and described.state == "Empty"
        assert group in [each.group_id for each in admin.groups.list_all()]
        assert admin.groups.delete_offsets(group, [p0]) == {p0: None}
        assert list(admin.groups.offsets(group)) == [p1]
        assert admin.groups.remove_members(group) == {}
        nobody = admin.groups.remove_members(group, ["nobody"])
        assert isinstance(nobody["nobody"], errors.UnknownMemberId)
        assert admin.groups.delete([group]) == {group: None}
        assert isinstance(admin.groups.delete([group])[group], errors.GroupIdNotFound)


@contextmanager
def _member(admin: Admin, bootstrap: str, group: str, topic: str, **more: str) -> Iterator[None]:
    """A consumer that has got its partition; without the namespace librdkafka knows nothing of."""
    add = admin.routes.namespace.add
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": add(group),
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )
    consumer.subscribe([add(topic)])
    try:
        soon(lambda: (consumer.poll(0.1), len(consumer.assignment()))[1], 1)
        yield
    finally:
        consumer.close()


def a_static_member_of_a_classic_group_is_told_and_removed(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        topic, group = new_topic(admin), unused_name("group")
        with _member(admin, bootstrap, group, topic, group_instance_id="one", client_id="c"):
            told = admin.groups.describe([group])[group]
            assert isinstance(told, GroupDescription)
            assert (told.type, told.state, told.protocol_type) == ("classic", "Stable", "consumer")
            [member] = told.members
            assert (member.instance_id, member.client_id, member.epoch) == ("one", "c", None)
            assert (member.assigned, member.subscribed) == (
                (TopicPartition(topic, 0),),
                (topic,),
            )
            assert isinstance(admin.groups.delete([group])[group], errors.NonEmptyGroup)
            assert admin.groups.remove_members(group, reason="by a test") == {"one": None}


def a_member_of_a_new_group_is_told_with_its_epochs(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        topic, group = new_topic(admin), unused_name("group")
        with _member(admin, bootstrap, group, topic, group_protocol="consumer"):
            told = admin.groups.describe([group])[group]
            assert isinstance(told, GroupDescription)
            assert (told.type, told.state) == ("consumer", "Stable")
            [member] = told.members
            mine = (TopicPartition(topic, 0),)
            assert (member.assigned, member.target, member.subscribed) == (mine, mine, (topic,))
            assert member.epoch == told.epoch == told.target_epoch
            assert member.upgraded


def a_transactional_id_is_taken_away_from_its_producer(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        name = unused_name("transaction")
        first = admin.transactions.fence([name])[name]
        second = admin.transactions.fence([name])[name]
        assert isinstance(first, FencedProducer) and isinstance(second, FencedProducer)
        assert second.producer_id == first.producer_id
        assert second.producer_epoch == first.producer_epoch + 1
        assert name in [each.transactional_id for each in admin.transactions.list_all()]
        described = admin.transactions.describe([name])[name]
        assert isinstance(described, TransactionDescription) and described.state == "Empty"


# -- access


def without_an_authorizer_acls_are_refused_one_by_one(bootstrap: str) -> None:
    acl = Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    wanted = AclFilter(AclResourceType.TOPIC)
    with Admin(bootstrap=bootstrap) as admin:
        assert isinstance(admin.acls.create([acl])[acl], errors.SecurityDisabled)
        assert isinstance(admin.acls.delete([wanted])[wanted], errors.SecurityDisabled)
        with pytest.raises(errors.SecurityDisabled, match="No Authorizer is configured"):
            admin.acls.describe()


def acls_are_kept_found_and_deleted(bootstrap: str) -> None:
    user = f"User:{unused_name('user')}"
    read = Acl(AclResourceType.TOPIC, "orders", user, AclOperation.READ)
    every = read._replace(resource_name="*", operation=AclOperation.WRITE)
    prefix = read._replace(resource_name="or", pattern_type=PatternType.PREFIXED)
    nameless = read._replace(resource_name="", resource_type=AclResourceType.CLUSTER)
    mine = AclFilter(principal=user)
    with Admin(bootstrap=bootstrap) as admin:
        made = admin.acls.create([read, every, prefix, nameless])
        assert [made[each] for each in (read, every, prefix)] == [None] * 3
        assert isinstance(made[nameless], errors.InvalidRequest)
        soon(lambda: set(admin.acls.describe(mine)), {read, every, prefix})
        covering = AclFilter(AclResourceType.TOPIC, "orders", user, pattern_type=PatternType.MATCH)
        assert set(admin.acls.describe(covering)) == {read, every, prefix}
        literal = covering._replace(pattern_type=PatternType.LITERAL)
        assert admin.acls.describe(literal) == [read]
        assert admin.acls.delete([literal]) == {literal: {read: None}}
        soon(lambda: set(admin.acls.describe(mine)), {every, prefix})
        assert admin.acls.delete([mine]) == {mine: {every: None, prefix: None}}
        soon(lambda: admin.acls.describe(mine), [])


def quotas_are_kept_and_removed(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        entity = QuotaEntity.of({"user": unused_name("user"), "client-id": None})
        change = {entity: {"producer_byte_rate": 1000.0}}
        assert admin.quotas.alter(change) == {entity: None}
        wanted = [QuotaFilter("user"), QuotaFilter("client-id")]
        soon(
            lambda: admin.quotas.describe(wanted, strict=True).get(entity),
            {"producer_byte_rate": 1000.0},
        )
        assert admin.quotas.alter({entity: {"producer_byte_rate": None}}) == {entity: None}
        soon(lambda: entity in admin.quotas.describe(), False)
        wrong = admin.quotas.alter({entity: {"no_such_key": 1.0}})
        assert isinstance(wrong[entity], errors.InvalidRequest)


def scram_credentials_are_kept_and_removed(bootstrap: str) -> None:
    sha_256, sha_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
    with Admin(bootstrap=bootstrap) as admin:
        user = unused_name("user")
        made = admin.scram.alter([ScramUpsertion(user, sha_512, "secret", iterations=8192)])
        assert made == {user: None}
        soon(lambda: admin.scram.describe([user])[user], [ScramCredential(sha_512, 8192)])
        wrong = admin.scram.alter([ScramDeletion(user, sha_256)])
        assert isinstance(wrong[user], errors.ResourceNotFound)
        assert admin.scram.alter([ScramDeletion(user, sha_512)]) == {user: None}
        gone = errors.ResourceNotFound
        soon(lambda: isinstance(admin.scram.describe([user])[user], gone), True)


FACTS: tuple[Fact, ...] = (
    a_topic_is_created_described_and_deleted,
    pages_tell_eligible_leaders_too,
    partitions_are_added_where_one_says,
    keys_are_changed_one_by_one_or_all_at_once,
    loggers_belong_to_one_broker,
    an_empty_partition_begins_and_ends_at_0,
    an_election_that_is_not_needed_says_so,
    a_partition_may_be_reassigned_to_where_it_is,
    a_reassignment_that_cannot_be_is_refused,
    a_broker_tells_what_is_in_its_directories,
    a_replica_moves_only_to_a_directory_that_there_is,
    the_quorum_has_a_leader_that_votes,
    features_are_told_and_guarded,
    each_broker_tells_its_versions,
    the_only_broker_is_not_fenced,
    a_broker_that_is_not_known_is_not_forgotten,
    a_group_is_moved_and_deleted_from_outside,
    a_static_member_of_a_classic_group_is_told_and_removed,
    a_member_of_a_new_group_is_told_with_its_epochs,
    a_transactional_id_is_taken_away_from_its_producer,
    without_an_authorizer_acls_are_refused_one_by_one,
)
KAFKA_FACTS: tuple[Fact, ...] = (
    quotas_are_kept_and_removed,
    scram_credentials_are_kept_and_removed,
)
AUTHORIZER_FACTS: tuple[Fact, ...] = (acls_are_kept_found_and_deleted,)
