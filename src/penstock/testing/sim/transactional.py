"""A transactional producer in a simulation, of the old protocol or of transactions v2 (KIP-890).

Its methods are parts of a script. It repeats what was not answered, as a careful client does, and
raises `Refused` for what it was told it cannot have.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from penstock.model import TopicPartition
from penstock.testing.sim.client import DUPLICATE_SEQUENCE, INIT_PRODUCER_ID, PRODUCE
from penstock.testing.sim.script import Ask, Script, ScriptedClient, TopicFacts
from penstock.testing.sim.zombies import NOBODY, Grants, Identity, Speaker
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
# Ask again: coordinators that load or move, topics that are not there yet, markers under way.
PASSING = (3, 6, 7, 14, 15, 16, 19, 51, 56, 100)
# Of these nobody knows whether the request had an effect before it failed: whoever loses a log, or
# the coordinator over it, tells so to everybody who waits, also to those whose records are in it.
DOUBTFUL = (7, 15, 16, 56)
STORED = (0, DUPLICATE_SEQUENCE)
INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING = 47, 48, 49
FENCED, ABORTABLE = 90, 120
GENERATION_GONE = (22, 25, 27, 82, 110, 113)  # the group has gone on without this member
# What may be told to somebody who did nothing wrong: it was fenced, or too slow.
EXPECTED = (INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, FENCED, ABORTABLE, *GENERATION_GONE)


class Refused(Exception):
    """`certain`: no attempt of it can have had an effect. `abortable`: the producer may go on after
    an abort, else it needs another epoch."""

    def __init__(self, what: str, code: int, *, certain: bool) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code
        self.certain = certain
        self.abortable = code == ABORTABLE or code in GENERATION_GONE


class Versions(NamedTuple):
    """What a client speaks."""

    init: int
    produce: int
    add_partitions: int
    add_offsets: int
    offsets: int
    end: int

    @property
    def new_protocol(self) -> bool:
        """Transactions v2: partitions join by themselves, and every end bumps the epoch."""
        return self.end >= 5

    @classmethod
    def draw(cls, chance: Random, *, new_protocol: bool) -> "Versions":
        pick = chance.choice
        if new_protocol:
            return cls(pick((4, 5, 6)), pick((12, 13)), 3, 4, 5, 5)
        return cls(
            pick((3, 4, 5)),
            pick((3, 7, 9, 11)),
            pick((0, 1, 2, 3)),
            pick((0, 2, 3, 4)),
            pick((3, 4)),  # before, an offset commit does not name its member
            pick((0, 1, 2, 3, 4)),
        )


class Member(NamedTuple):
    """Whom the group knows, for TxnOffsetCommit; the default is nobody in particular."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class TransactionalProducer:
    """One life of a transactional id. Between two transactions nothing is unanswered."""

    def __init__(
        self,
        client: ScriptedClient,
        transactional_id: str,
        versions: Versions,
        topics: Mapping[str, TopicFacts],
        grants: Grants,
        *,
        timeout_ms: int,
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = NOBODY
        self._client = client
        self._versions = versions
        self._topics = topics
        self._grants = grants
        self._timeout_ms = timeout_ms
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition | str] = set()  # partitions and groups in the transaction
        self._doubts = False

    @property
    def needs_epoch(self) -> bool:
        """A write was refused. With the old protocol an abort leaves the epoch as it is, and what
        comes late of that write could become a part of the next transaction."""
        return self._doubts

    @property
    def is_new_protocol(self) -> bool:
        return self._versions.new_protocol

    @property
    def places(self) -> list[TopicPartition]:
        """What the transaction has written to, but for offsets."""
        return sorted(each for each in self._added if isinstance(each, TopicPartition))

    @property
    def speaker(self) -> Speaker:
        return self._speaker(self.identity)

    @property
    def is_open(self) -> bool:
        """Something was, or may have been, written in the transaction."""
        return bool(self._added)

    def begin_life(self, *, goes_on: bool) -> Script[None]:
        """InitProducerId: as a new producer, or as the one it has been."""
        expected = self.identity if goes_on else NOBODY
        message = k22_init_producer_id.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )
        ask = Ask(INIT_PRODUCER_ID, self._versions.init, message, self._speaker(expected))
        response = yield from self._insist("InitProducerId", ask)
        given = Identity(response.producer_id, response.producer_epoch)
        self._become(given)
        self._grants.granted(self.transactional_id, given)

    def _become(self, identity: Identity) -> None:
        self._added.clear()
        if identity != self.identity:
            self.identity = identity
            self._doubts = False
            self._sequences.clear()

    def _speaker(self, identity: Identity) -> Speaker:
        return Speaker(self.transactional_id, identity, self.is_new_protocol)

    # -- within a transaction

    def send(
        self,
        records: Mapping[TopicPartition, Sequence[bytes]],
        stored: dict[TopicPartition, int],
    ) -> Script[None]:
        """A batch for each of these partitions, all in one request; `stored` gets their offsets,
        also of those that went well before another was refused."""
        if not self.is_new_protocol:
            yield from self._add_partitions([each for each in records if each not in self._added])
        self._added.update(records)
        self._doubts = True
        batches = {place: self._batch(place, values) for place, values in records.items()}
        certain = True
        while batches:
            ask = self._produce(batches)
            was_over = self._grants.is_over(ask.speaker)
            response = yield ask
            certain = certain and response is not None and not ask.copies
            codes = {} if response is None else self._settle(response, batches, stored)
            if was_over and 0 in codes.values():
                self._grants.accepted(ask.speaker, "Produce")
            certain = certain and not any(code in DOUBTFUL for code in codes.values())
            for code in codes.values():
                self._check("Produce", code, certain=certain)
            yield self._client.pause(0.0, 20.0)
        self._doubts = False
        for place, values in records.items():
            self._sequences[place] = self._sequences.get(place, 0) + len(values)

    def _batch(self, place: TopicPartition, values: Sequence[bytes]) -> bytes:
        now_ms = self._client.world.clock.wall_ms()
        return build_batch(
            [Record(delta, now_ms, None, value) for delta, value in enumerate(values)],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self._sequences.get(place, 0),
            transactional=True,
        )

    def _produce(self, batches: Mapping[TopicPartition, bytes]) -> Ask:
        topics: dict[str, k00_produce.TopicProduceData] = {}
        for place, batch in batches.items():
            topic = topics.setdefault(
                place.topic,
                k00_produce.TopicProduceData(
                    name=place.topic, topic_id=self._topics[place.topic].topic_id
                ),
            )
            topic.partition_data.append(
                k00_produce.PartitionProduceData(index=place.partition, records=batch)
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
        """Take out what is stored; the code of every partition."""
        names = {facts.topic_id: name for name, facts in self._topics.items()}
        codes: dict[TopicPartition, int] = {}
        for topic in response.responses:
            name = topic.name or names[topic.topic_id]
            for each in topic.partition_responses:
                place = TopicPartition(name, each.index)
                codes[place] = each.error_code
                if each.error_code in STORED:
                    del batches[place]
                    stored[place] = each.base_offset
        return codes

    def _add_partitions(self, places: Sequence[TopicPartition]) -> Script[None]:
        if not places:
            return
        topics: dict[str, k24_add_partitions_to_txn.AddPartitionsToTxnTopic] = {}
        for place in places:
            topic = topics.setdefault(
                place.topic, k24_add_partitions_to_txn.AddPartitionsToTxnTopic(name=place.topic)
            )
            topic.partitions.append(place.partition)
        message = k24_add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        self._added.update(places)  # it may be, from the first attempt on
        speaker = self._speaker(self.identity)
        ask = Ask(ADD_PARTITIONS, self._versions.add_partitions, message, speaker)
        yield from self._insist("AddPartitionsToTxn", ask)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], member: Member
    ) -> Script[None]:
        """The group's progress, as a part of the transaction."""
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
        for place, offset in offsets.items():
            topic = topics.setdefault(
                place.topic, k28_txn_offset_commit.TxnOffsetCommitRequestTopic(name=place.topic)
            )
            topic.partitions.append(
                k28_txn_offset_commit.TxnOffsetCommitRequestPartition(
                    partition_index=place.partition, committed_offset=offset
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
        """Commit or abort. Without anything written there is nothing to be told to anybody."""
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
            self._become(Identity(response.producer_id, response.producer_epoch))
        self._added.clear()

    # -- asking

    def _insist(self, what: str, ask: Ask) -> Script[Any]:
        """Ask until there is an answer that stays; Refused if it is none that one would like."""
        certain = True
        while True:
            was_over = self._grants.is_over(ask.speaker)
            response = yield ask
            if response is not None:
                codes = error_codes(ask.key, response)
                if not any(codes):
                    if was_over and ask.speaker.identity != NOBODY:
                        self._grants.accepted(ask.speaker, what)
                    return response
                certain = certain and not any(code in DOUBTFUL for code in codes)
                for code in codes:
                    self._check(what, code, certain=certain and not ask.copies)
            else:
                certain = False
            yield self._client.pause(1.0, 60.0)

    def _check(self, what: str, code: int, *, certain: bool) -> None:
        if code in PASSING or code in STORED:
            return
        name = f"{what} of {self.transactional_id} {self.identity}"
        assert code in EXPECTED, f"{name}: error {code}"
        raise Refused(name, code, certain=certain)


def error_codes(key: int, response: Any) -> list[int]:
    """The codes of a response, wherever it has them; [0] if all went well."""
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
