"""Transactions over the wire: commit, abort, fencing, older clients, offsets, and their tools."""

from collections.abc import Iterator

import pytest
from api_asking import (
    LONG_POLL_MS,
    Asker,
    asking,
    batch,
    fetch,
    fetch_request,
    fetch_topic,
    list_offset,
    new_topic,
    produce_request,
    topic_id,
    unused_name,
)
from txn_asking import (
    Txn,
    committed_offset,
    committed_values,
    found_group,
    producers,
    seen,
    stable_end,
)

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k24_add_partitions_to_txn as k24

pytest_plugins = ["api_fixtures"]

BOTH_KINDS = pytest.mark.parametrize("v2", [True, False], ids=["v2", "v1"])
LATEST = -1


@pytest.fixture
def other(penstock_cluster: Cluster) -> Iterator[Asker]:
    """A second connection."""
    with asking(penstock_cluster) as opened:
        yield opened


# ---- commit and abort


@BOTH_KINDS
def test_committed_records_are_seen_after_the_commit(asker: Asker, topic: str, v2: bool) -> None:
    txn = Txn(asker, v2=v2).begun()
    txn.write(topic, b"a", b"b")
    assert (committed_values(asker, topic), stable_end(asker, topic)) == ([], 0)
    assert seen(fetch(asker, topic, 0)) == [b"a", b"b"], "who does not ask for committed sees all"
    txn.ended(committed=True)
    assert committed_values(asker, topic) == [b"a", b"b"]
    assert stable_end(asker, topic) == 3, "a marker has an offset too"


@BOTH_KINDS
def test_aborted_records_are_named_in_the_answer(asker: Asker, topic: str, v2: bool) -> None:
    txn = Txn(asker, v2=v2).begun()
    txn.write(topic, b"a")
    producer_id = txn.producer_id
    txn.ended(committed=False)
    answer = fetch(asker, topic, 0, committed_only=True)
    aborted = answer.aborted_transactions
    assert [(each.producer_id, each.first_offset) for each in aborted or ()] == [(producer_id, 0)]
    assert seen(answer) == []


@BOTH_KINDS
def test_one_transaction_follows_another(asker: Asker, topic: str, v2: bool) -> None:
    txn = Txn(asker, v2=v2).begun()
    for number in range(4):
        txn.write(topic, b"%d" % number)
        txn.ended(committed=number % 2 == 0)
    assert committed_values(asker, topic) == [b"0", b"2"]


def test_transactions_v2_bump_the_epoch_with_every_end(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    answer = txn.end(committed=True)
    assert (answer.producer_id, answer.producer_epoch) == (txn.producer_id, txn.epoch + 1)
    [state] = producers(asker, topic)
    assert (state.producer_epoch, state.current_txn_start_offset) == (txn.epoch + 1, -1)


def test_an_older_client_keeps_its_epoch(asker: Asker, topic: str) -> None:
    txn = Txn(asker, v2=False).begun()
    txn.write(topic, b"a")
    txn.ended(committed=True)
    [state] = producers(asker, topic)
    assert state.producer_epoch == txn.epoch


def test_a_transaction_covers_all_its_partitions(asker: Asker, penstock_cluster: Cluster) -> None:
    topic = new_topic(penstock_cluster, 3)
    txn = Txn(asker).begun()
    records = [txn.records(topic, b"%d" % index, partition=index) for index in range(3)]
    answer = asker.ask(txn.request(topic, records), 12)
    assert [each.error_code for each in answer.responses[0].partition_responses] == [0, 0, 0]
    [reached] = txn.describe().topics
    assert (reached.topic, reached.partitions) == (topic, [0, 1, 2])
    txn.ended(committed=True)
    wanted = fetch_topic(topic, {0: 0, 1: 0, 2: 0})
    told = asker.ask(fetch_request(wanted, committed_only=True), 12)
    values = [seen(each) for each in told.responses[0].partitions]
    assert sorted(values) == [[b"0"], [b"1"], [b"2"]]


@pytest.mark.parametrize("version", [12, 13])
def test_every_version_of_produce_joins_by_itself(asker: Asker, topic: str, version: int) -> None:
    txn = Txn(asker).begun()
    assert txn.send(topic, txn.records(topic, b"a"), version=version) == 0
    assert txn.describe().transaction_state == "Ongoing"


def test_requests_that_follow_each_other_keep_their_order(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    for number in range(5):
        asker.send(txn.request(topic, [txn.records(topic, b"%d" % number)]), 12)
    codes = [asker.receive().responses[0].partition_responses[0].error_code for _ in range(5)]
    assert codes == [0] * 5
    txn.ended(committed=True)
    assert committed_values(asker, topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_records_without_a_transaction_go_beside_it(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    plain = txn.request(topic, [batch(b"plain")])
    assert asker.ask(plain, 12).responses[0].partition_responses[0].error_code == 0
    assert committed_values(asker, topic) == [], "they wait behind what is open"


def test_the_commit_of_nothing_is_refused_and_its_abort_is_not(asker: Asker) -> None:
    txn = Txn(asker).begun()
    assert txn.end(committed=True).error_code == errors.InvalidTxnState.code
    assert txn.end(committed=False).error_code == 0


def test_an_end_can_be_repeated_but_not_turned_round(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    first = txn.end(committed=True)
    txn.wait_for("CompleteCommit")
    again = txn.end(committed=True)
    assert (again.error_code, again.producer_epoch) == (0, first.producer_epoch)
    assert txn.end(committed=False).error_code == errors.InvalidTxnState.code


def test_an_empty_transactional_id_is_no_request(asker: Asker) -> None:
    nameless = Txn(asker)
    nameless.name = ""
    code = errors.InvalidRequest.code
    assert nameless.init().error_code == code
    assert nameless.end(committed=True).error_code == code
    assert nameless.describe().error_code == code


# ---- who may write


@BOTH_KINDS
def test_a_new_producer_fences_the_old_one(
    asker: Asker, other: Asker, topic: str, v2: bool
) -> None:
    old = Txn(asker, v2=v2).begun()
    new = Txn(other, v2=v2, name=old.name).begun()
    if v2:
        code = old.send(topic, old.records(topic, b"zombie"))
        assert code == errors.InvalidProducerEpoch.code
    assert old.add(topic, 0) == [errors.ProducerFenced.code]
    assert old.end(committed=True).error_code == errors.ProducerFenced.code
    new.write(topic, b"a")
    new.ended(committed=True)
    assert committed_values(asker, topic) == [b"a"]


@pytest.mark.parametrize("version", [0, 1])
def test_clients_that_do_not_know_fencing_hear_of_the_epoch(
    asker: Asker, other: Asker, topic: str, version: int
) -> None:
    old = Txn(asker, v2=False).begun()
    Txn(other, name=old.name).begun()
    code = errors.InvalidProducerEpoch.code
    assert old.add(topic, 0, version=version) == [code]
    assert old.add_offsets(unused_name("group"), version=version) == code
    assert old.end(committed=True, version=version).error_code == code
    expected = old.init(version=3, producer_id=old.producer_id, producer_epoch=old.epoch)
    assert expected.error_code == code


def test_an_open_transaction_is_aborted_for_the_new_producer(
    asker: Asker, other: Asker, topic: str
) -> None:
    old = Txn(asker).begun()
    old.write(topic, b"left open")
    new = Txn(other, name=old.name)
    assert new.init().error_code == errors.ConcurrentTransactions.code
    new.begun()
    assert new.epoch == old.epoch + 2
    assert committed_values(asker, topic) == []
    assert stable_end(asker, topic) == 2


def test_a_batch_that_comes_after_the_end_is_refused(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    late = txn.records(topic, b"late")
    txn.ended(committed=True)
    assert txn.send(topic, late) == errors.InvalidProducerEpoch.code
    assert stable_end(asker, topic) == 2


def test_a_late_end_does_not_end_the_next_transaction(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    first = txn.epoch
    txn.ended(committed=True)
    txn.write(topic, b"b")
    second, txn.epoch = txn.epoch, first
    assert txn.end(committed=False).error_code == errors.ProducerFenced.code
    txn.epoch = second
    assert txn.describe().transaction_state == "Ongoing"


def test_a_producer_that_nobody_knows_begins_with_sequence_0(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.sequences[topic, 0] = 3
    code = txn.send(topic, txn.records(topic, b"gap"))
    assert code == errors.OutOfOrderSequenceNumber.code
    assert stable_end(asker, topic) == 0


def test_transactional_records_need_a_transactional_id(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    code = errors.TransactionalIdAuthorizationFailed.code
    for _ in range(2):  # the second one meets a request whose beginning is known
        asker.ask(produce_request(topic, batch(b"plain")), 12)
        request = produce_request(topic, txn.records(topic, b"a"))
        answer = asker.ask(request, 12)
        assert answer.responses[0].partition_responses[0].error_code == code


def test_a_request_is_of_one_producer(asker: Asker, penstock_cluster: Cluster) -> None:
    topic = new_topic(penstock_cluster, 2)
    txn = Txn(asker).begun()
    records = [
        batch(b"a", producer=(txn.producer_id, txn.epoch, 0), transactional=True),
        batch(b"b", producer=(txn.producer_id + 1, 0, 0), transactional=True),
    ]
    answer = asker.ask(txn.request(topic, records), 12)
    codes = {each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {errors.InvalidProducerIdMapping.code}


def test_another_producer_id_does_not_belong_to_the_transaction(asker: Asker, topic: str) -> None:
    txn = Txn(asker).begun()
    txn.producer_id += 1_000_000
    code = txn.send(topic, txn.records(topic, b"a"))
    assert code == errors.InvalidProducerIdMapping.code


def test_internal_topics_are_written_by_coordinators_alone(asker: Asker) -> None:
    Txn(asker).begun()
    for version in (9, 13):
        name = "__transaction_state"
        wanted = topic_id(asker, name) if version >= 13 else name
        answer = asker.ask(produce_request(wanted, batch(b"a", key=b"k")), version)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == errors.InvalidTopic.code


# ---- older clients are verified


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, errors.InvalidTxnState), (10, errors.InvalidTxnState), (11, errors.TransactionAbortable)],
)
def test_an_older_client_must_have_added_the_partition(
    asker: Asker, topic: str, version: int, error: type[errors.KafkaError]
) -> None:
    txn = Txn(asker, v2=False).begun()
    assert txn.send(topic, txn.records(topic, b"a"), version=version) == error.code
    assert stable_end(asker, topic) == 0


def test_a_later_batch_does_not_overtake_one_that_was_refused(asker: Asker, topic: str) -> None:
    """The refused one comes again, and would be out of order for ever (KIP-890)."""
    txn = Txn(asker, v2=False).begun()
    first, second = txn.records(topic, b"a"), txn.records(topic, b"b")
    assert txn.send(topic, first, version=11) == errors.TransactionAbortable.code
    assert txn.add(topic, 0) == [0]
    assert txn.send(topic, second, version=11) == errors.OutOfOrderSequenceNumber.code
    assert txn.send(topic, first, version=11) == 0
    assert txn.send(topic, second, version=11) == 0


def test_an_older_client_cannot_write_after_the_end(asker: Asker, topic: str) -> None:
    txn = Txn(asker, v2=False).begun()
    txn.write(topic, b"a")
    late = txn.records(topic, b"late")
    txn.ended(committed=True)
    assert txn.send(topic, late) == errors.InvalidTxnState.code
    assert stable_end(asker, topic) == 2


def test_verification_can_be_switched_off() -> None:
    with Cluster({"transaction.partition.verification.enable": False}) as cluster:
        topic = new_topic(cluster)
        with asking(cluster) as asker:
            txn = Txn(asker, v2=False).begun()
            assert txn.send(topic, txn.records(topic, b"a")) == 0


def test_a_partition_that_does_not_exist_refuses_the_whole_transaction(
    asker: Asker, topic: str
) -> None:
    txn = Txn(asker, v2=False).begun()
    assert txn.add(topic, 0, 7) == [
        errors.OperationNotAttempted.code,
        errors.UnknownTopicOrPartition.code,
    ]
    assert txn.add("__consumer_offsets", 0) == [errors.TopicAuthorizationFailed.code]
    assert txn.describe().transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_leaders_ask_for_many_transactions_at_once(asker: Asker, topic: str, version: int) -> None:
    known, unknown = Txn(asker).begun(), Txn(asker)
    known.write(topic, b"a")
    wanted = [
        k24.AddPartitionsToTxnTransaction(
            transactional_id=txn.name,
            producer_id=txn.producer_id,
            producer_epoch=txn.epoch,
            verify_only=True,
            topics=[k24.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        for txn in (known, unknown)
    ]
    answer = asker.ask(k24.AddPartitionsToTxnRequest(transactions=wanted), version)
    codes = {
        each.transactional_id: each.topic_results[0].results_by_partition[0].partition_error_code
        for each in answer.results_by_transaction
    }
    assert codes == {known.name: 0, unknown.name: errors.InvalidProducerIdMapping.code}


# ---- time


def test_a_transaction_ends_with_its_timeout(asker: Asker, topic: str) -> None:
    txn = Txn(asker, timeout_ms=100).begun()
    txn.write(topic, b"a")
    answer = fetch(asker, topic, 0, committed_only=True, wait_ms=LONG_POLL_MS)
    assert answer.last_stable_offset == 2, "the abort's marker is what ends the long poll"
    assert seen(answer) == []
    txn.wait_for("CompleteAbort")
    assert txn.send(topic, txn.records(topic, b"b")) == errors.InvalidProducerEpoch.code


def test_a_timeout_beyond_the_limit_is_refused(asker: Asker) -> None:
    txn = Txn(asker, timeout_ms=900_001)
    assert txn.init().error_code == errors.InvalidTransactionTimeout.code


# ---- two-phase commit


def test_a_prepared_transaction_is_ended_by_its_new_owner(
    asker: Asker, other: Asker, topic: str
) -> None:
    old = Txn(asker, timeout_ms=100).begun(version=6, enable_2pc=True)
    old.write(topic, b"a")
    new = Txn(other, name=old.name)
    answer = new.init(version=6, enable_2pc=True, keep_prepared_txn=True)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (
        old.producer_id,
        old.epoch,
    )
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert old.end(committed=False).error_code == errors.ProducerFenced.code
    new.ended(committed=True)
    assert committed_values(asker, topic) == [b"a"]


def kept(asker: Asker, other: Asker, topic: str, group: str) -> tuple[Txn, Txn]:
    """A producer that wrote a record and an offset, and the owner that took both over."""
    old = Txn(asker).begun(version=6, enable_2pc=True)
    old.write(topic, b"a")
    assert old.commit_offset(group, topic, 7, version=5) == 0
    new = Txn(other, name=old.name)
    assert new.init(version=6, enable_2pc=True, keep_prepared_txn=True).error_code == 0
    return old, new


@pytest.mark.parametrize("version", [11, 12])
def test_a_former_owner_writes_nothing_into_what_was_kept(
    asker: Asker, other: Asker, topic: str, version: int
) -> None:
    old, new = kept(asker, other, topic, found_group(asker))
    code = old.send(topic, old.records(topic, b"zombie"), version=version)
    assert code == errors.InvalidProducerEpoch.code
    new.ended(committed=True)
    assert committed_values(asker, topic) == [b"a"]


@pytest.mark.parametrize("version", [4, 5])
def test_a_former_owner_commits_no_offset_into_what_was_kept(
    asker: Asker, other: Asker, topic: str, version: int
) -> None:
    group = found_group(asker)
    old, new = kept(asker, other, topic, group)
    code = old.commit_offset(group, topic, 999, version=version)
    assert code == errors.InvalidProducerEpoch.code
    new.ended(committed=True)
    assert committed_offset(asker, group, topic) == 7


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_kept_is_closed_to_its_former_owner_after_a_restart_too(how: str) -> None:
    """From the first request that the node takes: an answer may only be "not yet" before."""
    refusals = (errors.InvalidProducerEpoch.code, errors.NotEnoughReplicas.code)
    with Cluster() as cluster:
        topic = new_topic(cluster)
        with asking(cluster) as asker, asking(cluster) as other:
            group = found_group(asker)
            old, new = kept(asker, other, topic, group)
        getattr(cluster, how)()
        cluster.start()
        with asking(cluster) as asker:
            old.asker = new.asker = asker
            assert old.send(topic, old.records(topic, b"zombie")) in refusals
            assert old.commit_offset(group, topic, 999, version=5) != 0
            new.wait_for("Ongoing")
            assert old.send(topic, old.records(topic, b"zombie")) == refusals[0]
            new.ended(committed=True)
            assert committed_values(asker, topic) == [b"a"]
            assert committed_offset(asker, group, topic) == 7


def test_an_ordinary_producer_speaks_the_version_of_two_phase_commit(
    asker: Asker, topic: str
) -> None:
    txn = Txn(asker).begun(version=6)
    txn.write(topic, b"a")
    txn.ended(committed=True)
    assert txn.describe().transaction_timeout_ms == 60_000


def test_two_phase_commit_can_be_switched_off() -> None:
    with Cluster({"transaction.two.phase.commit.enable": False}) as cluster:
        topic = new_topic(cluster)
        with asking(cluster) as asker:
            txn = Txn(asker).begun()
            txn.write(topic, b"a")
            answer = txn.init(version=6, enable_2pc=True)
            assert answer.error_code == errors.TransactionalIdAuthorizationFailed.code
            assert txn.describe().transaction_state == "Ongoing"


# ---- what may happen meanwhile


def test_a_topic_that_was_deleted_does_not_hold_the_transaction_up(
    asker: Asker, penstock_cluster: Cluster, topic: str
) -> None:
    doomed = new_topic(penstock_cluster)
    txn = Txn(asker).begun()
    txn.write(topic, b"a")
    txn.write(doomed, b"b")
    asker.ask(k20.DeleteTopicsRequest(topic_names=[doomed], timeout_ms=10_000), 5)
    txn.ended(committed=True)
    assert committed_values(asker, topic) == [b"a"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_open_transaction_survives_a_restart(how: str) -> None:
    with Cluster() as cluster:
        topic = new_topic(cluster)
        with asking(cluster) as asker:
            txn = Txn(asker).begun()
            txn.write(topic, b"a")
        getattr(cluster, how)()
        cluster.start()
        with asking(cluster) as asker:
            txn.asker = asker
            txn.wait_for("Ongoing")
            assert stable_end(asker, topic) == 0
            txn.write(topic, b"b")
            txn.ended(committed=True)
            assert committed_values(asker, topic) == [b"a", b"b"]


def test_a_timeout_survives_a_restart() -> None:
    with Cluster() as cluster:
        topic = new_topic(cluster)
        with asking(cluster) as asker:
            txn = Txn(asker, timeout_ms=1_000).begun()
            txn.write(topic, b"a")
        cluster.stop()
        cluster.start()
        with asking(cluster) as asker:
            answer = fetch(asker, topic, 0, committed_only=True, wait_ms=LONG_POLL_MS)
            assert answer.last_stable_offset == 2


@BOTH_KINDS
def test_where_every_write_waits_for_the_disk_all_of_it_works_too(v2: bool) -> None:
    """The coordinator answers a turn later: batches wait, and markers take their time."""
    with Cluster({"log.durability": "fsync"}) as cluster:
        topic = new_topic(cluster)
        with asking(cluster) as asker:
            group, txn = found_group(asker), Txn(asker, v2=v2).begun()
            for number in range(5):
                if not v2:
                    assert txn.add(topic, 0) == [0]
                    assert txn.add_offsets(group) == 0
                for each in (b"a", b"b", b"c"):
                    records = txn.records(topic, b"%d%s" % (number, each))
                    asker.send(txn.request(topic, [records]), 12 if v2 else 9)
                codes = [
                    asker.receive().responses[0].partition_responses[0].error_code for _ in range(3)
                ]
                assert codes == [0, 0, 0]
                assert txn.commit_offset(group, topic, number, version=5 if v2 else 3) == 0
                answer = txn.end(committed=True)
                assert answer.error_code == 0
                if v2:  # the markers are on their way: whoever writes now waits for them
                    txn.epoch = answer.producer_epoch
                    txn.sequences.clear()
                else:
                    txn.wait_for("CompleteCommit")
            txn.wait_for("CompleteCommit")
            expected = [b"%d%s" % (n, each) for n in range(5) for each in (b"a", b"b", b"c")]
            assert committed_values(asker, topic) == expected
            assert committed_offset(asker, group, topic) == 4
            assert list_offset(asker, topic, LATEST).offset == 20
