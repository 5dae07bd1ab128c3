"""Fetches from one leader: sessions, named and forgotten partitions, answers."""

from replica_driver import StoredRecords, answer, batch

from penstock.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    UnknownTopicOrPartition,
)
from penstock.replication.fetcher import FetcherSettings, ReplicaFetcher
from penstock.replication.follower import BACKOFF_MS, PartitionFollower
from penstock.replication.follower_steps import Append, WaitUntil
from penstock.wire.codec import read, write
from penstock.wire.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOPICS = (b"topic-one-------", b"topic-two-------")
NOW = 1000.0


class FetchingNode:
    """Node 2, which follows partitions of node 1."""

    def __init__(self, count: int = 3) -> None:
        self.now = NOW
        self.fetcher = ReplicaFetcher(1, FetcherSettings(replica_id=2), broker_epoch=7)
        self.logs = [StoredRecords((4, 0), end=10 * each) for each in range(1, count + 1)]
        self.followers = [
            PartitionFollower(TOPICS[each % 2], each, log, 1, 5)
            for each, log in enumerate(self.logs)
        ]
        for follower in self.followers:
            self.fetcher.add(follower)

    def ask(self) -> FetchRequest:
        request = self.fetcher.next_request(self.now)
        assert request is not None
        return request

    def take(
        self, *parts: PartitionData, session: int = 9, error: int = 0, throttle: int = 0
    ) -> list[object]:
        """Return the steps of an answer with these partitions."""
        topics = [
            FetchableTopicResponse(topic_id=TOPICS[part.partition_index % 2], partitions=[part])
            for part in parts
        ]
        response = FetchResponse(
            throttle_time_ms=throttle, error_code=error, session_id=session, responses=topics
        )
        return [step for _, step in self.fetcher.answered(response, self.now)]

    def open_session(self) -> None:
        """Have the session of all partitions opened by an answer without news."""
        self.ask()
        self.take(*(answer(partition=each) for each in range(len(self.logs))))

    def store(self, index: int, *batches: bytes) -> None:
        """Let an answer bring batches of one partition, and append them."""
        (step,) = self.take(answer(*batches, partition=index))
        assert isinstance(step, Append)
        self.logs[index].append(step.records)
        self.followers[index].finished()


def named(request: FetchRequest) -> list[tuple[int, int]]:
    """Return the partitions that a request names, with their offsets."""
    return [(each.partition, each.fetch_offset) for t in request.topics for each in t.partitions]


def forgotten(request: FetchRequest) -> list[int]:
    return [each for topic in request.forgotten_topics_data for each in topic.partitions]


# Requests


def test_the_first_request_names_all_partitions_and_asks_for_a_session() -> None:
    request = FetchingNode().ask()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert sorted(named(request)) == [(0, 10), (1, 20), (2, 30)]


def test_a_request_names_the_replica_with_its_broker_epoch() -> None:
    request = FetchingNode().ask()
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 7)


def test_a_request_names_epochs_and_the_log_start() -> None:
    node = FetchingNode(1)
    node.logs[0].start_offset = 3
    question = node.ask().topics[0].partitions[0]
    assert (question.current_leader_epoch, question.last_fetched_epoch) == (5, 4)
    assert question.log_start_offset == 3


def test_a_topic_is_named_once_with_all_its_partitions() -> None:
    request = FetchingNode().ask()
    assert [topic.topic_id for topic in request.topics] == [TOPICS[0], TOPICS[1]]


def test_a_request_passes_the_codec() -> None:
    request = FetchingNode().ask()
    again = read(FetchRequest, 17, write(request, 17))
    assert named(again) == named(request)
    assert again.replica_state == request.replica_state


def test_one_request_is_in_flight() -> None:
    node = FetchingNode()
    node.ask()
    assert node.fetcher.next_request(node.now) is None


def test_a_session_names_only_what_has_changed() -> None:
    node = FetchingNode()
    node.open_session()
    request = node.ask()
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert named(request) == []
    node.store(1, batch(20, 5))
    request = node.ask()
    assert (request.session_id, request.session_epoch) == (9, 2)
    assert named(request) == [(1, 21)]


def test_a_moved_log_start_is_named() -> None:
    node = FetchingNode()
    node.open_session()
    node.logs[2].start_offset = 4
    node.fetcher.changed(node.followers[2])
    assert named(node.ask()) == [(2, 30)]


def test_another_leader_epoch_is_named() -> None:
    node = FetchingNode()
    node.open_session()
    node.followers[0].follow(1, 6)
    node.fetcher.changed(node.followers[0])
    (topic,) = node.ask().topics
    assert topic.partitions[0].current_leader_epoch == 6


def test_a_new_partition_is_named() -> None:
    node = FetchingNode()
    node.open_session()
    node.fetcher.add(PartitionFollower(TOPICS[0], 8, StoredRecords((4, 0), end=80), 1, 5))
    assert named(node.ask()) == [(8, 80)]


def test_a_removed_partition_is_forgotten() -> None:
    node = FetchingNode()
    node.open_session()
    assert node.fetcher.remove(TOPICS[1], 1) is node.followers[1]
    assert forgotten(node.ask()) == [1]


def test_a_removed_partition_is_forgotten_once() -> None:
    node = FetchingNode()
    node.open_session()
    node.fetcher.remove(TOPICS[1], 1)
    node.ask()
    node.take()
    assert forgotten(node.ask()) == []


def test_a_partition_that_returns_is_named_and_not_forgotten() -> None:
    node = FetchingNode()
    node.open_session()
    node.fetcher.remove(TOPICS[1], 1)
    node.fetcher.add(node.followers[1])
    request = node.ask()
    assert (named(request), forgotten(request)) == ([(1, 20)], [])


def test_a_busy_partition_is_forgotten_until_it_is_finished() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    node.take(answer(batch(20, 5), partition=1))
    request = node.ask()
    assert (named(request), forgotten(request)) == ([], [1])
    node.take()
    node.logs[1].append(memoryview(batch(20, 5)))
    node.followers[1].finished()
    node.fetcher.changed(node.followers[1])
    assert named(node.ask()) == [(1, 21)]


def test_a_delayed_partition_comes_back_by_itself() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    (step,) = node.take(answer(error=UnknownTopicOrPartition.code, partition=1))
    assert isinstance(step, WaitUntil)
    assert forgotten(node.ask()) == [1]
    node.take()
    assert node.fetcher.next_look_ms() == NOW + BACKOFF_MS
    node.now += BACKOFF_MS
    assert named(node.ask()) == [(1, 20)]


def test_without_partitions_there_is_no_request() -> None:
    fetcher = ReplicaFetcher(1, FetcherSettings(replica_id=2), broker_epoch=7)
    assert fetcher.next_request(NOW) is None


def test_the_last_partition_is_forgotten_and_then_nothing_is_asked() -> None:
    node = FetchingNode(1)
    node.open_session()
    node.fetcher.remove(TOPICS[0], 0)
    assert forgotten(node.ask()) == [0]
    node.take()
    assert node.fetcher.next_request(node.now) is None


def test_partitions_that_sent_records_go_behind_the_others() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    node.store(0, batch(10, 5))
    assert [each.partition for each in node.fetcher.followers] == [1, 2, 0]


# Answers


def test_an_answer_becomes_a_step_for_each_partition() -> None:
    node = FetchingNode()
    node.ask()
    steps = node.take(
        answer(batch(10, 5), partition=0),
        answer(partition=1),
        answer(error=UnknownTopicOrPartition.code, partition=2),
    )
    assert [type(step) for step in steps] == [Append, Append, WaitUntil]


def test_an_answer_in_flight_does_not_concern_a_partition_that_returns() -> None:
    node = FetchingNode()
    node.ask()
    node.fetcher.remove(TOPICS[0], 0)
    node.fetcher.add(node.followers[0])
    steps = node.take(answer(batch(10, 5), partition=0), answer(partition=1), answer(partition=2))
    assert len(steps) == 2
    assert named(node.ask()) == [(0, 10)]


def test_an_answer_in_flight_does_not_concern_another_leader_epoch() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    node.followers[0].follow(1, 6)
    node.fetcher.changed(node.followers[0])
    assert node.take(answer(batch(10, 5), partition=0)) == []
    assert named(node.ask()) == [(0, 10)]


def test_an_answer_without_a_session_asks_for_one_again() -> None:
    node = FetchingNode(1)
    node.ask()
    assert len(node.take(answer(), session=0)) == 1
    request = node.ask()
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, [(0, 10)])


def test_a_lost_session_is_opened_again_at_once() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    assert node.take(error=FetchSessionIdNotFound.code) == []
    request = node.ask()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert len(named(request)) == 3


def test_a_session_with_another_epoch_is_ended_by_the_next_one() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    node.take(error=InvalidFetchSessionEpoch.code)
    request = node.ask()
    assert (request.session_id, request.session_epoch) == (9, 0)


def test_a_new_registration_is_named_for_all_partitions() -> None:
    node = FetchingNode()
    node.open_session()
    node.fetcher.registered(8)
    request = node.ask()
    assert (request.replica_state.replica_epoch, len(named(request))) == (8, 3)


def test_any_other_error_delays_the_next_request() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    node.take(error=FetchSessionTopicIdError.code)
    assert node.fetcher.next_request(node.now) is None
    node.now += BACKOFF_MS
    assert len(named(node.ask())) == 3


def test_a_failed_request_delays_the_next_one_which_is_full() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    node.fetcher.failed(node.now)
    assert node.fetcher.next_request(node.now) is None
    node.now += BACKOFF_MS
    request = node.ask()
    assert (request.session_id, request.session_epoch) == (9, 0)
    assert len(named(request)) == 3


def test_a_full_answer_that_lacks_a_partition_does_not_count() -> None:
    node = FetchingNode()
    node.ask()
    assert node.take(answer(batch(10, 5), partition=0)) == []
    assert node.ask().session_id == 0


def test_an_answer_with_a_partition_outside_the_session_does_not_count() -> None:
    node = FetchingNode()
    node.open_session()
    node.ask()
    assert node.take(answer(batch(10, 5), partition=0), answer(partition=77)) == []
    request = node.ask()
    assert (request.session_id, request.session_epoch) == (9, 0)


def test_a_throttled_full_answer_is_waited_out() -> None:
    node = FetchingNode()
    node.ask()
    assert node.take(session=0, throttle=50) == []
    assert node.fetcher.next_request(node.now) is None
    node.now += 50
    assert len(named(node.ask())) == 3
