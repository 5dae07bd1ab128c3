"""Dead-letter topics: list, show, replay and purge.

By default a replay writes to the first retry topic of the letter's group, so no other group reads
the record again. One transaction writes the records and a mark with the replayed offsets. A second
replay of the same topic fences the first. So each letter is replayed once.
"""

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from penstock.client.admin.aio import Admin
from penstock.client.failures import ClientError, Fenced, requires_abort
from penstock.client.producer import Producer
from penstock.client.records import Record
from penstock.client.settings import SettingValue
from penstock.client.settings.table import Client
from penstock.client.values import At, TopicDescription
from penstock.errors import (
    InvalidProducerEpoch,
    KafkaError,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from penstock.model import TopicPartition
from penstock.retry.clock import RetryClock, WallClock
from penstock.retry.dead_letter import Choice, Letter, OffsetRanges, mark_of, read_mark
from penstock.retry.ladder import Names
from penstock.retry.partition_state import Write
from penstock.retry.settings import TRAIL_BYTES_MAX, split
from penstock.retry.topics import message_bytes_max
from penstock.retry.whole_partitions import read_to_end
from penstock.retry.writer import OutcomeUnknown, end_of_producer

log = logging.getLogger("penstock.retry")

SUFFIX = ".dead"
LETTERS_PER_TRANSACTION = 500
NOT_REPLAYED = Choice()
ALL_LETTERS = Choice(replayed=None)

Target = Literal["retry", "source"]
# Another producer with the same id has begun.
_TAKEN_OVER = (Fenced, InvalidProducerEpoch, ProducerFenced)


class NotReplayed(ClientError):
    """Letters could not be replayed."""


@dataclass(frozen=True, slots=True)
class DeadTopic:
    """A dead-letter topic; `source` and `group` are None if headers and names lack these."""

    name: str
    source: str | None
    group: str | None
    partitions: int
    letters: int  # not replayed
    replayed: int
    oldest_ms: int | None  # when the first of the letters was given up


@dataclass(frozen=True, slots=True)
class Replayed:
    """Records written per topic; letters without retry headers (`without_trail`) have no target."""

    topics: Mapping[str, int]
    without_trail: int

    @property
    def count(self) -> int:
        return sum(self.topics.values())


class DeadLetters:
    """Dead letters of one cluster; settings are Kafka's names, as for Retrying."""

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        bootstrap: str | None = None,
        namespace: str | None = None,
        clock: RetryClock | None = None,
    ) -> None:
        self._parts = split(settings or {}, bootstrap)
        self._namespace = namespace
        self._clock = clock or WallClock()
        self._admin = Admin(self._parts[Client.ADMIN], namespace=namespace)

    async def __aenter__(self) -> "DeadLetters":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._admin.close()

    # -- looking

    async def topics(self, pattern: str = "*", group: str | None = None) -> list[DeadTopic]:
        """Return dead-letter topics that match a glob (`orders.*`), of all groups or of one."""
        there = {each.name: each for each in await self._admin.list_topics()}
        ending = SUFFIX if group is None else f".{group}{SUFFIX}"
        wanted = [n for n in sorted(there) if n.endswith(ending) and fnmatchcase(n, pattern)]
        return [await self._look_at(there[name], there) for name in wanted]

    async def _look_at(
        self, topic: TopicDescription, there: Mapping[str, TopicDescription]
    ) -> DeadTopic:
        count = replayed = 0
        oldest: int | None = None
        told = _owner(topic.name.removesuffix(SUFFIX), there)
        async with aclosing(self.letters(topic.name, ALL_LETTERS)) as letters:
            async for letter in letters:
                replayed += letter.replayed
                count += not letter.replayed
                if letter.trail is not None:
                    told = (letter.trail.topic, letter.trail.group)
                died_ms = None if letter.replayed else _given_up_ms(letter)
                if died_ms is not None:
                    oldest = died_ms if oldest is None else min(oldest, died_ms)
        return DeadTopic(topic.name, *told, len(topic.partitions), count, replayed, oldest)

    async def letters(
        self, topic: str, choice: Choice = NOT_REPLAYED
    ) -> AsyncGenerator[Letter, None]:
        """Yield the chosen letters, in the order of each partition."""
        topic_partitions = await self._topic_partitions(topic)
        replayed = await self._marks(topic_partitions)
        async with aclosing(self._records(topic_partitions)) as records:
            async for record in records:
                if read_mark(record) is not None:
                    continue
                letter = Letter.of(record, replayed=record.offset in replayed[record.place])
                if choice.holds(letter):
                    yield letter

    # -- replaying

    async def replay(
        self, topic: str, choice: Choice = NOT_REPLAYED, *, to: Target = "retry"
    ) -> Replayed:
        """Write letters again: to the first retry topic of their group, or to the source.

        Raise NotReplayed if another replay of the topic begins meanwhile; the other one continues.
        """
        try:
            return await self._replay(topic, choice, to)
        except Exception as error:
            if isinstance(end_of_producer(error) or error, _TAKEN_OVER):
                raise NotReplayed(
                    f"another replay of {topic} has begun and taken over, so this one has ended",
                    next_step="Wait for the other one: `penstock dlq list` shows how many letters "
                    "are left, and each is replayed once",
                ) from error
            raise

    async def _replay(self, topic: str, choice: Choice, to: Target) -> Replayed:
        await self._topic_partitions(topic)  # a producer would wait for a missing topic
        settings: dict[str, SettingValue] = {
            **self._parts[Client.PRODUCER],
            "transactional.id": f"penstock-dlq-{topic}",
            "max.request.size": await message_bytes_max(self._admin, topic) + TRAIL_BYTES_MAX,
        }
        counts: dict[str, int] = {}
        without_trail = 0
        producer: Producer[bytes, bytes] = Producer(settings, namespace=self._namespace)
        async with producer:
            # Another replay of this topic is fenced now, and its open transaction is decided: the
            # marks read from here on are complete.
            async with producer.transaction():
                pass
            names = [each.name for each in await self._admin.list_topics()]
            batch: list[Letter] = []
            async with aclosing(self.letters(topic, choice)) as letters:
                async for letter in letters:
                    if letter.trail is None:
                        without_trail += 1
                        continue
                    batch.append(letter)
                    if len(batch) >= LETTERS_PER_TRANSACTION:
                        await self._write(producer, topic, batch, to, names, counts)
                        batch = []
            if batch:
                await self._write(producer, topic, batch, to, names, counts)
        return Replayed(counts, without_trail)

    async def _write(
        self,
        producer: Producer[bytes, bytes],
        topic: str,
        letters: list[Letter],
        to: Target,
        names: Sequence[str],
        counts: dict[str, int],
    ) -> None:
        writes = [self._again(each, to, names) for each in letters]
        offsets: dict[int, list[int]] = {}
        for letter in letters:
            offsets.setdefault(letter.record.partition, []).append(letter.record.offset)
        marks = [mark_of(topic, partition, each) for partition, each in offsets.items()]
        transaction = producer.transaction()
        try:
            async with transaction:
                for each in (*writes, *marks):
                    await producer.post(
                        each.topic,
                        each.value,
                        each.key,
                        partition=each.partition,
                        headers=each.headers,
                    )
        except Exception as error:
            if transaction.commit_begun and not requires_abort(error):
                raise OutcomeUnknown(
                    str(error),
                    next_step="Replay again: replayed letters are marked and skipped",
                ) from error
            raise
        for each in writes:
            counts[each.topic] = counts.get(each.topic, 0) + 1

    def _again(self, letter: Letter, to: Target, names: Sequence[str]) -> Write:
        if to == "source":
            return letter.to_source()
        assert letter.trail is not None, "letters without a trail are skipped"
        owner = Names(letter.trail.topic, letter.trail.group)
        steps = owner.steps_among(names)
        if not steps:
            raise NotReplayed(
                f"{owner.topic} has no retry topic for the group {owner.group}",
                next_step="Replay to the source: then every group reads the records again",
            )
        return letter.again(owner.retry(min(steps)), self._clock.now_ms())

    # -- purging

    async def purge(
        self,
        topic: str,
        *,
        only_replayed: bool = False,
        dry_run: bool = False,
        force: bool = False,
    ) -> dict[TopicPartition, int]:
        """Delete letters, or only the replayed ones at the front; return the count per partition.

        Raise NotReplayed and delete nothing if the topic holds records that are no dead letters:
        another application wrote these. `force` deletes such records, too.
        """
        topic_partitions = await self._topic_partitions(topic)
        ends = await self._ends(topic_partitions)
        counts = dict.fromkeys(topic_partitions, 0)
        waiting: dict[TopicPartition, int] = {}
        others = 0
        async with aclosing(self.letters(topic, ALL_LETTERS)) as letters:
            async for letter in letters:
                topic_partition = letter.record.place
                others += not letter.is_dead
                if only_replayed and not letter.replayed:
                    waiting.setdefault(topic_partition, letter.record.offset)
                counts[topic_partition] += (
                    topic_partition not in waiting and letter.record.offset < ends[topic_partition]
                )
        if others and not force:
            raise NotReplayed(
                f"{topic} holds {others} records that are no dead letters, so nothing of it is "
                "deleted",
                next_step="Name a topic that `penstock dlq list` shows, or a source and --group; "
                "--force deletes those records, too",
            )
        ends = {
            topic_partition: min(end, waiting.get(topic_partition, end))
            for topic_partition, end in ends.items()
        }
        if dry_run:
            return counts
        for result in (await self._admin.delete_records(ends)).values():
            if isinstance(result, KafkaError):
                raise result
        return counts

    # -- inside

    async def _topic_partitions(self, topic: str) -> list[TopicPartition]:
        found = (await self._admin.describe_topics([topic]))[topic]
        if isinstance(found, UnknownTopicOrPartition):
            raise NotReplayed(
                f"there is no topic {topic}",
                next_step="See `penstock dlq list` for those there are",
            ) from found
        if isinstance(found, KafkaError):
            raise found
        return [TopicPartition(topic, each.partition) for each in found.partitions]

    def _records(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> AsyncGenerator[Record[bytes, bytes], None]:
        return read_to_end(
            self._admin,
            self._parts[Client.CONSUMER],
            list(topic_partitions),
            namespace=self._namespace,
        )

    async def _marks(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetRanges]:
        replayed = {topic_partition: OffsetRanges() for topic_partition in topic_partitions}
        async with aclosing(self._records(replayed)) as records:
            async for record in records:
                for each in read_mark(record) or ():
                    replayed[record.place].add(each)
        return replayed

    async def _ends(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._admin.offsets(dict.fromkeys(topic_partitions, int(At.END)))
        ends = {}
        for topic_partition, each in found.items():
            if isinstance(each, KafkaError):
                raise each
            ends[topic_partition] = each.offset
        return ends


def _given_up_ms(letter: Letter) -> int | None:
    trail = letter.trail
    return letter.record.timestamp_ms if trail is None else trail.last_failed_ms


def _owner(before: str, there: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return source and group of `<source>.<group>`; the longest existing source wins."""
    at = len(before)
    while (at := before.rfind(".", 0, at)) > 0:
        if before[:at] in there:
            return before[:at], before[at + 1 :]
    return None, None


def dead_topic_of(said: str, group: str | None) -> str:
    """Return the given name, or the dead-letter topic of a source and a group."""
    return said if group is None else Names(said, group).dead
