"""A transactional producer in a simulation, of the old protocol or of transactions v2 (KIP-890).

Its methods are parts of a script. The producer repeats unanswered requests, as a careful client
does, and raises `RequestRejected` for a final error.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from penstock.model import NO_LEADER_EPOCH, TopicPartition
from penstock.testing.sim.client import DUPLICATE_SEQUENCE, INIT_PRODUCER_ID, PRODUCE
from penstock.testing.sim.script import Ask, Script, ScriptOwner, TopicFacts
from penstock.testing.sim.zombies import NO_PRODUCER, ClaimedProducer, Grants, ZombieProducer
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import (
    k00_produce,
    k22_init_producer_id,
    k24_add_partitions_to_txn,
    k25_add_offsets_to_txn,
    k26_end_txn,
    k28_txn_offset_commit,
)

ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
# Retriable: coordinators that load or move, topics that do not exist yet, markers in flight.
PASSING = (3, 6, 7, 14, 15, 16, 19, 20, 51, 56, 100)
# After these the effect of the request is unknown: a broker that loses a log, a leadership, or its
# coordinator sends them to all waiting clients, even for stored records.
DOUBTFUL = (6, 7, 15, 16, 20, 56)
STORED = (0, DUPLICATE_SEQUENCE)
TAKE_OVER_VERSION = 6
INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING = 47, 48, 49
FENCED, ABORTABLE = 90, 120
GENERATION_GONE = (22, 25, 27, 82, 110, 113)  # the group continued without this member
# Errors that a correct client may get: it was fenced, or too slow.
EXPECTED = (INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, FENCED, ABORTABLE, *GENERATION_GONE)


class RequestRejected(Exception):
    """A final error. `certain`: no attempt can have had an effect. `abortable`: the producer may
    continue after an abort, else it needs another epoch."""

    def __init__(self, what: str, code: int, *, certain: bool) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code
        self.certain = certain
        self.abortable = code == ABORTABLE or code in GENERATION_GONE


class TransactionApiVersions(NamedTuple):
    """The API versions of a client."""

    init: int
    produce: int
    add_partitions: int
    add_offsets: int
    offsets: int
    end: int

    @property
    def new_protocol(self) -> bool:
        """Return whether transactions v2 apply: partitions join by themselves, and every end bumps
        the epoch."""
        return self.end >= 5

    @classmethod
    def draw(cls, chance: Random, *, new_protocol: bool) -> "TransactionApiVersions":
        pick = chance.choice
        if new_protocol:
            return cls(pick((4, 5, 6)), pick((12, 13)), 3, 4, 5, 5)
        return cls(
            pick((3, 4, 5)),
            pick((3, 7, 9, 11)),
            pick((0, 1, 2, 3)),
            pick((0, 2, 3, 4)),
            pick((3, 4)),  # earlier versions do not name the member
            pick((0, 1, 2, 3, 4)),
        )


class CommittingMember(NamedTuple):
    """The member of a TxnOffsetCommit; the default is no member."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class TransactionalProducer:
    """One session of a transactional id. Between two transactions no request is unanswered."""

    def __init__(
        self,
        client: ScriptOwner,
        transactional_id: str,
        versions: TransactionApiVersions,
        topics: Mapping[str, TopicFacts],
        grants: Grants,
        *,
        timeout_ms: int,
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = NO_PRODUCER
        self._client = client
        self._versions = versions
        self._topics = topics
        self._grants = grants
        self._timeout_ms = timeout_ms
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition | str] = set()  # partitions and groups in the transaction
        self._doubts = False
        self._keeps = False  # the open transaction is that of a former owner

    @property
    def needs_epoch(self) -> bool:
        """Return whether a write may have failed. In the old protocol an abort keeps the epoch: a
        late copy of that write could join the next transaction."""
        return self._doubts

    @property
    def is_new_protocol(self) -> bool:
        return self._versions.new_protocol

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Return the partitions that the transaction has written to, without groups."""
        return sorted(each for each in self._added if isinstance(each, TopicPartition))

    @property
    def speaker(self) -> ClaimedProducer:
        return self._speaker(self.identity)

    @property
    def is_open(self) -> bool:
        """Return whether the transaction has, or may have, written something."""
        return self._keeps or bool(self._added)

    def begin_life(self, *, goes_on: bool) -> Script[None]:
        """Send InitProducerId: as a new producer, or as the current one."""
        expected = self.identity if goes_on else NO_PRODUCER
        message = k22_init_producer_id.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )
        ask = Ask(INIT_PRODUCER_ID, self._versions.init, message, self._speaker(expected))
        response = yield from self._insist("InitProducerId", ask)
        given = ZombieProducer(response.producer_id, response.producer_epoch)
        self._become(given)
        self._grants.granted(self.transactional_id, given)

    def take_over(self, *, two_phase_commit: bool) -> Script[ZombieProducer]:
        """Send InitProducerId for the transaction that the former owner left open (KIP-939). Return
        the identity that has written it, NO_PRODUCER without such a transaction."""
        assert self.is_new_protocol, "an older client cannot take over"
        message = k22_init_producer_id.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            enable_2pc=two_phase_commit,
            keep_prepared_txn=True,
        )
        ask = Ask(INIT_PRODUCER_ID, TAKE_OVER_VERSION, message, self._speaker(NO_PRODUCER))
        response = yield from self._insist("InitProducerId", ask)
        given = ZombieProducer(response.producer_id, response.producer_epoch)
        self._become(given)
        self._grants.granted(self.transactional_id, given)
        kept = ZombieProducer(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        self._keeps = kept != NO_PRODUCER
        return kept

    def _become(self, identity: ZombieProducer) -> None:
        self._added.clear()
        self._keeps = False
        if identity != self.identity:
            self.identity = identity
            self._doubts = False
            self._sequences.clear()

    def _speaker(self, identity: ZombieProducer) -> ClaimedProducer:
        return ClaimedProducer(self.transactional_id, identity, self.is_new_protocol)

    # -- within a transaction

    def send(
        self,
        records: Mapping[TopicPartition, Sequence[bytes]],
        stored: dict[TopicPartition, int],
    ) -> Script[None]:
        """Send a batch to each of these partitions, all in one request; `stored` gets the offsets
        of the successful ones, even if another is rejected."""
        if not self.is_new_protocol:
            yield from self._add_partitions([each for each in records if each not in self._added])
        self._added.update(records)
        self._doubts = True
        batches = {
            topic_partition: self._batch(topic_partition, values)
            for topic_partition, values in records.items()
        }
        certain = True
        while batches:
            ask = self._produce(batches)
            was_over = self._grants.is_over(ask.speaker)
            response = yield ask
            certain = certain and response is not None and not ask.repetitions
            codes = {} if response is None else self._settle(response, batches, stored)
            if was_over and 0 in codes.values():
                self._grants.accepted(ask.speaker, "Produce")
            certain = certain and not any(code in DOUBTFUL for code in codes.values())
            for code in codes.values():
                self._check("Produce", code, certain=certain)
            yield self._client.pause(0.0, 20.0)
        self._doubts = False
        for topic_partition, values in records.items():
            self._sequences[topic_partition] = self._sequences.get(topic_partition, 0) + len(values)

    def _batch(self, topic_partition: TopicPartition, values: Sequence[bytes]) -> bytes:
        now_ms = self._client.world.clock.wall_ms()
        return build_batch(
            [Record(delta, now_ms, None, value) for delta, value in enumerate(values)],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self._sequences.get(topic_partition, 0),
            transactional=True,
        )

    def _produce(self, batches: Mapping[TopicPartition, bytes]) -> Ask:
        topics: dict[str, k00_produce.TopicProduceData] = {}
        for topic_partition, batch in batches.items():
            topic = topics.setdefault(
                topic_partition.topic,
                k00_produce.TopicProduceData(
                    name=topic_partition.topic,
                    topic_id=self._topics[topic_partition.topic].topic_id,
                ),
            )
            topic.partition_data.append(
                k00_produce.PartitionProduceData(index=topic_partition.partition, records=batch)
            )
        message = k00_produce.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=list(topics.values()),
        )
        return Ask(PRODUCE, self._versions.produce, message, self._speaker(self.identity))

    def _settle(
        self,
        response: k00_produce.ProduceResponse,
        batches: dict[TopicPartition, bytes],
        stored: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Remove the stored batches; return the code of every partition."""
        names = {facts.topic_id: name for name, facts in self._topics.items()}
        codes: dict[TopicPartition, int] = {}
        for topic in response.responses:
            name = topic.name or names[topic.topic_id]
            for each in topic.partition_responses:
                topic_partition = TopicPartition(name, each.index)
                codes[topic_partition] = each.error_code
                if each.error_code in STORED:
                    del batches[topic_partition]
                    stored[topic_partition] = each.base_offset
        return codes

    def _add_partitions(self, topic_partitions: Sequence[TopicPartition]) -> Script[None]:
        if not topic_partitions:
            return
        topics: dict[str, k24_add_partitions_to_txn.AddPartitionsToTxnTopic] = {}
        for topic_partition in topic_partitions:
            topic = topics.setdefault(
                topic_partition.topic,
                k24_add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic_partition.topic),
            )
            topic.partitions.append(topic_partition.partition)
        message = k24_add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        self._added.update(topic_partitions)  # perhaps, from the first attempt on
        speaker = self._speaker(self.identity)
        ask = Ask(ADD_PARTITIONS, self._versions.add_partitions, message, speaker)
        yield from self._insist("AddPartitionsToTxn", ask)

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        member: CommittingMember,
        leader_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> Script[None]:
        """Commit the group's offsets as a part of the transaction. `leader_epochs` are those of the
        last consumed records."""
        epochs = leader_epochs or {}
        speaker = self._speaker(self.identity)
        new = group not in self._added
        self._added.add(group)
        if not self.is_new_protocol and new:
            added = k25_add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                group_id=group,
            )
            ask = Ask(ADD_OFFSETS, self._versions.add_offsets, added, speaker)
            yield from self._insist("AddOffsetsToTxn", ask)
        topics: dict[str, k28_txn_offset_commit.TxnOffsetCommitRequestTopic] = {}
        for topic_partition, offset in offsets.items():
            topic = topics.setdefault(
                topic_partition.topic,
                k28_txn_offset_commit.TxnOffsetCommitRequestTopic(name=topic_partition.topic),
            )
            topic.partitions.append(
                k28_txn_offset_commit.TxnOffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=offset,
                    committed_leader_epoch=epochs.get(topic_partition, NO_LEADER_EPOCH),
                )
            )
        message = k28_txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=list(topics.values()),
        )
        ask = Ask(TXN_OFFSET_COMMIT, self._versions.offsets, message, speaker)
        yield from self._insist("TxnOffsetCommit", ask)

    def end(self, *, committed: bool) -> Script[None]:
        """Commit or abort. An empty transaction sends no request."""
        if not self.is_open and (committed or not self.is_new_protocol):
            return
        message = k26_end_txn.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=committed,
        )
        ask = Ask(END_TXN, self._versions.end, message, self._speaker(self.identity))
        response = yield from self._insist("EndTxn", ask)
        if self.is_new_protocol:
            self._become(ZombieProducer(response.producer_id, response.producer_epoch))
        self._added.clear()
        self._keeps = False

    # -- requests

    def _insist(self, what: str, ask: Ask) -> Script[Any]:
        """Repeat a request until a final answer; raise RequestRejected for an error."""
        certain = True
        while True:
            was_over = self._grants.is_over(ask.speaker)
            response = yield ask
            if response is not None:
                codes = error_codes(ask.key, response)
                if not any(codes):
                    if was_over and ask.speaker.identity != NO_PRODUCER:
                        self._grants.accepted(ask.speaker, what)
                    return response
                certain = certain and not any(code in DOUBTFUL for code in codes)
                for code in codes:
                    self._check(what, code, certain=certain and not ask.repetitions)
            else:
                certain = False
            yield self._client.pause(1.0, 60.0)

    def _check(self, what: str, code: int, *, certain: bool) -> None:
        if code in PASSING or code in STORED:
            return
        name = f"{what} of {self.transactional_id} {self.identity}"
        assert code in EXPECTED, f"{name}: error {code}"
        raise RequestRejected(name, code, certain=certain)


def error_codes(key: int, response: Any) -> list[int]:
    """Return the codes of a response, in all its fields; [0] if all is well."""
    match key:
        case 0:
            found = [
                each.error_code
                for topic in response.responses
                for each in topic.partition_responses
            ]
        case 24:
            found = [
                each.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ]
        case 27:
            found = [
                each.error_code
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            ]
        case 8 | 28:
            found = [each.error_code for topic in response.topics for each in topic.partitions]
        case _:
            found = [response.error_code]
    return found
