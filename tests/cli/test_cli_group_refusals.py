"""Commands on groups and transactions where a server says no, or yes to a half."""

from collections.abc import Callable
from typing import Any

import pytest
from cli_running import Ran, run
from scripted_server import Answer, ScriptedServer

from penstock.cli.arguments.times import HOUR_MS, wall_ms
from penstock.client.cluster import routing
from penstock.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    NotLeaderOrFollower,
    TransactionCoordinatorFenced,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from penstock.model import TopicPartition
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k15_describe_groups as k15
from penstock.wire.messages import k16_list_groups as k16
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.messages import k42_delete_groups as k42
from penstock.wire.messages import k61_describe_producers as k61
from penstock.wire.messages import k65_describe_transactions as k65
from penstock.wire.messages import k66_list_transactions as k66
from penstock.wire.structures import PartitionError, TopicErrors

LOGS = {TopicPartition("orders", 0): (0, 10), TopicPartition("orders", 1): (0, 10)}
GONE = 5  # a partition that the group has committed for, and that was deleted


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "RETRY_PAUSE_MS", 0)
    monkeypatch.setattr(routing, "RETRIES_MAX", 3)


def always(answer: object) -> Answer:
    return lambda _request, _version: answer


def empty_group(name: str = "g") -> Answer:
    group = k15.DescribedGroup(group_id=name, group_state="Empty")
    return always(k15.DescribeGroupsResponse(groups=[group]))


def committed(offsets: dict[int, int], error: int = 0) -> Answer:
    partitions = [
        k09.OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=offset, error_code=error
        )
        for number, offset in offsets.items()
    ]
    topics = [k09.OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = k09.OffsetFetchResponseGroup(group_id="g", topics=topics)
    return always(k09.OffsetFetchResponse(groups=[group]))


def commits(errors: dict[int, int]) -> Answer:
    def answer(request: k08.OffsetCommitRequest, _version: int) -> k08.OffsetCommitResponse:
        return k08.OffsetCommitResponse(
            topics=[
                k08.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        PartitionError(
                            partition_index=each.partition_index,
                            error_code=errors.get(each.partition_index, 0),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def ask(answers: dict[int, Answer], *arguments: str) -> Ran:
    with ScriptedServer(answers, logs=LOGS) as server:
        return run("--bootstrap", server.bootstrap, *arguments)


# -- groups


def test_a_group_whose_offsets_are_in_an_open_transaction_is_not_reset() -> None:
    answers = {15: empty_group(), 9: committed({0: -1}, UnstableOffsetCommit.code)}
    ran = ask(answers, "group", "reset", "g", "--all-topics", "--to-latest")
    assert (ran.code, ran.out) == (1, "")
    assert "an open transaction is about to commit offsets of g" in ran.err


def test_offsets_that_are_only_partly_reset_end_with_4() -> None:
    answers = {15: empty_group(), 9: committed({0: 1, 1: 2}), 8: commits({1: UnknownMemberId.code})}
    ran = ask(
        answers, "group", "reset", "g", "--all-topics", "--to-latest", "--execute",
        "--format", "json",
    )  # fmt: skip
    assert ran.code == 4
    assert [(row["done"], row["error"]) for row in ran.json] == [
        (True, None),
        (False, "UNKNOWN_MEMBER_ID"),
    ]
    assert "orders-1: the group has members by now; stop them first" in ran.err
    assert "1 offset of g reset" in ran.err


def test_offsets_of_partitions_that_are_gone_are_left_alone() -> None:
    answers = {15: empty_group(), 9: committed({0: 1, GONE: 2}), 8: commits({})}
    ran = ask(answers, "group", "reset", "g", "--all-topics", "--to-latest", "--execute")
    assert (ran.code, len(ran.out.splitlines())) == (0, 2)
    assert "note: orders-5 does not exist any more, and its offset is kept" in ran.err


def test_offsets_of_partitions_that_are_gone_are_shown_without_a_lag() -> None:
    answers = {15: empty_group(), 9: committed({0: 1, GONE: 2})}
    ran = ask(answers, "group", "describe", "g", "--format", "json")
    assert ran.code == 0
    assert [row["lag"] for row in ran.json[0]["partitions"]] == [9, None]
    assert ran.err == "note: orders-5 does not exist any more\n"


def test_a_group_with_nothing_says_so() -> None:
    answers = {15: empty_group(), 9: committed({})}
    ran = ask(answers, "group", "describe", "g", "--offsets", "--members")
    assert ran.out.splitlines()[1:] == ["no members", "nothing committed and nothing assigned", ""]


def test_a_group_that_has_gone_before_it_is_deleted_is_told() -> None:
    gone = k42.DeletableGroupResult(group_id="g", error_code=GroupIdNotFound.code)
    answers = {42: always(k42.DeleteGroupsResponse(results=[gone]))}
    ran = ask(answers, "group", "delete", "g", "--execute")
    assert (ran.code, ran.out) == (1, "")
    assert "there is no group g" in ran.err


def test_groups_of_another_kind_are_not_described_with_all() -> None:
    listing = [
        k16.ListedGroup(group_id="g", group_type="Classic"),
        k16.ListedGroup(group_id="shared", group_type="Share"),
    ]
    answers = {15: empty_group(), 16: always(k16.ListGroupsResponse(groups=listing))}
    ran = ask(answers, "group", "describe", "--state", "--format", "json")
    assert (ran.code, [row["group"] for row in ran.json]) == (0, ["g"])


def test_a_cluster_without_a_coordinator_is_told() -> None:
    dead = k15.DescribedGroup(group_id="g", error_code=CoordinatorNotAvailable.code)
    ran = ask({15: always(k15.DescribeGroupsResponse(groups=[dead]))}, "group", "describe", "g")
    assert ran.code == 1
    assert "COORDINATOR_NOT_AVAILABLE" in ran.err
    assert "Traceback" not in ran.err


def test_a_server_without_groups_is_told() -> None:
    ran = ask({}, "group", "list")
    assert ran.code == 1
    assert "does not serve ListGroups" in ran.err


# -- transactions


def open_producer(last_timestamp: int) -> Answer:
    state = k61.ProducerState(
        producer_id=7,
        producer_epoch=3,
        last_timestamp=last_timestamp,
        coordinator_epoch=-1,
        current_txn_start_offset=4,
    )

    def answer(request: k61.DescribeProducersRequest, _version: int) -> object:
        return k61.DescribeProducersResponse(
            topics=[
                k61.TopicResponse(
                    name=topic.name,
                    partitions=[
                        k61.PartitionResponse(partition_index=each, active_producers=[state])
                        if each == 0
                        else k61.PartitionResponse(
                            partition_index=each, error_code=NotLeaderOrFollower.code
                        )
                        for each in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def listed(*names: str) -> Answer:
    states = [
        k66.TransactionState(transactional_id=name, producer_id=7, transaction_state="Ongoing")
        for name in names
    ]
    return always(k66.ListTransactionsResponse(transaction_states=states))


def described(name: str, error: int = 0, partitions: tuple[int, ...] = ()) -> Answer:
    topics = [k65.TopicData(topic="orders", partitions=list(partitions))]
    state = k65.TransactionState(
        transactional_id=name, error_code=error, transaction_state="Ongoing", topics=topics
    )
    return always(k65.DescribeTransactionsResponse(transaction_states=[state]))


def marking(keep: Callable[[Any], None], error: int) -> Answer:
    result = k27.WritableTxnMarkerResult(
        producer_id=7,
        topics=[
            TopicErrors(
                name="orders",
                partitions=[PartitionError(error_code=error)],
            )
        ],
    )

    def answer(request: k27.WriteTxnMarkersRequest, _version: int) -> object:
        keep(request.markers[0])
        return k27.WriteTxnMarkersResponse(markers=[result])

    return answer


SEARCH = ("txn", "find-hanging", "--topic", "orders", "--format", "json")
HERE = ("--topic", "orders", "--partition", "0")


@pytest.fixture
def hour_ago() -> int:
    return wall_ms() - HOUR_MS


def test_partitions_that_cannot_be_looked_at_are_told(hour_ago: int) -> None:
    answers = {61: open_producer(hour_ago), 66: listed(), 65: always(None)}
    ran = ask(answers, *SEARCH)
    assert ran.code == 4
    assert [(row["partition"], row["start_offset"]) for row in ran.json] == [(0, 4)]
    assert "error: orders-1: This node does not lead that partition" in ran.err


def test_a_coordinator_that_cannot_tell_makes_nothing_hang(hour_ago: int) -> None:
    answers = {
        61: open_producer(hour_ago),
        66: listed("pay"),
        65: described("pay", CoordinatorNotAvailable.code),
    }
    ran = ask(answers, *SEARCH, "--partition", "0")
    assert (ran.code, ran.out) == (1, "")
    assert "COORDINATOR_NOT_AVAILABLE" in ran.err


@pytest.mark.parametrize(("partitions", "stuck"), [((0,), 0), ((1,), 1)])
def test_only_what_the_coordinator_has_left_out_hangs(
    hour_ago: int, partitions: tuple[int, ...], stuck: int
) -> None:
    answers = {
        61: open_producer(hour_ago),
        66: listed("pay"),
        65: described("pay", partitions=partitions),
    }
    assert len(ask(answers, *SEARCH, "--partition", "0").json) == stuck


def test_an_abort_is_written_with_the_lowest_epoch_where_none_is_known(hour_ago: int) -> None:
    markers: list[Any] = []
    answers = {
        61: open_producer(hour_ago),
        66: listed(),
        27: marking(markers.append, 0),
    }
    ran = ask(answers, "txn", "abort", *HERE, "--start-offset", "4", "--execute")
    assert (ran.code, ran.out, ran.err) == (0, "orders-0: aborted\n", "")
    (marker,) = markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)


def test_an_abort_past_a_newer_coordinator_is_refused(hour_ago: int) -> None:
    answers = {
        61: open_producer(hour_ago),
        66: listed(),
        27: marking(lambda _marker: None, TransactionCoordinatorFenced.code),
    }
    ran = ask(answers, "txn", "abort", *HERE, "--start-offset", "4", "--execute")
    assert ran.code == 1
    assert "a coordinator newer than 0 has written here by now" in ran.err


def test_an_old_server_that_cannot_tell_is_asked_to_abort_by_ids() -> None:
    ids = ("--producer-id", "7", "--producer-epoch", "3", "--coordinator-epoch", "2")
    answers = {27: marking(lambda _marker: None, 0)}
    ran = ask(answers, "txn", "abort", *HERE, *ids, "--execute")
    assert (ran.code, ran.out) == (0, "orders-0: aborted\n")
    assert "warning: whether this transaction hangs is not known" in ran.err


def test_some_ids_described_and_some_not_ends_with_4() -> None:
    def answer(request: k65.DescribeTransactionsRequest, _version: int) -> object:
        states = [
            k65.TransactionState(
                transactional_id=name,
                error_code=0 if name == "pay" else 105,
                transaction_state="Empty",
                transaction_start_time_ms=-1,
                transaction_timeout_ms=60_000,
            )
            for name in request.transactional_ids
        ]
        return k65.DescribeTransactionsResponse(transaction_states=states)

    ran = ask({65: answer}, "txn", "describe", "pay", "nobody")
    assert ran.code == 4
    assert ran.out.splitlines()[1].split()[:2] == ["pay", "Empty"]
    assert "there is no transactional id nobody" in ran.err


@pytest.mark.parametrize("other", ["--members", "--offsets"])
def test_one_line_per_group_and_more_of_it_at_once_is_refused(other: str) -> None:
    ran = run("group", "describe", "g", "--state", other)
    assert (ran.code, ran.out) == (2, "")
    assert "--state is one line per group" in ran.err
