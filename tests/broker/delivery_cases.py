"""What to ask the APIs of groups and transactions in every version; see test_api_every_version."""

from api_asking import Asker, find_coordinator, topic_id, unused_name
from txn_asking import TRIES_MAX, Txn

from penstock.errors import CoordinatorLoadInProgress, MemberIdRequired
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k11_join_group as k11
from penstock.wire.messages import k12_heartbeat as k12
from penstock.wire.messages import k13_leave_group as k13
from penstock.wire.messages import k14_sync_group as k14
from penstock.wire.messages import k15_describe_groups as k15
from penstock.wire.messages import k16_list_groups as k16
from penstock.wire.messages import k24_add_partitions_to_txn as k24
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.messages import k42_delete_groups as k42
from penstock.wire.messages import k47_offset_delete as k47
from penstock.wire.messages import k61_describe_producers as k61
from penstock.wire.messages import k65_describe_transactions as k65
from penstock.wire.messages import k66_list_transactions as k66
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.messages import k69_consumer_group_describe as k69

OFFSET = 7


def _find_coordinator(asker: Asker, _topic: str, version: int) -> object:
    for name in ("one", "two"):
        find_coordinator(asker, 0, name)
    if version >= 4:
        asked = k10.FindCoordinatorRequest(coordinator_keys=["one", "two"])
        found = asker.ask(asked, version).coordinators
        return [(each.key, each.error_code, each.node_id) for each in found] == [
            ("one", 0, 1),
            ("two", 0, 1),
        ]
    answer = asker.ask(k10.FindCoordinatorRequest(key="one"), version)
    return answer.error_code == 0 and answer.node_id == 1


def group_with_coordinator(asker: Asker) -> str:
    """A name whose coordinator has loaded."""
    group = unused_name("group")
    find_coordinator(asker, 0, group)
    for _ in range(TRIES_MAX):
        [described] = asker.ask(k15.DescribeGroupsRequest(groups=[group]), 0).groups
        if described.error_code != CoordinatorLoadInProgress.code:
            return group
    raise AssertionError("the coordinator does not load")


# -- offsets


def commit(asker: Asker, group: str, topic: str, version: int = 2) -> int:
    wanted = k08.OffsetCommitRequestTopic(
        partitions=[k08.OffsetCommitRequestPartition(partition_index=0, committed_offset=OFFSET)]
    )
    if version >= 10:
        wanted.topic_id = topic_id(asker, topic)
    else:
        wanted.name = topic
    answer = asker.ask(k08.OffsetCommitRequest(group_id=group, topics=[wanted]), version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def _offset_commit(asker: Asker, topic: str, version: int) -> object:
    return commit(asker, group_with_coordinator(asker), topic, version) == 0


def _offset_fetch(asker: Asker, topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    commit(asker, group, topic)
    if version < 8:
        wanted = k09.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        asked = k09.OffsetFetchRequest(group_id=group, topics=[wanted])
        [found] = asker.ask(asked, version).topics
    else:
        named = k09.OffsetFetchRequestTopics(partition_indexes=[0])
        if version >= 10:
            named.topic_id = topic_id(asker, topic)
        else:
            named.name = topic
        of_group = k09.OffsetFetchRequestGroup(group_id=group, topics=[named])
        [answer] = asker.ask(k09.OffsetFetchRequest(groups=[of_group]), version).groups
        [found] = answer.topics
    return found.partitions[0].committed_offset == OFFSET


def _offset_delete(asker: Asker, topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    commit(asker, group, topic)
    wanted = k47.OffsetDeleteRequestTopic(
        name=topic, partitions=[k47.OffsetDeleteRequestPartition(partition_index=0)]
    )
    answer = asker.ask(k47.OffsetDeleteRequest(group_id=group, topics=[wanted]), version)
    return answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0


# -- classic groups


def join(asker: Asker, group: str, version: int = 4) -> k11.JoinGroupResponse:
    """The only member of a group, in its first generation."""
    asked = k11.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="any",
        protocols=[k11.JoinGroupRequestProtocol(name="one", metadata=b"m")],
    )
    answer = asker.ask(asked, version)
    if answer.error_code == MemberIdRequired.code:
        asked.member_id = answer.member_id
        answer = asker.ask(asked, version)
    assert isinstance(answer, k11.JoinGroupResponse)
    return answer


def _join_group(asker: Asker, _topic: str, version: int) -> object:
    answer = join(asker, group_with_coordinator(asker), version)
    return answer.error_code == 0 and answer.leader == answer.member_id


def sync(asker: Asker, group: str, version: int = 3) -> k14.SyncGroupResponse:
    joined = join(asker, group)
    mine = k14.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    asked = k14.SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="any",
        protocol_name="one",
        assignments=[mine],
    )
    answer = asker.ask(asked, version)
    assert isinstance(answer, k14.SyncGroupResponse)
    return answer


def _sync_group(asker: Asker, _topic: str, version: int) -> object:
    answer = sync(asker, group_with_coordinator(asker), version)
    return answer.error_code == 0 and answer.assignment == b"mine"


def _heartbeat(asker: Asker, _topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    joined = join(asker, group)
    asked = k12.HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    return asker.ask(asked, version).error_code == 0


def _leave_group(asker: Asker, _topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    member_id = join(asker, group).member_id
    asked = k13.LeaveGroupRequest(group_id=group)
    if version >= 3:
        asked.members = [k13.MemberIdentity(member_id=member_id)]
    else:
        asked.member_id = member_id
    answer = asker.ask(asked, version)
    return answer.error_code == 0 and [each.error_code for each in answer.members] == (
        [0] if version >= 3 else []
    )


def _describe_groups(asker: Asker, _topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    sync(asker, group)
    [found] = asker.ask(k15.DescribeGroupsRequest(groups=[group]), version).groups
    return (found.error_code, found.group_state, len(found.members)) == (0, "Stable", 1)


def _list_groups(asker: Asker, topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    commit(asker, group, topic)
    answer = asker.ask(k16.ListGroupsRequest(), version)
    return answer.error_code == 0 and group in [each.group_id for each in answer.groups]


def _delete_groups(asker: Asker, topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    commit(asker, group, topic)
    [found] = asker.ask(k42.DeleteGroupsRequest(groups_names=[group]), version).results
    return found.group_id == group and found.error_code == 0


# -- consumer groups


def beat(asker: Asker, group: str, topic: str, version: int) -> k68.ConsumerGroupHeartbeatResponse:
    asked = k68.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="" if version == 0 else "a-member",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    answer = asker.ask(asked, version)
    assert isinstance(answer, k68.ConsumerGroupHeartbeatResponse)
    return answer


def _consumer_heartbeat(asker: Asker, topic: str, version: int) -> object:
    answer = beat(asker, group_with_coordinator(asker), topic, version)
    assert answer.error_code == 0 and answer.assignment is not None
    [assigned] = answer.assignment.topic_partitions
    return assigned.topic_id == topic_id(asker, topic) and assigned.partitions == [0]


def _consumer_describe(asker: Asker, topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    beat(asker, group, topic, 1)
    asked = k69.ConsumerGroupDescribeRequest(group_ids=[group])
    [found] = asker.ask(asked, version).groups
    return found.error_code == 0 and [each.member_id for each in found.members] == ["a-member"]


# -- transactions


def _add_partitions(asker: Asker, topic: str, version: int) -> object:
    txn = Txn(asker).begun()
    if version < 4:
        return txn.add(topic, 0, version=version) == [0]
    wanted = k24.AddPartitionsToTxnTransaction(
        transactional_id=txn.name,
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        topics=[k24.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    answer = asker.ask(k24.AddPartitionsToTxnRequest(transactions=[wanted]), version)
    [found] = answer.results_by_transaction
    [result] = found.topic_results[0].results_by_partition
    return answer.error_code == 0 and result.partition_error_code == 0


def _add_offsets(asker: Asker, _topic: str, version: int) -> object:
    return Txn(asker).begun().add_offsets(group_with_coordinator(asker), version=version) == 0


def _end_txn(asker: Asker, topic: str, version: int) -> object:
    txn = Txn(asker, v2=version >= 5).begun()
    txn.write(topic, b"v")
    return txn.end(committed=True, version=version).error_code == 0


def _write_txn_markers(asker: Asker, topic: str, version: int) -> object:
    """For a producer that nobody has heard of: its marker ends nothing, and is written."""
    marker = k27.WritableTxnMarker(
        producer_id=2**40,
        transaction_result=True,
        topics=[k27.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    [found] = asker.ask(k27.WriteTxnMarkersRequest(markers=[marker]), version).markers
    return found.topics[0].partitions[0].error_code == 0


def _txn_offset_commit(asker: Asker, topic: str, version: int) -> object:
    group = group_with_coordinator(asker)
    txn = Txn(asker).begun()
    assert version >= 5 or txn.add_offsets(group) == 0
    return txn.commit_offset(group, topic, OFFSET, version=version) == 0


def _describe_producers(asker: Asker, topic: str, version: int) -> object:
    txn = Txn(asker).begun()
    txn.write(topic, b"v")
    wanted = k61.TopicRequest(name=topic, partition_indexes=[0])
    [answer] = asker.ask(k61.DescribeProducersRequest(topics=[wanted]), version).topics
    found = answer.partitions[0].active_producers
    return [each.producer_id for each in found] == [txn.producer_id]


def _describe_transactions(asker: Asker, _topic: str, version: int) -> object:
    txn = Txn(asker).begun()
    asked = k65.DescribeTransactionsRequest(transactional_ids=[txn.name])
    [found] = asker.ask(asked, version).transaction_states
    return (found.error_code, found.transaction_state) == (0, "Empty")


def _list_transactions(asker: Asker, _topic: str, version: int) -> object:
    txn = Txn(asker).begun()
    answer = asker.ask(k66.ListTransactionsRequest(), version)
    named = [each.transactional_id for each in answer.transaction_states]
    return answer.error_code == 0 and txn.name in named


DELIVERY_CASES = {
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join_group,
    12: _heartbeat,
    13: _leave_group,
    14: _sync_group,
    15: _describe_groups,
    16: _list_groups,
    24: _add_partitions,
    25: _add_offsets,
    26: _end_txn,
    27: _write_txn_markers,
    28: _txn_offset_commit,
    42: _delete_groups,
    47: _offset_delete,
    61: _describe_producers,
    65: _describe_transactions,
    66: _list_transactions,
    68: _consumer_heartbeat,
    69: _consumer_describe,
}
