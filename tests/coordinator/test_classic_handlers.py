"""The handlers of classic groups: what they refuse themselves, and how they join many answers."""

from collections.abc import Callable, Generator
from typing import Any, cast

import pytest
from classic_story import name_of
from open_access import without_authorizer

from penstock.broker.handlers import (
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
)
from penstock.coordinator.events import GroupRequest
from penstock.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
)
from penstock.wire.codec import read, write
from penstock.wire.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest
from penstock.wire.messages.k14_sync_group import SyncGroupRequest
from penstock.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.wire.messages.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.wire.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


class FakeRuntime:
    """Keeps the questions; a test answers them in the order it likes."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: Callable[[Any], None] = lambda _: None

    def submit(self, call: GroupRequest, done: Callable[[Any], None]) -> None:
        self.asked.append(call.message)
        self.answer = done


class FakeCoordinators:
    """Groups belong to the runtime named by their first letter; others are elsewhere."""

    def __init__(self) -> None:
        self.runtimes = {"a": FakeRuntime(), "b": FakeRuntime()}

    def group_runtime(self, group_id: str) -> FakeRuntime:
        if group_id[:1] not in self.runtimes:
            raise NotCoordinator(group_id)
        return self.runtimes[group_id[:1]]

    def all_groups(self) -> list[FakeRuntime]:
        return list(self.runtimes.values())

    def call(self, request: "FakeRequest", message: Any) -> GroupRequest:
        return GroupRequest(message, request.api_version)

    def ask_group(
        self,
        group_id: str,
        request: "FakeRequest",
        message: Any,
        refused: Callable[..., Any],
        may_have: Callable[[], bool] = lambda: True,
    ) -> None:
        def done(result: Any) -> None:
            assert may_have()
            request.reply(refused(result) if isinstance(result, KafkaError) else result)

        self.group_runtime(group_id).submit(self.call(request, message), done)


class FakeBroker:
    def __init__(self) -> None:
        self.coordinators = FakeCoordinators()
        self.access = without_authorizer()


class FakeRequest:
    def __init__(self, api_version: int) -> None:
        self.api_version = api_version
        self.client_id = "test"
        self.replies: list[Any] = []

    def reply(self, response: Any) -> None:
        self.replies.append(response)


class Bench:
    """One request to one handler."""

    def __init__(self, handler: Any, message: Any, version: int) -> None:
        self.broker = FakeBroker()
        self.request = FakeRequest(version)
        self.runtimes = self.broker.coordinators.runtimes
        self.returned = handler.handle(cast("Any", self.broker), cast("Any", self.request), message)
        if isinstance(self.returned, Generator):
            self.run(self.returned)

    def run(self, slices: Generator[Any, None, Any]) -> None:
        """Run until the handler waits; go on when it need not any more."""
        try:
            while (pause := next(slices)) is None:
                pass
        except StopIteration as end:
            self.request.reply(end.value)
        else:
            pause(lambda: self.run(slices))

    @property
    def reply(self) -> Any:
        [reply] = self.request.replies
        return reply


# One group


@pytest.mark.parametrize(
    ("handler", "message", "version"),
    [
        (k11_join_group, JoinGroupRequest(member_id="a-1"), 9),
        (k12_heartbeat, HeartbeatRequest(), 4),
        (k13_leave_group, LeaveGroupRequest(), 5),
        (k14_sync_group, SyncGroupRequest(protocol_type="consumer", protocol_name="range"), 5),
    ],
)
def test_a_group_without_a_name_is_refused(handler: Any, message: Any, version: int) -> None:
    bench = Bench(handler, message, version)
    assert name_of(bench.returned.error_code) == "INVALID_GROUP_ID"
    assert not bench.runtimes["a"].asked


def test_a_name_that_leaves_no_room_for_a_member_id_is_rejected() -> None:
    message = JoinGroupRequest(group_id="a", group_instance_id="é" * 16_380)
    bench = Bench(k11_join_group, message, 9)
    assert name_of(bench.returned.error_code) == "INVALID_REQUEST"
    assert not bench.runtimes["a"].asked


def test_a_member_with_thousands_of_protocols_is_rejected() -> None:
    protocols = [JoinGroupRequestProtocol(name=str(number)) for number in range(1_001)]
    bench = Bench(k11_join_group, JoinGroupRequest(group_id="a", protocols=protocols), 9)
    assert name_of(bench.returned.error_code) == "INCONSISTENT_GROUP_PROTOCOL"
    assert not bench.runtimes["a"].asked


@pytest.mark.parametrize("version", range(10))
def test_a_join_that_is_refused_as_a_whole_is_told_so_in_every_version(version: int) -> None:
    bench = Bench(k11_join_group, JoinGroupRequest(group_id="a"), version)
    bench.runtimes["a"].answer(CoordinatorLoadInProgress())
    told = read(JoinGroupResponse, version, write(bench.reply, version))
    assert name_of(told.error_code) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert told.protocol_name == (None if version >= 7 else "")


def test_an_answer_passes_as_it_is() -> None:
    bench = Bench(k11_join_group, JoinGroupRequest(group_id="a"), 9)
    assert bench.returned is None and not bench.request.replies
    answer = JoinGroupResponse(generation_id=5)
    bench.runtimes["a"].answer(answer)
    assert bench.reply is answer


def test_a_heartbeat_while_loading_is_fine() -> None:
    bench = Bench(k12_heartbeat, HeartbeatRequest(group_id="a"), 4)
    bench.runtimes["a"].answer(CoordinatorLoadInProgress())
    assert bench.reply.error_code == 0


def test_a_heartbeat_to_the_wrong_node_is_not() -> None:
    bench = Bench(k12_heartbeat, HeartbeatRequest(group_id="a"), 4)
    bench.runtimes["a"].answer(NotCoordinator())
    assert name_of(bench.reply.error_code) == "NOT_COORDINATOR"


@pytest.mark.parametrize(
    "message",
    [
        SyncGroupRequest(group_id="a"),
        SyncGroupRequest(group_id="a", protocol_type="consumer"),
        SyncGroupRequest(group_id="a", protocol_name="range"),
    ],
)
def test_from_v5_on_a_sync_must_name_its_protocol(message: SyncGroupRequest) -> None:
    bench = Bench(k14_sync_group, message, 5)
    assert name_of(bench.returned.error_code) == "INCONSISTENT_GROUP_PROTOCOL"
    assert Bench(k14_sync_group, message, 4).returned is None


def test_a_sync_while_loading_lets_the_member_join_again() -> None:
    message = SyncGroupRequest(group_id="a", protocol_type="consumer", protocol_name="range")
    bench = Bench(k14_sync_group, message, 5)
    bench.runtimes["a"].answer(CoordinatorLoadInProgress())
    assert name_of(bench.reply.error_code) == "REBALANCE_IN_PROGRESS"


def test_a_leave_that_is_refused_as_a_whole_has_no_members() -> None:
    bench = Bench(k13_leave_group, LeaveGroupRequest(group_id="a"), 5)
    bench.runtimes["a"].answer(NotCoordinator())
    assert (name_of(bench.reply.error_code), bench.reply.members) == ("NOT_COORDINATOR", [])


# Many groups


def described(*group_ids: str) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=each, group_state="Stable") for each in group_ids]
    )


def test_each_coordinator_is_asked_once_about_all_of_its_groups() -> None:
    message = DescribeGroupsRequest(groups=["a1", "b1", "a2", "a1"])
    bench = Bench(k15_describe_groups, message, 6)
    assert [each.groups for each in bench.runtimes["a"].asked] == [["a1", "a2"]]
    assert [each.groups for each in bench.runtimes["b"].asked] == [["b1"]]


def test_the_reply_leaves_when_all_have_answered_in_the_order_of_the_question() -> None:
    message = DescribeGroupsRequest(groups=["a1", "b1", "a2"])
    bench = Bench(k15_describe_groups, message, 6)
    bench.runtimes["b"].answer(described("b1"))
    assert bench.request.replies == []
    bench.runtimes["a"].answer(described("a1", "a2"))
    assert [each.group_id for each in bench.reply.groups] == ["a1", "b1", "a2"]


def test_each_group_is_told_its_own_error() -> None:
    message = DescribeGroupsRequest(groups=["a1", "elsewhere", "b1"])
    bench = Bench(k15_describe_groups, message, 6)
    bench.runtimes["a"].answer(CoordinatorLoadInProgress())
    bench.runtimes["b"].answer(described("b1"))
    assert [(each.group_id, name_of(each.error_code)) for each in bench.reply.groups] == [
        ("a1", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("elsewhere", "NOT_COORDINATOR"),
        ("b1", "NONE"),
    ]


def test_nothing_asked_is_answered_at_once() -> None:
    assert Bench(k15_describe_groups, DescribeGroupsRequest(), 6).reply.groups == []
    assert Bench(k42_delete_groups, DeleteGroupsRequest(), 2).reply.results == []


def test_authorized_operations_are_told_of_groups_without_an_error_if_asked_for() -> None:
    message = DescribeGroupsRequest(groups=["a1", "b1"], include_authorized_operations=True)
    bench = Bench(k15_describe_groups, message, 6)
    bench.runtimes["a"].answer(described("a1"))
    bench.runtimes["b"].answer(NotCoordinator())
    told = [each.authorized_operations for each in bench.reply.groups]
    assert told == [GROUP_OPERATIONS, -(2**31)]


def test_authorized_operations_are_left_out_if_nobody_asks() -> None:
    bench = Bench(k15_describe_groups, DescribeGroupsRequest(groups=["a1"]), 6)
    bench.runtimes["a"].answer(described("a1"))
    assert bench.reply.groups[0].authorized_operations == -(2**31)


def test_deletions_are_asked_of_each_coordinator_and_joined() -> None:
    message = DeleteGroupsRequest(groups_names=["a1", "elsewhere", "b1", "a1"])
    bench = Bench(k42_delete_groups, message, 2)
    [asked] = bench.runtimes["a"].asked
    assert asked.groups_names == ["a1"]
    done = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="a1")])
    bench.runtimes["a"].answer(done)
    bench.runtimes["b"].answer(CoordinatorLoadInProgress())
    assert sorted((each.group_id, name_of(each.error_code)) for each in bench.reply.results) == [
        ("a1", "NONE"),
        ("b1", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("elsewhere", "NOT_COORDINATOR"),
    ]


def test_what_the_log_refuses_is_told_as_what_it_means_for_a_coordinator() -> None:
    bench = Bench(k42_delete_groups, DeleteGroupsRequest(groups_names=["a1"]), 2)
    bench.runtimes["a"].answer(NotEnoughReplicas())
    assert name_of(bench.reply.results[0].error_code) == "COORDINATOR_NOT_AVAILABLE"


def listing(*group_ids: str) -> ListGroupsResponse:
    return ListGroupsResponse(groups=[ListedGroup(group_id=each) for each in group_ids])


def test_all_coordinators_of_the_node_list_their_groups() -> None:
    bench = Bench(k16_list_groups, ListGroupsRequest(states_filter=["Stable"]), 5)
    assert bench.runtimes["b"].asked == [ListGroupsRequest(states_filter=["Stable"])]
    bench.runtimes["b"].answer(listing("b1"))
    bench.runtimes["a"].answer(listing("a1", "a2"))
    assert [each.group_id for each in bench.reply.groups] == ["a1", "a2", "b1"]


def test_a_coordinator_that_has_moved_away_lists_nothing() -> None:
    bench = Bench(k16_list_groups, ListGroupsRequest(), 5)
    bench.runtimes["a"].answer(NotCoordinator())
    bench.runtimes["b"].answer(listing("b1"))
    assert bench.reply.error_code == 0
    assert [each.group_id for each in bench.reply.groups] == ["b1"]


def test_a_coordinator_that_is_loading_fails_the_list() -> None:
    bench = Bench(k16_list_groups, ListGroupsRequest(), 5)
    bench.runtimes["a"].answer(CoordinatorLoadInProgress())
    bench.runtimes["b"].answer(listing("b1"))
    assert name_of(bench.reply.error_code) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert bench.reply.groups == []
