"""Dead-letter topics: which there are, what is in them, and what is done about it.

A replay goes, unless told otherwise, to the first retry topic of the group whose letter it is: no
other group sees the record again. The records and the mark that says which were replayed are
written in one transaction, and a second replay of the same topic ends the first one: each letter is
replayed once, however often somebody asks.
"""

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import TracebackType
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
from penstock.retry.clock import Clock, WallClock
from penstock.retry.course import Write
from penstock.retry.ladder import Names
from penstock.retry.letters import Choice, Letter, Offsets, mark_of, read_mark
from penstock.retry.refusals import end_of_producer
from penstock.retry.settings import TRAIL_BYTES_MAX, split
from penstock.retry.topics import message_bytes_max
from penstock.retry.whole_partitions import read_whole
from penstock.retry.writer import OutcomeUnknown

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
    """`source` and `group` are None where neither letters nor other topics tell."""

    name: str
    source: str | None
    group: str | None
    partitions: int
    letters: int  # not replayed
    replayed: int
    oldest_ms: int | None  # when the first of the letters was given up


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many went where; `without_trail` could not be, for nobody knows where they came from."""

    topics: Mapping[str, int]
    without_trail: int

    @property
    def count(self) -> int:
        return sum(self.topics.values())


class DeadLetters:
    """Of one cluster. Settings are Kafka's own names, as for Retrying."""

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        bootstrap: str | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._parts = split(settings or {}, bootstrap)
        self._namespace = namespace
        self._clock = clock or WallClock()
        self._admin = Admin(self._parts[Client.ADMIN], namespace=namespace)

    async def __aenter__(self) -> "DeadLetters":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End its connections."""
        await self._admin.close()

    # -- looking

    async def topics(self, pattern: str = "*", group: str | None = None) -> list[DeadTopic]:
        """Dead-letter topics whose name fits a pattern (`orders.*`), of all groups or of one."""
        there = {each.name: each for each in await self._admin.list_topics()}
        ending = SUFFIX if group is None else f".{group}{SUFFIX}"
        wanted = [n for n in sorted(there) if n.endswith(ending) and fnmatchcase(n, pattern)]
        return [await self._look_at(there[name], there) for name in wanted]

    async def _look_at(
        self, topic: TopicDescription, there: Mapping[str, TopicDescription]
    ) -> DeadTopic:
        count = replayed = 0
        oldest: int | None = None
        told = _owner_by_name(topic.name, there)
        async with aclosing(self.letters(topic.name, ALL_LETTERS)) as letters:
            async for letter in letters:
                replayed += letter.replayed
                count += not letter.replayed
                if letter.trail is not None:
                    told = (letter.trail.topic, letter.trail.group)
                died_ms = None if letter.replayed else _died_ms(letter)
                if died_ms is not None:
                    oldest = died_ms if oldest is None else min(oldest, died_ms)
        return DeadTopic(topic.name, *told, len(topic.partitions), count, replayed, oldest)

    async def letters(
        self, topic: str, choice: Choice = NOT_REPLAYED
    ) -> AsyncGenerator[Letter, None]:
        """The letters that are meant, in the order of each partition."""
        places = await self._places(topic)
        replayed = await self._marks(places)
        async with aclosing(self._records(places)) as records:
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

        NotReplayed if another replay of the topic begins meanwhile: that one goes on.
        """
        try:
            return await self._replay(topic, choice, to)
        except Exception as error:
            if isinstance(end_of_producer(error) or error, _TAKEN_OVER):
                raise NotReplayed(
                    f"another replay of {topic} has begun and taken over, so this one has ended",
                    next_step="Let it go on: `penstock dlq list` tells how many letters are left, "
                    "and each is replayed once",
                ) from error
            raise

    async def _replay(self, topic: str, choice: Choice, to: Target) -> Replayed:
        await self._places(topic)  # it has to be there before a producer begins to wait for it
        settings: dict[str, SettingValue] = {
            **self._parts[Client.PRODUCER],
            "transactional.id": f"penstock-dlq-{topic}",
            "max.request.size": await message_bytes_max(self._admin, topic) + TRAIL_BYTES_MAX,
        }
        counts: dict[str, int] = {}
        without_trail = 0
        producer: Producer[bytes, bytes] = Producer(settings, namespace=self._namespace)
        async with producer:
            # Whoever replays this topic elsewhere is fenced now, and what he had open is decided:
            # the marks that are read from here on are all there are.
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
                    next_step="Replay again: what was replayed is marked, and left out then",
                ) from error
            raise
        for each in writes:
            counts[each.topic] = counts.get(each.topic, 0) + 1

    def _again(self, letter: Letter, to: Target, names: Sequence[str]) -> Write:
        if to == "source":
            return letter.to_source()
        assert letter.trail is not None, "the others were left out"
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
        """Delete letters, or only those at the front that were replayed; how many in each.

        NotReplayed, and nothing is deleted, if the topic holds records that are no dead letters,
        whatever it is called: they are somebody else's. `force` deletes these, too.
        """
        places = await self._places(topic)
        ends = await self._ends(places)
        counts = dict.fromkeys(places, 0)
        waiting: dict[TopicPartition, int] = {}
        others = 0
        async with aclosing(self.letters(topic, ALL_LETTERS)) as letters:
            async for letter in letters:
                place = letter.record.place
                others += not letter.is_dead
                if only_replayed and not letter.replayed:
                    waiting.setdefault(place, letter.record.offset)
                counts[place] += place not in waiting and letter.record.offset < ends[place]
        if others and not force:
            raise NotReplayed(
                f"{topic} holds {others} records that are no dead letters, so nothing of it is "
                "deleted",
                next_step="Name a topic that `penstock dlq list` shows, or a source and --group; "
                "--force deletes those records, too",
            )
        ends = {place: min(end, waiting.get(place, end)) for place, end in ends.items()}
        if dry_run:
            return counts
        for result in (await self._admin.delete_records(ends)).values():
            if isinstance(result, KafkaError):
                raise result
        return counts

    # -- inside

    async def _places(self, topic: str) -> list[TopicPartition]:
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
        self, places: Iterable[TopicPartition]
    ) -> AsyncGenerator[Record[bytes, bytes], None]:
        return read_whole(
            self._admin, self._parts[Client.CONSUMER], list(places), namespace=self._namespace
        )

    async def _marks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Offsets]:
        replayed = {place: Offsets() for place in places}
        async with aclosing(self._records(replayed)) as records:
            async for record in records:
                for each in read_mark(record) or ():
                    replayed[record.place].add(each)
        return replayed

    async def _ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._admin.offsets(dict.fromkeys(places, int(At.END)))
        ends = {}
        for place, each in found.items():
            if isinstance(each, KafkaError):
                raise each
            ends[place] = each.offset
        return ends


def _died_ms(letter: Letter) -> int | None:
    trail = letter.trail
    return letter.record.timestamp_ms if trail is None else trail.last_failed_ms


def _owner(before: str, there: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Source and group of `<source>.<group>`, where the longest source that exists is meant."""
    at = len(before)
    while (at := before.rfind(".", 0, at)) > 0:
        if before[:at] in there:
            return before[:at], before[at + 1 :]
    return None, None


def _owner_by_name(name: str, there: Mapping[str, object]) -> tuple[str | None, str | None]:
    return _owner(name.removesuffix(SUFFIX), there)


def dead_topic_of(said: str, group: str | None) -> str:
    """The whole name as it is, or that of a source and a group."""
    return said if group is None else Names(said, group).dead
