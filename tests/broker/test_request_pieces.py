"""Long requests are cut so that nothing is lost, and their answers joined as if they never were."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.request_pieces import (
    CUTS,
    Equals,
    JoinedAnswer,
    Level,
    PieceRule,
    piece_rule_for,
    pieces,
)
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k15_describe_groups as k15
from penstock.wire.messages import k21_delete_records as k21
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k34_alter_replica_log_dirs as k34
from penstock.wire.structures import PartitionError

TOPICS = CUTS[2][0]._replace(items=3)
GROUPS = CUTS[9][0]._replace(items=3)
Asked = list[tuple[str, list[int]]]


def list_offsets(asked: Asked) -> k02.ListOffsetsRequest:
    return k02.ListOffsetsRequest(
        isolation_level=1,
        topics=[
            k02.ListOffsetsTopic(
                name=name,
                partitions=[k02.ListOffsetsPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in asked
        ],
    )


def listed(topics: list[Any]) -> Asked:
    return [(each.name, [p.partition_index for p in each.partitions]) for each in topics]


def cut(message: Any, how: PieceRule) -> list[Any]:
    return [piece for piece in pieces(message, how) if piece is not None]


def leaves(asked: Asked) -> list[tuple[str, int | None]]:
    return sorted((name, index) for name, indexes in asked for index in indexes or [-1])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 5))), max_size=12))
def test_pieces_hold_every_element_once(asked: Asked) -> None:
    apart = TOPICS._replace(equals=Equals.APART)
    found = [pair for piece in cut(list_offsets(asked), apart) for pair in listed(piece.topics)]
    assert leaves(found) == leaves(asked)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 5))), max_size=12))
def test_folded_pieces_hold_every_element_that_differs(asked: Asked) -> None:
    found = [
        leaf
        for piece in cut(list_offsets(asked), TOPICS._replace(equals=Equals.FOLDED))
        for leaf in leaves(listed(piece.topics))
    ]
    named = {leaf for leaf in leaves(asked) if leaf[1] != -1}
    assert [leaf for leaf in sorted(found) if leaf[1] != -1] == sorted(named)


def test_a_piece_keeps_what_stands_beside_the_list() -> None:
    first, second = cut(list_offsets([("a", [0, 1, 2, 3])]), TOPICS)
    assert first.isolation_level == second.isolation_level == 1
    assert listed(first.topics) == [("a", [0, 1, 2])]
    assert listed(second.topics) == [("a", [3])]


def test_equal_elements_that_are_an_error_stay_in_one_piece() -> None:
    found = cut(list_offsets([("a", [0, 7, 1, 7, 2, 7, 7])]), TOPICS)
    holders = [piece for piece in found if 7 in listed(piece.topics)[0][1]]
    assert len(holders) == 1


def test_of_equal_elements_that_are_an_error_two_are_enough() -> None:
    (piece,) = cut(list_offsets([("a", [7] * 1_000)]), TOPICS)
    assert listed(piece.topics) == [("a", [7, 7])]


def test_equal_elements_that_are_no_error_are_cut_like_others() -> None:
    found = cut(list_offsets([("a", [7] * 7)]), TOPICS._replace(equals=Equals.APART))
    assert [listed(piece.topics) for piece in found] == [
        [("a", [7, 7, 7])],
        [("a", [7, 7, 7])],
        [("a", [7])],
    ]


def test_equal_structures_are_cut_like_others() -> None:
    found = cut(list_offsets([("a", [7])] * 7), TOPICS)
    assert [len(piece.topics) for piece in found] == [3, 3, 1]


def test_the_request_itself_is_not_changed() -> None:
    message = list_offsets([("a", [0, 1, 2, 3]), ("b", [])])
    cut(message, TOPICS)
    assert listed(message.topics) == [("a", [0, 1, 2, 3]), ("b", [])]


def test_a_null_list_inside_an_element_stays_null() -> None:
    groups = [k09.OffsetFetchRequestGroup(group_id=f"g{n}", topics=None) for n in range(4)]
    found = cut(k09.OffsetFetchRequest(groups=groups), GROUPS)
    assert [[each.topics for each in piece.groups] for piece in found] == [[None] * 3, [None]]


def test_a_short_request_is_not_cut() -> None:
    assert piece_rule_for(15, k15.DescribeGroupsRequest(groups=["a"] * 100)) is None
    assert piece_rule_for(15, k15.DescribeGroupsRequest(groups=["a"] * 101)) is not None


@pytest.mark.parametrize("indexes", [[0, 1, 2, 3, 4], [0]])
def test_answers_to_pieces_of_one_topic_become_one_topic(indexes: list[int]) -> None:
    joined = JoinedAnswer(TOPICS)
    for piece in cut(list_offsets([("a", indexes), ("b", indexes)]), TOPICS):
        answer = k02.ListOffsetsResponse(
            topics=[
                k02.ListOffsetsTopicResponse(
                    name=name,
                    partitions=[
                        k02.ListOffsetsPartitionResponse(partition_index=each) for each in mine
                    ],
                )
                for name, mine in listed(piece.topics)
            ]
        )
        joined.add(answer)
    assert listed(joined.response.topics) == [("a", indexes), ("b", indexes)]


def test_an_error_of_a_group_in_one_piece_is_the_groups() -> None:
    joined = JoinedAnswer(GROUPS)
    joined.add(k09.OffsetFetchResponse(groups=[k09.OffsetFetchResponseGroup(group_id="g")]))
    failed = k09.OffsetFetchResponseGroup(group_id="g", error_code=16)
    joined.add(k09.OffsetFetchResponse(groups=[failed]))
    assert [(each.group_id, each.error_code) for each in joined.response.groups] == [("g", 16)]


def test_an_answer_may_lack_a_level_of_its_request() -> None:
    joined = JoinedAnswer(CUTS[34][0])
    for index in range(2):
        result = k34.AlterReplicaLogDirTopicResult(
            topic_name="t",
            partitions=[PartitionError(partition_index=index)],
        )
        joined.add(k34.AlterReplicaLogDirsResponse(results=[result]))
    (only,) = joined.response.results
    assert [each.partition_index for each in only.partitions] == [0, 1]


def test_a_whole_refusal_of_a_piece_is_seen() -> None:
    joined = JoinedAnswer(PieceRule((Level("topics", "topics"),)))
    joined.add(k09.OffsetFetchResponse())
    assert not joined.failed
    joined.add(k09.OffsetFetchResponse(error_code=16))
    assert joined.failed


def test_elements_that_differ_in_anything_are_not_folded() -> None:
    message = k21.DeleteRecordsRequest(
        topics=[
            k21.DeleteRecordsTopic(
                name="t",
                partitions=[
                    k21.DeleteRecordsPartition(partition_index=0, offset=n) for n in (1, 5)
                ],
            )
        ]
    )
    (piece,) = cut(message, CUTS[21][0])
    assert [each.offset for each in piece.topics[0].partitions] == [1, 5]


def test_markers_of_one_producer_with_other_results_stay_apart() -> None:
    markers = [
        k27.WritableTxnMarker(
            producer_id=7,
            transaction_result=result,
            topics=[k27.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        for result in (True, False)
    ]
    (piece,) = cut(k27.WriteTxnMarkersRequest(markers=markers), CUTS[27][0])
    assert [each.transaction_result for each in piece.markers] == [True, False]


def test_a_group_asked_for_some_and_for_all_offsets_is_asked_for_both() -> None:
    wanted = k09.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    groups = [
        k09.OffsetFetchRequestGroup(group_id="g", topics=[wanted]),
        k09.OffsetFetchRequestGroup(group_id="g", topics=None),
    ]
    (piece,) = cut(k09.OffsetFetchRequest(groups=groups), GROUPS)
    assert [each.topics is None for each in piece.groups] == [False, True]


def test_settings_of_one_resource_by_other_names_are_all_described() -> None:
    resources = [
        k32.DescribeConfigsResource(resource_name="t", configuration_keys=[key]) for key in "ab"
    ]
    found = cut(k32.DescribeConfigsRequest(resources=resources), CUTS[32][0])
    assert [piece.resources[0].configuration_keys for piece in found] == [["a"], ["b"]]
