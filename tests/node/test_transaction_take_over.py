"""Two-phase commit on three simulated nodes: a former owner writes nothing after a take-over."""

from collections.abc import Callable
from typing import Any

import pytest
from replicated_topic import REPLICATED, ReplicatedTopic, call, values_in

from penstock import errors
from penstock.coordinator.partitions import partition_for
from penstock.model import TRANSACTION_STATE_TOPIC
from penstock.testing.sim.client import FETCH, PRODUCE
from penstock.testing.sim.cluster import SimCluster
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k26_end_txn as k26

SEED = 11
FIND_COORDINATOR, FIND_VERSION = 10, 4
INIT_PRODUCER_ID, INIT_VERSION = 22, 6
END_TXN, END_VERSION = 26, 5
PRODUCE_VERSION, FETCH_VERSION = 13, 13
TRANSACTION_KEY, READ_COMMITTED = 1, 1
PARTITIONS = 3
TIMEOUT_MS, RETRY_MS, FETCH_WAIT_MS = 60_000, 50, 500
PASSING = {
    errors.CoordinatorNotAvailable.code,
    errors.CoordinatorLoadInProgress.code,
    errors.NotCoordinator.code,
    errors.ConcurrentTransactions.code,
}


@pytest.fixture
def topic() -> ReplicatedTopic:
    settings = REPLICATED | {"transaction.state.log.num.partitions": str(PARTITIONS)}
    cluster = SimCluster(SEED, settings=settings)
    cluster.start()
    made = ReplicatedTopic(cluster, min_insync_replicas="2")
    _ask(made, 1, FIND_COORDINATOR, FIND_VERSION, _wanted("any"))
    made.run_until(lambda: _has_coordinators(made))
    return made


def _wanted(name: str) -> k10.FindCoordinatorRequest:
    return k10.FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[name])


def _ask(topic: ReplicatedTopic, node_id: int, key: int, version: int, message: Any) -> Any:
    return call(topic.cluster, node_id, key, version, message)


def _has_coordinators(topic: ReplicatedTopic) -> bool:
    image = topic.cluster.nodes[1].image
    known = image.topics.get(TRANSACTION_STATE_TOPIC)
    return known is not None and all(
        each.leader in topic.cluster.nodes
        and index in topic.cluster.nodes[each.leader].broker.coordinators.transactions
        for index, each in known.partitions.items()
    )


class Owner:
    """A producer of one transactional id. Unless a coordinator is named, that node, the leader of
    the topic and the active controller are three, or two if the leader is the active controller."""

    def __init__(self, topic: ReplicatedTopic, coordinator: int | None = None) -> None:
        self.topic = topic
        active = topic.cluster.active
        assert active is not None, "a cluster at rest has an active controller"
        wanted = {*topic.cluster.nodes} - {topic.leader, active.node_id}
        if coordinator is not None:
            wanted = {coordinator}
        self.name = next(
            name for name in map(str, range(1_000)) if self._coordinator(name) in wanted
        )
        self.producer_id, self.epoch = -1, -1

    def _coordinator(self, name: str) -> int:
        image = self.topic.cluster.nodes[1].image
        known = image.topics[TRANSACTION_STATE_TOPIC].partitions
        leader: int = known[partition_for(name, PARTITIONS)].leader
        return leader

    @property
    def coordinator(self) -> int:
        return self._coordinator(self.name)

    def init(self, *, keep: bool = False) -> int:
        """Take the id over, as a client that tries again; return the error code."""
        answer = self._retried(lambda: self.try_init(keep=keep))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        code: int = answer.error_code
        return code

    def try_init(self, *, keep: bool) -> Any:
        message = k22.InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=TIMEOUT_MS,
            enable_2pc=True,
            keep_prepared_txn=keep,
        )
        return _ask(self.topic, self.coordinator, INIT_PRODUCER_ID, INIT_VERSION, message)

    def _retried(self, request: Callable[[], Any]) -> Any:
        while True:
            answer = request()
            if answer is not None and answer.error_code not in PASSING:
                return answer
            self.topic.cluster.simulation.run_for(RETRY_MS)

    def write(self, value: bytes, sequence: int) -> int:
        """Write a record in the transaction; return the error code."""
        records = build_batch(
            [Record(0, 1_700_000_000_000, None, value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = k00.PartitionProduceData(index=0, records=records)
        topic = k00.TopicProduceData(topic_id=self.topic.topic_id, partition_data=[data])
        message = k00.ProduceRequest(
            transactional_id=self.name, acks=-1, timeout_ms=1_000, topic_data=[topic]
        )
        response = _ask(self.topic, self.topic.leader, PRODUCE, PRODUCE_VERSION, message)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    def commit(self) -> int:
        message = k26.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=True,
        )
        answer = self._retried(
            lambda: _ask(self.topic, self.coordinator, END_TXN, END_VERSION, message)
        )
        code: int = answer.error_code
        return code


def committed(topic: ReplicatedTopic) -> list[bytes]:
    wanted = k01.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    message = k01.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=READ_COMMITTED,
        topics=[k01.FetchTopic(topic_id=topic.topic_id, partitions=[wanted])],
    )
    response = _ask(topic, topic.leader, FETCH, FETCH_VERSION, message)
    return values_in(response.responses[0].partitions[0].records or b"")


@pytest.fixture
def former(topic: ReplicatedTopic) -> Owner:
    """An owner with an open transaction of one record."""
    owner = Owner(topic)
    assert owner.init() == 0
    assert owner.write(b"a", 0) == 0
    return owner


def test_a_former_owner_writes_nothing_at_the_leader_of_another_node(
    topic: ReplicatedTopic, former: Owner
) -> None:
    assert Owner(topic).init(keep=True) == 0
    assert former.write(b"late", 1) == errors.InvalidProducerEpoch.code


def test_the_new_owner_commits_what_the_former_one_wrote(
    topic: ReplicatedTopic, former: Owner
) -> None:
    new = Owner(topic)
    assert new.init(keep=True) == 0
    former.write(b"late", 1)
    assert new.commit() == 0
    topic.run_until(lambda: committed(topic) != [])
    assert committed(topic) == [b"a"]


@pytest.mark.usefixtures("former")
def test_a_take_over_waits_for_a_leader_that_is_cut_off(topic: ReplicatedTopic) -> None:
    new, leading, network = Owner(topic), topic.leader, topic.cluster.simulation.network
    hosts = [[topic.cluster.nodes[each].host] for each in (leading, new.coordinator)]
    network.separate(*hosts)
    answer = new.try_init(keep=True)
    assert answer is None or answer.error_code == errors.ConcurrentTransactions.code
    assert topic.leader == leading
    network.heal()
    assert new.init(keep=True) == 0


def test_the_markers_of_a_commit_wait_for_no_fetch_to_time_out(topic: ReplicatedTopic) -> None:
    owner = Owner(topic, coordinator=topic.leader)
    assert owner.init() == 0
    assert owner.write(b"a", 0) == 0
    assert owner.commit() == 0
    simulation, log = topic.cluster.simulation, topic.replica(topic.leader).log
    began = simulation.now_ms
    topic.run_until(lambda: topic.replica(topic.leader).leader.high_watermark == 2)
    assert log.end_offset == 2  # the record and its marker
    assert simulation.now_ms - began < FETCH_WAIT_MS / 2
