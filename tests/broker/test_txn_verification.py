"""Joins: what waits for a transaction's coordinator, in which order, and what it is told."""

from types import SimpleNamespace
from typing import Any

import pytest
from txn_fakes import FakePartition, FakeTarget, fake_broker, transactional

from penstock import errors
from penstock.broker.partitions import verified_producers
from penstock.broker.transactions import txn_verification
from penstock.broker.transactions.txn_verification import TxnVerification
from penstock.coordinator.transactions.events import AddPartitions, VerifyPartitions

PRODUCER = (7, 3)
V2, V1, V1_NEWER = 12, 9, 11


class Bench:
    """One producer and its partitions."""

    def __init__(self, **settings: Any) -> None:
        self.broker: SimpleNamespace = fake_broker(**settings)
        self.verification = TxnVerification(self.broker)
        self.partitions = [FakePartition("t", index) for index in range(2)]
        self.target = FakeTarget()
        self.buffers: list[memoryview] = []

    def produce(
        self, sequence: int, *, version: int = V2, to: tuple[int, ...] = (0,), epoch: int = 3
    ) -> None:
        arrived = []
        for index in to:
            records, header = transactional(PRODUCER[0], epoch, sequence)
            self.buffers.append(records)
            arrived.append((self.partitions[index], records, header, (self.target, None, None, 0)))
        self.verification.produce("name", version, arrived)  # type: ignore[arg-type]

    def answer(self, result: Any = None) -> Any:
        return self.broker.runtime.answer(result)

    @property
    def asked(self) -> int:
        return len(self.broker.runtime.asked)

    @property
    def refused(self) -> list[str]:
        return [each.kafka_name() for each in self.target.errors]


def test_the_first_batch_waits_until_its_partition_is_added() -> None:
    bench = Bench()
    bench.produce(0)
    assert bench.partitions[0].batches == []
    event = bench.answer()
    assert event == AddPartitions("name", *PRODUCER, (bench.partitions[0].place,), True)
    assert (bench.partitions[0].sequences, bench.partitions[0].touched) == ([0], True)


def test_batches_that_come_meanwhile_wait_behind_it() -> None:
    bench = Bench()
    for sequence in range(4):
        bench.produce(sequence)
    assert bench.asked == 1
    bench.answer()
    assert bench.partitions[0].sequences == [0, 1, 2, 3]
    assert bench.partitions[0].pending_verifications == {}


def test_what_waits_is_a_copy() -> None:
    bench = Bench()
    bench.produce(0)
    whole = bytes(bench.buffers[0])
    bench.buffers[0][:] = bytes(len(whole))  # the connection reads on
    bench.answer()
    assert bytes(bench.partitions[0].batches[0][0]) == whole


def test_an_answer_that_comes_at_once_copies_nothing() -> None:
    bench = Bench()
    bench.broker.runtime.at_once = [None]
    bench.produce(0)
    assert bench.partitions[0].batches[0][0] is bench.buffers[0]


def test_all_partitions_of_a_request_are_added_by_one_question() -> None:
    bench = Bench()
    bench.produce(0, to=(0, 1))
    assert len(bench.answer().partitions) == 2
    assert [each.sequences for each in bench.partitions] == [[0], [0]]


def test_an_open_transaction_is_not_asked_about() -> None:
    bench = Bench()
    bench.partitions[0].open.add(PRODUCER)
    bench.produce(5)
    assert (bench.asked, bench.partitions[0].sequences) == (0, [5])


def test_an_open_transaction_of_another_epoch_is() -> None:
    bench = Bench()
    bench.partitions[0].open.add(PRODUCER)
    bench.produce(0, epoch=4)
    assert bench.asked == 1


def test_a_refusal_is_for_everything_that_waits() -> None:
    bench = Bench()
    bench.produce(0)
    bench.produce(1)
    bench.answer(errors.ProducerFenced("somebody else"))
    assert bench.refused == ["INVALID_PRODUCER_EPOCH"] * 2
    assert bench.partitions[0].batches == []


def test_an_answer_to_an_earlier_leadership_lets_no_batch_in() -> None:
    bench = Bench()
    bench.produce(0)
    bench.partitions[0].leader.epoch += 2  # another node has led meanwhile
    bench.answer()
    assert bench.refused == ["NOT_LEADER_OR_FOLLOWER"]
    assert bench.partitions[0].batches == []


def test_a_question_of_an_earlier_leadership_vouches_for_no_later_batch() -> None:
    bench = Bench()
    bench.produce(0)
    bench.partitions[0].leader.epoch += 2
    bench.produce(1)
    bench.answer()
    assert bench.refused == ["NOT_LEADER_OR_FOLLOWER"] * 2


def test_producers_of_transactions_v2_must_begin_with_sequence_0() -> None:
    bench = Bench()
    bench.produce(0)
    bench.answer()
    assert bench.partitions[0].start_at_zero == (PRODUCER[0],)


def test_older_producers_may_begin_anywhere() -> None:
    bench = Bench()
    bench.produce(0, version=V1)
    bench.answer({bench.partitions[0].place: None})
    assert bench.partitions[0].start_at_zero == ()
    assert bench.partitions[0].sequences == [0]


def test_older_clients_are_verified() -> None:
    bench = Bench()
    bench.produce(0, version=V1)
    event = bench.answer({bench.partitions[0].place: errors.TransactionAbortable()})
    assert event == VerifyPartitions("name", *PRODUCER, (bench.partitions[0].place,))
    assert bench.refused == ["INVALID_TXN_STATE"]


def test_each_partition_is_verified_for_itself() -> None:
    bench = Bench()
    bench.produce(0, version=V1_NEWER, to=(0, 1))
    first, second = bench.partitions
    bench.answer({first.place: None, second.place: errors.TransactionAbortable()})
    assert (first.sequences, second.sequences) == ([0], [])
    assert bench.refused == ["TRANSACTION_ABORTABLE"]


def test_without_verification_older_clients_are_not_asked_about() -> None:
    bench = Bench(**{"transaction.partition.verification.enable": False})
    bench.produce(0, version=V1)
    assert (bench.asked, bench.partitions[0].sequences) == (0, [0])


def test_transactions_v2_are_asked_about_even_so() -> None:
    bench = Bench(**{"transaction.partition.verification.enable": False})
    bench.produce(0)
    assert bench.asked == 1


@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (errors.ConcurrentTransactions, V1, "NOT_ENOUGH_REPLICAS"),
        (errors.CoordinatorLoadInProgress, V1, "NOT_ENOUGH_REPLICAS"),
        (errors.CoordinatorLoadInProgress, V2, "NOT_ENOUGH_REPLICAS"),
        (errors.CoordinatorNotAvailable, V2, "NOT_ENOUGH_REPLICAS"),
        (errors.NotCoordinator, V2, "NOT_ENOUGH_REPLICAS"),
        (errors.ProducerFenced, V1, "INVALID_PRODUCER_EPOCH"),
        (errors.InvalidProducerIdMapping, V1, "INVALID_PRODUCER_ID_MAPPING"),
        (errors.InvalidTxnState, V2, "INVALID_TXN_STATE"),
        (errors.TransactionAbortable, 10, "INVALID_TXN_STATE"),
        (errors.TransactionAbortable, 11, "TRANSACTION_ABORTABLE"),
    ],
)
def test_errors_are_told_in_words_that_the_client_knows(
    error: type[errors.KafkaError], version: int, told: str
) -> None:
    bench = Bench()
    bench.produce(0, version=version)
    bench.answer(error("why"))
    assert bench.refused == [told]


def test_while_the_transaction_before_is_ending_the_leader_asks_again() -> None:
    bench = Bench()
    bench.produce(0)
    bench.answer(errors.ConcurrentTransactions())
    assert (bench.asked, bench.refused) == (0, [])
    bench.broker.world.advance(20)
    assert bench.asked == 1
    bench.answer()
    assert bench.partitions[0].sequences == [0]


def test_the_leader_does_not_ask_for_ever() -> None:
    bench = Bench()
    bench.produce(0)
    for _ in range(6):
        if bench.asked:
            bench.answer(errors.ConcurrentTransactions())
        bench.broker.world.advance(20)
    assert bench.refused == ["CONCURRENT_TRANSACTIONS"]
    assert bench.asked == 0


def test_after_a_stop_nobody_is_asked() -> None:
    bench = Bench()
    bench.produce(0)
    bench.answer(errors.ConcurrentTransactions())
    bench.verification.stop()
    bench.broker.world.advance(1_000)
    assert bench.asked == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [("gone", "UNKNOWN_TOPIC_OR_PARTITION"), ("leading", "NOT_LEADER_OR_FOLLOWER")],
)
def test_a_partition_that_is_led_by_nobody_here_takes_nothing(change: str, code: str) -> None:
    bench = Bench()
    bench.produce(0)
    setattr(bench.partitions[0], change, change == "gone")
    bench.answer()
    assert bench.refused == [code]
    assert bench.partitions[0].batches == []


def test_a_marker_that_comes_meanwhile_refuses_what_an_older_client_sent() -> None:
    """Verified, but too late: it would open a transaction that nobody ends."""
    bench = Bench()
    bench.produce(0, version=V1)
    bench.partitions[0].pending_verifications[PRODUCER].ended = True
    bench.answer({bench.partitions[0].place: None})
    assert bench.refused == ["INVALID_TXN_STATE"]


# ---- what was refused comes again


def test_a_later_batch_does_not_overtake_what_was_refused() -> None:
    bench = Bench()
    bench.produce(0, version=V1)
    bench.answer(errors.CoordinatorLoadInProgress())
    bench.produce(7, version=V1)
    bench.answer({bench.partitions[0].place: None})
    assert bench.refused == ["NOT_ENOUGH_REPLICAS", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert bench.partitions[0].sequences == []


def test_what_was_refused_begins_and_the_others_follow() -> None:
    bench = Bench()
    bench.produce(0, version=V1)
    bench.answer(errors.CoordinatorLoadInProgress())
    for sequence in (1, 0, 1):
        bench.produce(sequence, version=V1)
    bench.answer({bench.partitions[0].place: None})
    assert bench.partitions[0].sequences == [0, 1]
    bench.produce(2, version=V1)  # the log does not know the producer before the turn ends
    bench.answer({bench.partitions[0].place: None})
    assert bench.partitions[0].sequences == [0, 1, 2]


def test_where_the_log_knows_the_producer_its_sequences_count() -> None:
    bench = Bench()
    bench.partitions[0].known.add(PRODUCER[0])
    bench.produce(0, version=V1)
    bench.answer(errors.CoordinatorLoadInProgress())
    bench.produce(7, version=V1)
    bench.answer({bench.partitions[0].place: None})
    assert bench.partitions[0].sequences == [7]


def test_another_epoch_begins_anew() -> None:
    bench = Bench()
    bench.produce(0, version=V1)
    bench.answer(errors.CoordinatorLoadInProgress())
    bench.produce(7, version=V1, epoch=4)
    bench.answer({bench.partitions[0].place: None})
    assert bench.partitions[0].sequences == [7]


def test_the_producers_that_were_refused_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_producers, "REJECTED_MAX", 2)
    known = verified_producers.VerifiedProducers()
    for producer_id in range(5):
        known.note_sequence(producer_id, 0, 0)
    assert list(known.lowest) == [3, 4]


# ---- whom the coordinator vouches for


def test_a_producer_that_was_let_in_is_vouched_for() -> None:
    bench = Bench()
    bench.produce(0)
    bench.answer()
    assert bench.partitions[0].verified_producers.vouched == {PRODUCER[0]: PRODUCER[1]}


def test_a_producer_that_was_refused_is_not() -> None:
    bench = Bench()
    bench.produce(0)
    bench.answer(errors.ProducerFenced())
    assert bench.partitions[0].verified_producers.vouched == {}


def test_what_waits_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.produce(0)
    monkeypatch.setattr(txn_verification, "WAITING_BYTES_MAX", 2 * len(bench.buffers[0]))
    bench.produce(1)
    bench.produce(2)
    assert bench.refused == ["NOT_ENOUGH_REPLICAS"]
    bench.answer()
    assert bench.partitions[0].sequences == [0, 1]
    bench.produce(3)
    bench.produce(4)
    assert bench.refused == ["NOT_ENOUGH_REPLICAS"], "what was let in does not count any more"
