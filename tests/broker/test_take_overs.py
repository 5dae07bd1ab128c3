"""A take-over: the new owner gets its identity when every leader has revoked the former owner."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from txn_fakes import HERE, THERE, fake_broker

from penstock import errors
from penstock.broker.links.link_connection import LinkFailed
from penstock.broker.transactions.take_overs import RETRY_MS_MAX, WAIT_MS_MAX, TakeOvers
from penstock.coordinator.transactions.events import ProducerTakenOver
from penstock.model import TopicPartition
from penstock.wire.messages import k67_allocate_producer_ids as k67
from penstock.wire.messages import k10000_revoke_producer as k10000
from penstock.wire.structures import PartitionError, TopicErrors

PRODUCER_ID, EPOCH = 7, 3
OURS, THEIRS = TopicPartition("t", 0), TopicPartition("t", 1)
THIRD, NOBODY = 3, -1
IDS = 1_000


class FakeHere:
    """The partitions of this node, which it leads."""

    def __init__(self) -> None:
        self.revoked: list[TopicPartition] = []

    def revoke(
        self, _producer_id: int, _epoch: int, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, errors.KafkaError | None]:
        asked = list(topic_partitions)
        self.revoked += asked
        return dict.fromkeys(asked)


class FakeMetadata:
    """Keeps the requests to the controller until the test answers."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def submit(self, _message: Any, _version: int, done: Callable[[Any], None]) -> None:
        self.waiting.append(done)


class Coordinator:
    """A coordinator of a cluster of several brokers that has begun a take-over."""

    def __init__(self, brokers: int = 3) -> None:
        self.broker: SimpleNamespace = fake_broker()
        registered = {index + 1: SimpleNamespace(epoch=9) for index in range(brokers)}
        self.broker.image.brokers = registered
        self.broker.image.producer_ids = SimpleNamespace(next_producer_id=0)
        self.broker.metadata = self.metadata = FakeMetadata()
        self.lead(OURS, HERE)
        self.lead(THEIRS, THERE)
        self.here = FakeHere()
        self.take_overs = TakeOvers(self.broker, self.here)
        self.results: list[str | None] = []

    def lead(self, topic_partition: TopicPartition, leader: int) -> None:
        topics = self.broker.image.topics
        topic = topics.setdefault(topic_partition.topic, SimpleNamespace(partitions={}))
        topic.partitions[topic_partition.partition] = SimpleNamespace(leader=leader)

    def begin(self, *partitions: TopicPartition) -> None:
        self.take_overs.begin(ProducerTakenOver(PRODUCER_ID, EPOCH, partitions))
        self.take_overs.when_over(PRODUCER_ID, self._note)

    def _note(self, error: errors.KafkaError | None) -> None:
        self.results.append(None if error is None else error.kafka_name())

    def confirm_leaders(self) -> None:
        """Let the controller answer, and this node read the record."""
        response = k67.AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=IDS)
        self.metadata.waiting.pop(0)(response)
        self.broker.image.producer_ids.next_producer_id = IDS
        self.broker.world.advance(RETRY_MS_MAX)

    def answer(self, partition: TopicPartition, code: int = 0) -> None:
        result = PartitionError(partition_index=partition.partition, error_code=code)
        topic = TopicErrors(name=partition.topic, partitions=[result])
        self.broker.links.answer(k10000.RevokeProducerResponse(topics=[topic]))

    @property
    def asked(self) -> list[tuple[int, list[int]]]:
        """The leaders that were asked, with their partitions of the topic."""
        return [
            (leader, request.topics[0].partition_indexes)
            for leader, request in self.broker.links.sent
        ]


def test_a_sole_broker_revokes_at_once() -> None:
    coordinator = Coordinator(brokers=1)
    coordinator.begin(OURS)
    assert (coordinator.here.revoked, coordinator.results) == ([OURS], [None])


def test_no_leader_is_asked_before_the_image_is_confirmed() -> None:
    coordinator = Coordinator()
    coordinator.begin(OURS, THEIRS)
    assert (coordinator.here.revoked, coordinator.asked) == ([], [])


def test_no_leader_is_asked_before_this_node_has_read_the_confirmation() -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    response = k67.AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=IDS)
    coordinator.metadata.waiting.pop(0)(response)
    coordinator.broker.world.advance(RETRY_MS_MAX)
    assert coordinator.asked == []


def test_a_controller_that_fails_is_asked_again() -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    coordinator.metadata.waiting.pop(0)(errors.RequestTimedOut())
    coordinator.broker.world.advance(RETRY_MS_MAX)
    coordinator.confirm_leaders()
    assert coordinator.asked == [(THERE, [1])]


def test_the_new_owner_waits_for_every_leader() -> None:
    coordinator = Coordinator()
    coordinator.begin(OURS, THEIRS)
    coordinator.confirm_leaders()
    assert (coordinator.here.revoked, coordinator.results) == ([OURS], [])
    coordinator.answer(THEIRS)
    assert coordinator.results == [None]


@pytest.mark.parametrize(
    "answer",
    [
        LinkFailed("away", unsent=True),
        k10000.RevokeProducerResponse(
            topics=[
                TopicErrors(
                    name="t",
                    partitions=[
                        PartitionError(
                            partition_index=1, error_code=errors.NotLeaderOrFollower.code
                        )
                    ],
                )
            ]
        ),
    ],
    ids=["silent", "leads no more"],
)
def test_a_leader_that_has_not_revoked_is_asked_again(answer: Any) -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    coordinator.confirm_leaders()
    coordinator.broker.links.answer(answer)
    coordinator.broker.world.advance(RETRY_MS_MAX)
    assert (coordinator.asked, coordinator.results) == ([(THERE, [1]), (THERE, [1])], [])


def test_the_next_leader_is_asked_while_the_former_one_is_silent() -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    coordinator.confirm_leaders()
    coordinator.lead(THEIRS, THIRD)
    coordinator.broker.world.advance(RETRY_MS_MAX)
    assert coordinator.asked == [(THERE, [1]), (THIRD, [1])]


def test_a_partition_without_a_leader_is_waited_for() -> None:
    coordinator = Coordinator()
    coordinator.lead(THEIRS, NOBODY)
    coordinator.begin(THEIRS)
    coordinator.confirm_leaders()
    assert (coordinator.asked, coordinator.results) == ([], [])


def test_a_deleted_partition_is_not_waited_for() -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    del coordinator.broker.image.topics["t"]
    coordinator.confirm_leaders()
    assert coordinator.results == [None]


def test_an_owner_that_has_waited_for_long_comes_again() -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    coordinator.confirm_leaders()
    for _ in range(WAIT_MS_MAX // RETRY_MS_MAX + 2):
        coordinator.broker.world.advance(RETRY_MS_MAX)
    assert coordinator.results == ["CONCURRENT_TRANSACTIONS"]


def test_an_owner_with_a_successor_does_not_own() -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    coordinator.begin(THEIRS)
    assert coordinator.results == ["CONCURRENT_TRANSACTIONS"]


def test_a_leader_that_is_no_penstock_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    coordinator.begin(THEIRS)
    coordinator.confirm_leaders()
    coordinator.broker.links.answer(errors.UnsupportedVersion("not served"))
    assert coordinator.results == [None]
    assert "broker 2 does not know RevokeProducer" in caplog.text
