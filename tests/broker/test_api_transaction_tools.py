"""What tools see of transactions and do to them: states, lists, producers, markers by hand."""

from typing import Any

import pytest
from api_asking import Asker
from txn_asking import Txn, committed_values, found_group, producers, stable_end

from penstock import errors
from penstock.broker.request_pieces import ITEMS_PER_PIECE
from penstock.model import CONSUMER_OFFSETS_TOPIC
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.messages import k61_describe_producers as k61
from penstock.wire.messages import k65_describe_transactions as k65
from penstock.wire.messages import k66_list_transactions as k66

pytest_plugins = ["api_fixtures"]


def test_an_id_that_nobody_knows_is_not_found(asker: Asker) -> None:
    assert Txn(asker).describe().error_code == errors.TransactionalIdNotFound.code


def test_many_ids_are_described_in_their_order(asker: Asker, topic: str) -> None:
    """In slices: between them the node does other work."""
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    names = [f"nobody-{number}" for number in range(3 * ITEMS_PER_PIECE)]
    request = k65.DescribeTransactionsRequest(transactional_ids=[*names, txn.name])
    states = asker.ask(request, 0).transaction_states
    assert [each.transactional_id for each in states] == [*names, txn.name]
    assert {each.error_code for each in states[:-1]} == {errors.TransactionalIdNotFound.code}
    assert states[-1].transaction_state == "Ongoing"


def test_no_ids_are_described_as_none(asker: Asker) -> None:
    assert asker.ask(k65.DescribeTransactionsRequest(), 0).transaction_states == []


def test_ids_are_listed_by_state_and_pattern(asker: Asker, topic: str) -> None:
    open_one, idle = Txn(asker).begun(), Txn(asker).begun()
    open_one.write(topic, b"a")

    def listed(version: int, **filters: Any) -> list[str]:
        answer = asker.ask(k66.ListTransactionsRequest(**filters), version)
        names = {open_one.name, idle.name}
        return [
            each.transactional_id
            for each in answer.transaction_states
            if each.transactional_id in names
        ]

    assert sorted(listed(0)) == sorted([open_one.name, idle.name])
    assert listed(0, state_filters=["Ongoing"]) == [open_one.name]
    assert listed(0, producer_id_filters=[idle.producer_id]) == [idle.name]
    assert listed(1, duration_filter=3_600_000, state_filters=["Ongoing"]) == []
    assert listed(2, transactional_id_pattern=f"{idle.name[:-1]}.") == [idle.name]
    assert listed(2, transactional_id_pattern=idle.name[:-1]) == [], "the whole id must match"


def test_states_that_do_not_exist_are_named(asker: Asker) -> None:
    answer = asker.ask(k66.ListTransactionsRequest(state_filters=["Nowhere", "Empty"]), 0)
    assert answer.unknown_state_filters == ["Nowhere"]


def test_a_pattern_that_is_none_is_refused(asker: Asker) -> None:
    answer = asker.ask(k66.ListTransactionsRequest(transactional_id_pattern="(("), 2)
    assert answer.error_code == errors.InvalidRegularExpression.code


def test_open_transactions_are_seen_at_their_partitions(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a", b"b")
    [state] = producers(asker, topic)
    assert (state.producer_id, state.producer_epoch) == (txn.producer_id, txn.epoch)
    assert (state.last_sequence, state.current_txn_start_offset) == (1, 0)


@pytest.mark.parametrize(
    ("name", "error"),
    [("no-such-topic", errors.UnknownTopicOrPartition), ("not/legal", errors.InvalidTopic)],
)
def test_producers_of_nothing_are_refused(
    asker: Asker, name: str, error: type[errors.KafkaError]
) -> None:
    request = k61.DescribeProducersRequest(
        topics=[k61.TopicRequest(name=name, partition_indexes=[0])]
    )
    [answer] = asker.ask(request, 0).topics
    assert answer.partitions[0].error_code == error.code


def markers(txn: Txn, topic: str, **more: Any) -> k27.WriteTxnMarkersRequest:
    marker = k27.WritableTxnMarker(
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        topics=[k27.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        **more,
    )
    return k27.WriteTxnMarkersRequest(markers=[marker])


@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_is_aborted_past_its_coordinator(
    asker: Asker, topic: str, version: int
) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    [state] = producers(asker, topic)
    request = markers(txn, topic, coordinator_epoch=max(0, state.coordinator_epoch))
    [answer] = asker.ask(request, version).markers
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed_values(asker, topic) == []
    assert stable_end(asker, topic) == 2


def test_a_marker_of_an_old_epoch_or_coordinator_is_refused(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    txn.ended(committed=True)
    before, epoch = stable_end(asker, topic), txn.epoch

    def code(epoch: int, coordinator_epoch: int) -> int:
        txn.epoch = epoch
        request = markers(txn, topic, coordinator_epoch=coordinator_epoch)
        [answer] = asker.ask(request, 1).markers
        told = answer.topics[0].partitions[0].error_code
        assert isinstance(told, int)
        return told

    assert code(epoch - 1, 0) == errors.InvalidProducerEpoch.code
    assert code(epoch, -1) == errors.TransactionCoordinatorFenced.code
    assert stable_end(asker, topic) == before


@pytest.mark.parametrize("v2", [True, False])
def test_a_marker_of_a_coordinator_that_there_is_not_stops_nobody_for_ever(
    asker: Asker, topic: str, v2: bool
) -> None:
    txn = Txn(asker, v2=v2).begun()
    txn.write(topic, b"a")
    txn.ended(committed=True)
    request = markers(txn, topic, coordinator_epoch=2**31 - 1)
    [answer] = asker.ask(request, 1).markers
    assert answer.topics[0].partitions[0].error_code == 0
    txn.write(topic, b"b")
    txn.ended(committed=True)
    assert committed_values(asker, topic) == [b"a", b"b"]


def test_a_marker_for_a_partition_that_is_not_here_is_refused(asker: Asker) -> None:
    txn = Txn(asker).begun()
    [answer] = asker.ask(markers(txn, "no-such-topic"), 1).markers
    assert answer.topics[0].partitions[0].error_code == errors.UnknownTopicOrPartition.code


def test_a_marker_for_offsets_in_a_partition_that_there_is_not_is_refused_likewise(
    asker: Asker,
) -> None:
    txn = Txn(asker).begun()
    found_group(asker)
    request = markers(txn, CONSUMER_OFFSETS_TOPIC)
    request.markers[0].topics[0].partition_indexes = [999]
    [answer] = asker.ask(request, 1).markers
    assert answer.topics[0].partitions[0].error_code == errors.UnknownTopicOrPartition.code


@pytest.mark.parametrize("name", [None, CONSUMER_OFFSETS_TOPIC], ids=["records", "offsets"])
@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-1, -1), (7, -1), (-2, 0)])
def test_a_marker_of_no_producer_writes_nothing(
    asker: Asker, topic: str, name: str | None, producer_id: int, epoch: int
) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    found_group(asker)
    before = stable_end(asker, topic)
    request = markers(txn, name or topic)
    request.markers[0].producer_id, request.markers[0].producer_epoch = producer_id, epoch
    [answer] = asker.ask(request, 1).markers
    assert answer.topics[0].partitions[0].error_code == errors.UnknownServerError.code
    txn.ended(committed=True)
    assert stable_end(asker, topic) == before + 2  # the record and its marker
