"""Groups and transactions over the protocol, with a server that moves, loads or is old."""

from collections.abc import Iterator
from typing import Any

import pytest
from scripted_server import NODE, ScriptedServer

from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import (
    AbortMarker,
    GroupDescription,
    TransactionFilter,
)
from penstock.client.cluster import routing
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidRequest,
    NotCoordinator,
    UnstableOffsetCommit,
    UnsupportedVersion,
)
from penstock.model import TopicPartition
from penstock.wire.codec import write_versioned
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k15_describe_groups as k15
from penstock.wire.messages import k16_list_groups as k16
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.messages import k42_delete_groups as k42
from penstock.wire.messages import k61_describe_producers as k61
from penstock.wire.messages import k66_list_transactions as k66
from penstock.wire.messages import k69_consumer_group_describe as k69
from penstock.wire.records import consumer_protocol
from penstock.wire.structures import PartitionError, TopicErrors

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "RETRY_PAUSE_MS", 0)


class InTurn:
    """Answers the first question with the first answer, and so on; the last one stays."""

    def __init__(self, *answers: object) -> None:
        self._answers: Iterator[object] = iter(answers)
        self._last: object = None

    def __call__(self, _request: Any, _version: int) -> object:
        self._last = next(self._answers, self._last)
        return self._last


def found(key: str, node_id: int = NODE, error: int = 0) -> k10.FindCoordinatorResponse:
    return k10.FindCoordinatorResponse(
        coordinators=[k10.Coordinator(key=key, node_id=node_id, error_code=error)]
    )


def deleted(error: int = 0) -> k42.DeleteGroupsResponse:
    return k42.DeleteGroupsResponse(
        results=[k42.DeletableGroupResult(group_id="g", error_code=error)]
    )


def test_a_coordinator_that_is_not_there_yet_is_asked_for_again() -> None:
    finding = InTurn(
        found("g", error=CoordinatorNotAvailable.code), found("g", node_id=99), found("g")
    )
    answers = {10: finding, 42: InTurn(deleted())}
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.groups.delete(["g"]) == {"g": None}
    assert (len(server.requests(10)), len(server.requests(42))) == (3, 1)


@pytest.mark.parametrize("moving", [CoordinatorLoadInProgress, NotCoordinator])
def test_a_coordinator_that_loads_or_has_moved_is_asked_again(
    moving: type[NotCoordinator],
) -> None:
    answers = {42: InTurn(deleted(moving.code), deleted())}
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.groups.delete(["g"]) == {"g": None}
    assert len(server.requests(10)) == 2


def test_a_coordinator_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "RETRIES_MAX", 4)
    answers = {10: InTurn(found("g", error=CoordinatorNotAvailable.code)), 42: InTurn()}
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        result = admin.groups.delete(["g"])["g"]
    assert isinstance(result, CoordinatorNotAvailable)
    assert len(server.requests(10)) == 4


def test_many_coordinators_are_found_with_one_question_or_one_each() -> None:
    none = k42.DeleteGroupsResponse()
    for highest, questions in ({}, 1), ({10: 3}, 2):
        with (
            ScriptedServer({42: InTurn(none)}, highest=highest) as server,
            Admin(bootstrap=server.bootstrap) as admin,
        ):
            results = admin.groups.delete(["a", "b"])
        assert len(server.requests(10)) == questions
        said = [each and each.message for each in results.values()]
        assert said == ["the server did not answer for it"] * 2


def test_a_group_that_is_not_of_the_new_kind_is_described_as_a_classic_one() -> None:
    assignment = consumer_protocol.ConsumerProtocolAssignment(
        assigned_partitions=[consumer_protocol.TopicPartition(topic="orders", partitions=[1, 0])]
    )
    member = k15.DescribedGroupMember(
        member_id="m",
        client_id="c",
        client_host="/10.0.0.7",
        member_assignment=write_versioned(assignment, 3),
    )
    classic = k15.DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[member],
    )
    rejected = k69.DescribedGroup(group_id="g", error_code=GroupIdNotFound.code)
    answers = {
        15: InTurn(k15.DescribeGroupsResponse(groups=[classic])),
        69: InTurn(k69.ConsumerGroupDescribeResponse(groups=[rejected])),
    }
    for highest in {}, {69: -1}:
        with (
            ScriptedServer(answers, highest=highest) as server,
            Admin(bootstrap=server.bootstrap) as admin,
        ):
            group = admin.groups.describe(["g"])["g"]
        assert isinstance(group, GroupDescription)
        assert (group.type, group.state, group.assignor) == ("classic", "Stable", "range")
        assert group.members[0].assigned == (ORDERS, TopicPartition("orders", 1))
        assert group.members[0].host == "10.0.0.7"


def test_a_dead_group_is_none() -> None:
    dead = k15.DescribedGroup(group_id="g", group_state="Dead")
    answers = {15: InTurn(k15.DescribeGroupsResponse(groups=[dead]))}
    with (
        ScriptedServer(answers, highest={15: 5}) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        assert isinstance(admin.groups.describe(["g"])["g"], GroupIdNotFound)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\xff\xff\xff\xff"])
def test_an_assignment_that_nobody_can_read_is_empty(data: bytes) -> None:
    member = k15.DescribedGroupMember(member_id="m", member_assignment=data)
    classic = k15.DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", members=[member]
    )
    answers = {15: InTurn(k15.DescribeGroupsResponse(groups=[classic]))}
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        group = admin.groups.describe(["g"])["g"]
    assert isinstance(group, GroupDescription)
    assert group.members[0].assigned == ()


def committed(offset: int, error: int = 0) -> k09.OffsetFetchResponse:
    """In the form of every version at once: a version writes the fields that it has."""
    new = k09.OffsetFetchResponsePartitions(committed_offset=offset, error_code=error)
    old = k09.OffsetFetchResponsePartition(committed_offset=offset, error_code=error)
    topics = [k09.OffsetFetchResponseTopics(name="orders", partitions=[new])]
    return k09.OffsetFetchResponse(
        topics=[k09.OffsetFetchResponseTopic(name="orders", partitions=[old])],
        groups=[k09.OffsetFetchResponseGroup(group_id="g", topics=topics)],
    )


@pytest.mark.parametrize("version", [10, 9, 8, 7, 2])
def test_committed_offsets_are_asked_for_by_name_in_every_version(version: int) -> None:
    with (
        ScriptedServer({9: InTurn(committed(12))}, highest={9: version}) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        offsets = admin.groups.offsets("g")
    assert {each: known.offset for each, known in offsets.items()} == {ORDERS: 12}


def test_a_partition_without_a_committed_offset_is_left_out() -> None:
    with (
        ScriptedServer({9: InTurn(committed(-1))}) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        assert admin.groups.offsets("g") == {}


def test_offsets_inside_a_transaction_are_waited_for() -> None:
    unstable = committed(-1, UnstableOffsetCommit.code)
    answers = {9: InTurn(unstable, unstable, committed(5))}
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.groups.offsets("g", require_stable=True)[ORDERS].offset == 5
    assert [each.require_stable for each in server.requests(9)] == [True] * 3


def test_offsets_inside_a_transaction_that_does_not_end_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "RETRIES_MAX", 3)
    answers = {9: InTurn(committed(-1, UnstableOffsetCommit.code))}
    with (
        ScriptedServer(answers) as server,
        Admin(bootstrap=server.bootstrap) as admin,
        pytest.raises(UnstableOffsetCommit),
    ):
        admin.groups.offsets("g", require_stable=True)


def test_offsets_are_committed_from_outside_the_group() -> None:
    def answer(code: int) -> k08.OffsetCommitResponse:
        partition = PartitionError(error_code=code)
        return k08.OffsetCommitResponse(
            topics=[k08.OffsetCommitResponseTopic(name="orders", partitions=[partition])]
        )

    answers = {8: InTurn(answer(NotCoordinator.code), answer(0))}
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.groups.commit("g", {ORDERS: 7}) == {ORDERS: None}
    request = server.requests(8)[-1]
    assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
    assert request.topics[0].name == "orders"
    assert request.topics[0].partitions[0].committed_offset == 7


def test_a_server_too_old_for_a_filter_is_not_asked_without_it() -> None:
    answers = {16: InTurn(k16.ListGroupsResponse()), 66: InTurn(k66.ListTransactionsResponse())}
    with (
        ScriptedServer(answers, highest={16: 3, 66: 0}) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        assert admin.groups.list_all() == []
        assert admin.transactions.list_all(TransactionFilter()) == []
        with pytest.raises(UnsupportedVersion):
            admin.groups.list_all(states=["Stable"])
        with pytest.raises(UnsupportedVersion):
            admin.groups.list_all(types=["classic"])
        with pytest.raises(UnsupportedVersion):
            admin.transactions.list_all(TransactionFilter(longer_than_ms=1))
        with pytest.raises(UnsupportedVersion):
            admin.transactions.list_all(TransactionFilter(pattern="a.*"))


def test_a_broker_that_is_loading_is_asked_again_for_its_list() -> None:
    group = k16.ListedGroup(group_id="g", group_type="Classic", group_state="Empty")
    answers = {
        16: InTurn(
            k16.ListGroupsResponse(error_code=CoordinatorLoadInProgress.code),
            k16.ListGroupsResponse(groups=[group]),
        )
    }
    with ScriptedServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        (listed,) = admin.groups.list_all()
    assert (listed.group_id, listed.type, listed.coordinator) == ("g", "classic", NODE)


def test_a_state_that_the_server_does_not_know_is_no_empty_list() -> None:
    answers = {66: InTurn(k66.ListTransactionsResponse(unknown_state_filters=["Odd"]))}
    with (
        ScriptedServer(answers) as server,
        Admin(bootstrap=server.bootstrap) as admin,
        pytest.raises(InvalidRequest, match="knows no state Odd"),
    ):
        admin.transactions.list_all(TransactionFilter(states=("Odd",)))


def test_producers_of_many_partitions_are_asked_in_slices() -> None:
    places = [TopicPartition("orders", number) for number in range(1001)]

    def answer(request: k61.DescribeProducersRequest, _version: int) -> object:
        state = k61.ProducerState(producer_id=4, current_txn_start_offset=-1)
        return k61.DescribeProducersResponse(
            topics=[
                k61.TopicResponse(
                    name=topic.name,
                    partitions=[
                        k61.PartitionResponse(partition_index=each, active_producers=[state])
                        for each in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    with (
        ScriptedServer({61: answer}, logs=dict.fromkeys(places, (0, 0))) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        found_producers = admin.transactions.producers(places)
    assert len(found_producers) == 1001
    sizes = [len(each.topics[0].partition_indexes) for each in server.requests(61)]
    assert sizes == [500, 500, 1]


def test_an_abort_is_one_marker_as_kafkas_own_tool_writes_it() -> None:
    done = k27.WritableTxnMarkerResult(
        producer_id=7,
        topics=[TopicErrors(name="orders", partitions=[PartitionError()])],
    )
    answers = {27: InTurn(k27.WriteTxnMarkersResponse(markers=[done]))}
    with (
        ScriptedServer(answers, logs={ORDERS: (0, 9)}) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        assert admin.transactions.abort(AbortMarker(ORDERS, 7, 3, 2)) is None
    (marker,) = server.requests(27)[0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 2)
    assert (marker.transaction_result, marker.transaction_version) == (False, 0)
    assert (marker.topics[0].name, marker.topics[0].partition_indexes) == ("orders", [0])
