"""MarkerWriter: sends until every partition has its marker, and never for somebody replaced."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from txn_fakes import FakeRuntime, FakeWorld

from penstock import errors
from penstock.broker.transactions.txn_markers import (
    RETRY_MS_MAX,
    MarkerWriter,
    MarkerWritten,
)
from penstock.coordinator.records import EndMarker
from penstock.coordinator.transactions.events import MarkersWritten, WriteMarkers
from penstock.model import TRANSACTION_STATE_TOPIC, TopicPartition
from penstock.summed_log import LINES_PER_KIND_MAX

HERE, ELSEWHERE, NOBODY = 1, 2, -1
A, B = TopicPartition("t", 0), TopicPartition("t", 1)
CLAIMED = 1_000  # the epoch of a coordinator that there is not
DONE = MarkersWritten("name", 7, 4)


class FakeHere:
    """This node's partitions: hears of markers, and answers when told to."""

    def __init__(self) -> None:
        self.written: list[tuple[EndMarker, TopicPartition]] = []
        self.waiting: list[tuple[TopicPartition, MarkerWritten]] = []

    def write(
        self, marker: EndMarker, places: Iterable[TopicPartition], told: MarkerWritten
    ) -> None:
        for place in places:
            self.written.append((marker, place))
            self.waiting.append((place, told))

    def coordinator_epoch(self, _place: TopicPartition, _producer_id: int) -> int:
        return CLAIMED

    def tell(self, error: errors.KafkaError | None = None) -> None:
        place, told = self.waiting.pop(0)
        told(place, error)


class Bench:
    def __init__(self, *partitions: TopicPartition, leader: int = HERE) -> None:
        self.world = FakeWorld()
        self.leaders = {0: leader, 1: leader}
        self.broker = SimpleNamespace(
            node_id=HERE, world=self.world, image=SimpleNamespace(topics={})
        )
        self.lead(leader)
        self.writer = MarkerWriter(self.broker)
        self.here = FakeHere()
        self.writer.here = self.here  # type: ignore[assignment]
        self.runtime = FakeRuntime()
        effect = WriteMarkers("name", 7, 4, 2, True, True, partitions)
        self.writer.perform(effect, self.runtime)  # type: ignore[arg-type]

    def lead(self, leader: int) -> None:
        partitions = {index: SimpleNamespace(leader=leader) for index in (0, 1)}
        self.broker.image.topics = {"t": SimpleNamespace(partitions=partitions)}

    def has_coordinator_log(self, *, replicas: tuple[int, ...]) -> None:
        partition = SimpleNamespace(leader=HERE, replicas=replicas)
        self.broker.image.topics[TRANSACTION_STATE_TOPIC] = SimpleNamespace(
            partitions={0: partition}
        )

    @property
    def reported(self) -> list[Any]:
        return [event for event, _ in self.runtime.asked]


def test_every_partition_gets_its_marker_and_the_coordinator_hears_of_it_once() -> None:
    bench = Bench(A, B)
    marker = EndMarker(7, 4, 2, True, True)
    assert bench.here.written == [(marker, A), (marker, B)]
    bench.here.tell()
    assert bench.reported == []
    bench.here.tell()
    assert bench.reported == [DONE]


def test_a_transaction_without_partitions_is_over_at_once() -> None:
    assert Bench().reported == [DONE]


@pytest.mark.parametrize(
    "error",
    [
        errors.NotLeaderOrFollower,
        errors.KafkaStorageError,
        errors.NotEnoughReplicas,
        errors.UnknownTopicOrPartition,
        errors.CoordinatorLoadInProgress,
    ],
)
def test_what_will_pass_is_tried_again(error: type[errors.KafkaError]) -> None:
    bench = Bench(A, B)
    bench.here.tell(error())
    bench.here.tell()
    assert bench.reported == []
    bench.world.advance(RETRY_MS_MAX)
    assert [place for _, place in bench.here.written] == [A, B, A]
    bench.here.tell()
    assert bench.reported == [DONE]


def test_a_partition_that_is_on_its_way_is_not_written_twice() -> None:
    bench = Bench(A, B)
    bench.here.tell(errors.NotLeaderOrFollower())
    bench.world.advance(RETRY_MS_MAX)
    assert [place for _, place in bench.here.written] == [A, B, A]


def test_a_partition_that_nobody_leads_waits_for_a_leader() -> None:
    bench = Bench(A, leader=NOBODY)
    bench.world.advance(RETRY_MS_MAX)
    assert bench.here.written == []
    bench.lead(HERE)
    bench.world.advance(RETRY_MS_MAX)
    bench.here.tell()
    assert bench.reported == [DONE]


def test_a_partition_that_another_node_leads_waits_too() -> None:
    bench = Bench(A, leader=ELSEWHERE)
    bench.world.advance(RETRY_MS_MAX)
    assert (bench.here.written, bench.reported) == ([], [])


def test_a_partition_that_was_deleted_is_given_up() -> None:
    bench = Bench(A)
    bench.here.tell(errors.UnknownTopicOrPartition())
    bench.broker.image.topics = {}
    bench.world.advance(RETRY_MS_MAX)
    assert bench.reported == [DONE]


def test_where_a_newer_epoch_has_been_the_transaction_is_over_already() -> None:
    bench = Bench(A)
    bench.here.tell(errors.InvalidProducerEpoch())
    assert bench.reported == [DONE]


def test_a_coordinator_that_was_replaced_sends_nothing_more() -> None:
    bench = Bench(A, B)
    bench.here.tell(errors.TransactionCoordinatorFenced())
    bench.here.tell()
    bench.world.advance(RETRY_MS_MAX)
    assert (len(bench.here.written), bench.reported) == (2, [])


def test_where_no_other_coordinator_can_be_an_epoch_that_was_made_up_ends_nothing() -> None:
    """WriteTxnMarkers believes everybody: without this the id would be stuck for ever."""
    bench = Bench(A, B)
    bench.has_coordinator_log(replicas=(HERE,))
    bench.here.tell(errors.TransactionCoordinatorFenced())
    bench.here.tell()
    bench.world.advance(RETRY_MS_MAX)
    assert bench.here.written[2:] == [(EndMarker(7, 4, CLAIMED, True, True), A)]
    bench.here.tell()
    assert bench.reported == [DONE]


def test_where_there_can_be_one_it_is_believed() -> None:
    bench = Bench(A, B)
    bench.has_coordinator_log(replicas=(HERE, ELSEWHERE))
    bench.here.tell(errors.TransactionCoordinatorFenced())
    bench.here.tell()
    bench.world.advance(RETRY_MS_MAX)
    assert (len(bench.here.written), bench.reported) == (2, [])


def test_a_machine_that_was_rebuilt_sends_its_markers_itself() -> None:
    """A late marker of an older client's transaction would end the next one."""
    bench = Bench(A)
    bench.here.tell(errors.NotLeaderOrFollower())
    bench.runtime.machine = object()
    bench.world.advance(RETRY_MS_MAX)
    assert (len(bench.here.written), bench.reported) == (1, [])


def test_a_machine_that_was_rebuilt_hears_nothing_of_markers_that_it_did_not_send() -> None:
    """It sends its own, and is told when those are written."""
    bench = Bench(A)
    bench.runtime.machine = object()
    bench.here.tell()
    assert bench.reported == []


def test_a_report_that_the_coordinators_log_refuses_is_made_again() -> None:
    bench = Bench(A)
    bench.here.tell()
    bench.runtime.answer(errors.KafkaStorageError())
    assert bench.reported == []
    bench.world.advance(RETRY_MS_MAX)
    assert bench.reported == [DONE]
    assert len(bench.here.written) == 1, "the markers are written already"


def test_after_a_stop_nothing_is_sent() -> None:
    bench = Bench(A)
    bench.here.tell(errors.NotLeaderOrFollower())
    bench.writer.stop()
    bench.world.advance(RETRY_MS_MAX)
    assert len(bench.here.written) == 1


def test_markers_that_any_peer_may_forge_write_a_few_lines_and_a_sum(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(A)
    bench.has_coordinator_log(replicas=(HERE,))
    for _ in range(50):
        bench.here.tell(errors.TransactionCoordinatorFenced())
        bench.world.advance(RETRY_MS_MAX)
    bench.writer.lines.sum_up()
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == LINES_PER_KIND_MAX + 1
    assert lines[-1].startswith("40 more such lines were not logged one by one; the last: t-0")


def test_an_exception_about_one_transaction_is_logged_once_and_its_markers_are_sent_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(A)
    bench.here.tell(errors.NotLeaderOrFollower())
    with monkeypatch.context() as patch:
        patch.setattr(bench.writer, "destinations", lambda _: 1 / 0)
        bench.world.advance(10 * RETRY_MS_MAX)
    bench.world.advance(RETRY_MS_MAX)
    bench.here.tell()
    assert bench.reported == [DONE]
    assert [each.getMessage() for each in caplog.records if each.exc_info] == [
        "the markers of 'name': ZeroDivisionError('division by zero')"
    ]
