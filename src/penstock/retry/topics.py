"""The topics beside a source: created with as many partitions as the source, and checked.

    <topic>.<group>.retry.5s   one for each step; handled records are deleted after their commit
    <topic>.<group>.dead       kept until `penstock dlq purge`
    <topic>.<group>.pending    compacted; only where the order of keys is kept
    <topic>.<group>.seen       compacted, and deleted with the window; only with a shared guard

Former steps of the ladder are found by their names, so that their records are still handled.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.admin.aio import Admin
from penstock.client.failures import ClientError
from penstock.client.values import (
    ConfigChange,
    NewTopic,
    Operation,
    Resource,
    ResourceType,
    TopicDescription,
)
from penstock.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from penstock.retry.ladder import Ladder, Names, wait_text
from penstock.retry.partition_state import RetryTopics
from penstock.retry.settings import REQUEST_BYTES_DEFAULT, retry_record_bytes_max

log = logging.getLogger("penstock.retry")

KEPT_FOR_EVER = "-1"
LOOK_AGAIN_S = 0.05
LOOKS_MAX = 200
_BYTES_KEY = "max.message.bytes"
_MADE_BY_USE = "auto.create.topics.enable"


class TopicsUnfit(ClientError):
    """Topics beside a source are missing or have unsuitable settings."""


@dataclass(frozen=True, slots=True)
class RequiredTopics:
    """The topics that one source needs beside it."""

    names: Names
    ladder: Ladder
    ordered: bool
    seen_window_ms: int | None  # None: no guard that is written


@dataclass(frozen=True, slots=True)
class PreparedTopics:
    """The topics beside one source, after prepare()."""

    steps: RetryTopics
    partitions: int
    message_bytes_max: int  # of the source


async def prepare(admin: Admin, wanted: RequiredTopics) -> PreparedTopics:
    """Create missing topics; raise TopicsUnfit with the reason and the next step."""
    source = await _source(admin, wanted.names)
    count = len(source.partitions)
    bytes_max = await message_bytes_max(admin, wanted.names.topic)
    there = {each.name: each for each in await admin.list_topics()}
    steps = RetryTopics(wanted.names, wanted.ladder, _former_waits(wanted, there))
    plan = _plan(wanted, source, bytes_max)
    await _create(admin, [each for each in plan if each.name not in there])
    beside = [*steps.topics, *(each.name for each in plan)]
    await _add_partitions(
        admin, [there[name] for name in dict.fromkeys(beside) if name in there], count
    )
    await _raise_message_limits(
        admin, [name for name in dict.fromkeys(beside) if name in there], bytes_max
    )
    await _wait_until_visible(admin, list(dict.fromkeys(beside)))
    return PreparedTopics(steps, count, bytes_max)


async def _source(admin: Admin, names: Names) -> TopicDescription:
    found = (await admin.describe_topics([names.topic]))[names.topic]
    if isinstance(found, KafkaError):
        raise TopicsUnfit(
            f"the topic {names.topic} cannot be read: {found.message}",
            next_step=f"Create it first: penstock topic create {names.topic}",
        ) from found
    return found


async def check_output(admin: Admin, source: str, output: str) -> None:
    """Raise TopicsUnfit if the output topic is missing and brokers do not create topics.

    Otherwise the first transaction would wait for the topic until the producer is fenced.
    """
    found = await admin.describe_topics([source, output])
    missing, beside = found[output], found[source]
    if not isinstance(missing, KafkaError) or isinstance(beside, KafkaError):
        return
    if isinstance(missing, UnknownTopicOrPartition):
        broker = Resource(ResourceType.BROKER, str(beside.partitions[0].leader))
        told = (await admin.describe_configs([broker], keys=[_MADE_BY_USE]))[broker]
        if isinstance(told, KafkaError) or any(
            each.name == _MADE_BY_USE and each.value == "true" for each in told
        ):
            return
    raise TopicsUnfit(
        f"the topic {output} cannot be written: {missing.message}",
        next_step=f"Create it first: penstock topic create {output}",
    ) from missing


async def message_bytes_max(admin: Admin, topic: str) -> int:
    """Return max.message.bytes of a topic; Kafka's default if the client may not read it."""
    return (await _bytes_max(admin, [topic]))[topic]


async def _bytes_max(admin: Admin, topics: Sequence[str]) -> dict[str, int]:
    resources = {topic: Resource(ResourceType.TOPIC, topic) for topic in topics}
    told = await admin.describe_configs(list(resources.values()), keys=[_BYTES_KEY])
    limits = {}
    for topic, resource in resources.items():
        found, said = told[resource], None
        if isinstance(found, KafkaError):
            log.warning("%s of %s is not known: %s", _BYTES_KEY, topic, found.message)
        else:
            said = next((each.value for each in found if each.name == _BYTES_KEY), None)
        limits[topic] = REQUEST_BYTES_DEFAULT if said is None else int(said)
    return limits


def _former_waits(wanted: RequiredTopics, there: dict[str, TopicDescription]) -> tuple[int, ...]:
    """Return the waits of existing retry topics that the ladder does not have."""
    steps = wanted.names.steps_among(there)
    found = tuple(sorted(each for each in steps if each not in wanted.ladder.waits_ms))
    if found:
        said = ", ".join(map(wait_text, found))
        log.info("%s: steps of an earlier ladder are read, too: %s", wanted.names.topic, said)
    return found


def _plan(wanted: RequiredTopics, source: TopicDescription, bytes_max: int) -> list[NewTopic]:
    names = wanted.names
    kept = {"cleanup.policy": "delete", "retention.ms": KEPT_FOR_EVER, "retention.bytes": "-1"}
    configs = {names.retry(each): kept for each in wanted.ladder.waits_ms}
    configs[names.dead] = kept
    if wanted.ordered:
        configs[names.pending] = {"cleanup.policy": "compact"}
    if wanted.seen_window_ms is not None:
        configs[names.seen] = {
            "cleanup.policy": "compact,delete",
            "retention.ms": str(wanted.seen_window_ms),
        }
    return [
        NewTopic(
            name,
            len(source.partitions),
            source.replication_factor,
            {**config, _BYTES_KEY: str(retry_record_bytes_max(bytes_max))},
        )
        for name, config in configs.items()
    ]


async def _create(admin: Admin, topics: Sequence[NewTopic]) -> None:
    if not topics:
        return
    for name, result in (await admin.create_topics(topics)).items():
        # Another process of the group was quicker.
        if isinstance(result, KafkaError) and not isinstance(result, TopicAlreadyExists):
            topic = next(each for each in topics if each.name == name)
            raise TopicsUnfit(
                f"the topic {name} could not be made: {result.message}",
                next_step=f"Let the client create topics, or make it: {topic.partitions} "
                f"partitions, replication factor {topic.replication_factor}, {topic.configs}",
            ) from result
        log.info("made the topic %s", name)


async def _wait_until_visible(admin: Admin, names: Sequence[str]) -> None:
    """Wait until all brokers know the new topics."""
    for _ in range(LOOKS_MAX):
        found = await admin.describe_topics(names)
        if not any(isinstance(each, KafkaError) for each in found.values()):
            return
        await asyncio.sleep(LOOK_AGAIN_S)
    raise TopicsUnfit("new topics are not seen by all brokers yet", next_step="Try again")


async def _raise_message_limits(admin: Admin, topics: Sequence[str], source_bytes_max: int) -> None:
    """Raise max.message.bytes of existing topics after the source's was raised.

    A topic that cannot be changed still takes most records, so an error is a warning only.
    """
    if not topics:
        return
    needed = retry_record_bytes_max(source_bytes_max)
    narrow = [name for name, limit in (await _bytes_max(admin, topics)).items() if limit < needed]
    change = ConfigChange(_BYTES_KEY, Operation.SET, str(needed))
    changes = {Resource(ResourceType.TOPIC, name): [change] for name in narrow}
    for resource, error in (await admin.alter_configs(changes) if changes else {}).items():
        if error is not None:
            told = (_BYTES_KEY, resource.name, needed, error.message)
            log.warning("%s of %s stays below %d: %s", *told)


async def _add_partitions(admin: Admin, topics: Sequence[TopicDescription], count: int) -> None:
    """Add partitions to existing topics after the source got more."""
    larger = [each.name for each in topics if len(each.partitions) > count]
    if larger:
        raise TopicsUnfit(
            f"{larger[0]} has more partitions than its source has ({count})",
            next_step="Was the source deleted and made again? Delete the topics beside it, too",
        )
    fewer = [each.name for each in topics if len(each.partitions) < count]
    if not fewer:
        return
    for name, error in (await admin.create_partitions(dict.fromkeys(fewer, count))).items():
        if error is not None:
            raise TopicsUnfit(
                f"{name} has fewer partitions than its source has ({count}), and cannot get more: "
                f"{error.message}",
                next_step=f"Give it {count}: penstock topic alter {name} --partitions {count}",
            ) from error
        log.info("%s has %d partitions now, as its source has", name, count)
