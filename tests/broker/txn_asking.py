"""Transactions by bare requests: one producer, spoken for over an Asker."""

from collections.abc import Sequence
from time import time
from typing import Any

from api_asking import Asker, batch, fetch, find_coordinator, topic_id, unused_name

from penstock.errors import ConcurrentTransactions, CoordinatorLoadInProgress
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LENGTH,
    LENGTH_OVERHEAD,
    PRODUCER_ID,
    batch_headers,
    read_records,
)
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k24_add_partitions_to_txn as k24
from penstock.wire.messages import k25_add_offsets_to_txn as k25
from penstock.wire.messages import k26_end_txn as k26
from penstock.wire.messages import k28_txn_offset_commit as k28
from penstock.wire.messages import k61_describe_producers as k61
from penstock.wire.messages import k65_describe_transactions as k65

TRANSACTION = 1  # the kind of coordinator
V2_PRODUCE, V2_END = 12, 5
V1_ADD, V1_PRODUCE, V1_END = 3, 9, 4
TRIES_MAX = 1_000


class Txn:
    """A transactional producer: `v2` speaks transactions v2, otherwise as older clients do."""

    def __init__(
        self, asker: Asker, *, v2: bool = True, name: str | None = None, timeout_ms: int = 60_000
    ) -> None:
        self.asker = asker
        self.v2 = v2
        self.name = name or unused_name("txn")
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        find_coordinator(asker, TRANSACTION, self.name)

    # ---- beginning

    def init(self, *, version: int = 5, **more: Any) -> k22.InitProducerIdResponse:
        """One InitProducerId, whatever its answer."""
        request = k22.InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=self.timeout_ms, **more
        )
        answer = self.asker.ask(request, version)
        assert isinstance(answer, k22.InitProducerIdResponse)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def begun(self, **more: Any) -> "Txn":
        """InitProducerId until the coordinator is loaded and nothing is ending any more."""
        for _ in range(TRIES_MAX):
            answer = self.init(**more)
            if answer.error_code not in (
                ConcurrentTransactions.code,
                CoordinatorLoadInProgress.code,
            ):
                assert answer.error_code == 0
                return self
        raise AssertionError("the transaction before does not end")

    # ---- writing

    def records(self, topic: str, *values: bytes, partition: int = 0) -> bytes:
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + len(values)
        return batch(
            *values,
            timestamp=int(time() * 1000),  # near that of the markers: one segment for both
            producer=(self.producer_id, self.epoch, sequence),
            transactional=True,
        )

    def request(
        self, topic: str | bytes, records: Sequence[bytes], *, acks: int = -1
    ) -> k00.ProduceRequest:
        data = k00.TopicProduceData(
            partition_data=[
                k00.PartitionProduceData(index=index, records=each)
                for index, each in enumerate(records)
            ]
        )
        if isinstance(topic, bytes):
            data.topic_id = topic
        else:
            data.name = topic
        return k00.ProduceRequest(
            transactional_id=self.name, acks=acks, timeout_ms=10_000, topic_data=[data]
        )

    def send(self, topic: str, records: bytes, *, version: int | None = None) -> int:
        """The error code of one batch for partition 0."""
        if version is None:
            version = V2_PRODUCE if self.v2 else V1_PRODUCE
        name = topic_id(self.asker, topic) if version >= 13 else topic
        answer = self.asker.ask(self.request(name, [records]), version)
        code = answer.responses[0].partition_responses[0].error_code
        assert isinstance(code, int)
        return code

    def write(self, topic: str, *values: bytes) -> None:
        if not self.v2:
            assert self.add(topic, 0) == [0]
        assert self.send(topic, self.records(topic, *values)) == 0

    def add(self, topic: str, *indexes: int, version: int = V1_ADD) -> list[int]:
        request = k24.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[k24.AddPartitionsToTxnTopic(name=topic, partitions=[*indexes])],
        )
        [answer] = self.asker.ask(request, version).results_by_topic_v3_and_below
        return [each.partition_error_code for each in answer.results_by_partition]

    # ---- offsets

    def add_offsets(self, group: str, *, version: int = 3) -> int:
        request = k25.AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        code = self.asker.ask(request, version).error_code
        assert isinstance(code, int)
        return code

    def commit_offset(self, group: str, topic: str, offset: int, *, version: int) -> int:
        request = k28.TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                k28.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        k28.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        [answer] = self.asker.ask(request, version).topics
        code = answer.partitions[0].error_code
        assert isinstance(code, int)
        return code

    # ---- ending

    def end(self, *, committed: bool, version: int | None = None) -> k26.EndTxnResponse:
        if version is None:
            version = V2_END if self.v2 else V1_END
        request = k26.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = self.asker.ask(request, version)
        assert isinstance(answer, k26.EndTxnResponse)
        return answer

    def ended(self, *, committed: bool) -> None:
        """End it, go on with the epoch that the answer gives, and wait for the markers."""
        answer = self.end(committed=committed)
        assert answer.error_code == 0
        if self.v2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        self.wait_for("CompleteCommit" if committed else "CompleteAbort")

    def describe(self) -> k65.TransactionState:
        """What its coordinator says, once it has loaded."""
        request = k65.DescribeTransactionsRequest(transactional_ids=[self.name])
        for _ in range(TRIES_MAX):
            [answer] = self.asker.ask(request, 0).transaction_states
            if answer.error_code != CoordinatorLoadInProgress.code:
                assert isinstance(answer, k65.TransactionState)
                return answer
        raise AssertionError("the coordinator does not load")

    def wait_for(self, state: str) -> None:
        for _ in range(TRIES_MAX):
            if self.describe().transaction_state == state:
                return
        raise AssertionError(f"it stays {self.describe().transaction_state}")


def committed_values(asker: Asker, topic: str) -> list[bytes]:
    """What a consumer of committed records gets, the aborted ones left out by the answer's list."""
    return seen(fetch(asker, topic, 0, committed_only=True))


def seen(answer: Any) -> list[bytes]:
    """The values of a fetched partition, as a client that reads committed records sees them."""
    if not answer.records:
        return []
    waiting = sorted(answer.aborted_transactions or (), key=lambda each: each.first_offset)
    aborting: set[int] = set()
    data = memoryview(answer.records)
    values: list[bytes] = []
    for position, header in batch_headers(data):
        size = header[LENGTH] + LENGTH_OVERHEAD
        producer_id = header[PRODUCER_ID]
        while waiting and waiting[0].first_offset <= header[BASE_OFFSET]:
            aborting.add(waiting.pop(0).producer_id)
        if header[ATTRIBUTES] & CONTROL:
            aborting.discard(producer_id)
        elif producer_id not in aborting:
            values += [each.value or b"" for each in read_records(data[position : position + size])]
    return values


def producers(asker: Asker, topic: str) -> list[k61.ProducerState]:
    request = k61.DescribeProducersRequest(
        topics=[k61.TopicRequest(name=topic, partition_indexes=[0])]
    )
    [answer] = asker.ask(request, 0).topics
    found: list[k61.ProducerState] = answer.partitions[0].active_producers
    return found


def committed_offset(asker: Asker, group: str, topic: str) -> int:
    request = k09.OffsetFetchRequest(
        groups=[
            k09.OffsetFetchRequestGroup(
                group_id=group,
                topics=[k09.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
        ]
    )
    [told] = asker.ask(request, 8).groups
    assert told.error_code == 0
    offset = told.topics[0].partitions[0].committed_offset
    assert isinstance(offset, int)
    return offset


def found_group(asker: Asker) -> str:
    group = unused_name("group")
    find_coordinator(asker, 0, group)
    return group


def stable_end(asker: Asker, topic: str) -> int:
    answer = fetch(asker, topic, 0, committed_only=True)
    offset = answer.last_stable_offset
    assert isinstance(offset, int)
    return offset
