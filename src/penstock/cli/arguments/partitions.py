"""Partitions that a command names (`--topic orders`, `--topic orders:0,3`), and offsets in them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from penstock.cli.arguments.completion import complete_topic
from penstock.cli.arguments.known_names import missing_topic
from penstock.cli.arguments.number_limits import DIGITS_MAX
from penstock.cli.terminal.output import CommandFailed, WrongUsage, error_text
from penstock.errors import KafkaError, UnknownTopicOrPartition
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

# The partitions of each topic that was named; an empty list means all.
PartitionChoice: TypeAlias = dict[str, list[int]]

TopicsOption = Annotated[
    list[str],
    typer.Option(
        "--topic",
        metavar="NAME[:P,P]",
        autocompletion=complete_topic,
        help="A topic, or some of its partitions; may be repeated.",
        show_default=False,
    ),
]


def parse_topics(texts: Sequence[str], option: str = "--topic") -> PartitionChoice:
    chosen: PartitionChoice = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        parts = numbers.split(",") if colon else []
        if not topic or not all(part.isdecimal() and len(part) <= DIGITS_MAX for part in parts):
            raise WrongUsage(
                f"{option} {text}: must be NAME, or NAME:0,1 with numbers of partitions"
            )
        if topic in chosen:
            raise WrongUsage(f"{option} {topic}: named twice")
        chosen[topic] = list(dict.fromkeys(map(int, parts)))
    return chosen


def partitions_of(admin: "Admin", topic: str, wanted: Sequence[int]) -> list[TopicPartition]:
    """Return the wanted partitions of a topic, or all; raise CommandFailed if one is missing."""
    found = admin.describe_topics([topic])[topic]
    if isinstance(found, UnknownTopicOrPartition):
        raise CommandFailed(missing_topic(admin, topic))
    if isinstance(found, KafkaError):
        raise found
    there = [each.partition for each in found.partitions]
    for number in wanted:
        if number not in there:
            raise CommandFailed(f"{topic} has no partition {number}; its last one is {max(there)}")
    return [TopicPartition(topic, number) for number in wanted or there]


def chosen_partitions(admin: "Admin", choice: PartitionChoice) -> list[TopicPartition]:
    """Return the partitions of a choice; raise CommandFailed if one is missing."""
    return [each for name, some in choice.items() for each in partitions_of(admin, name, some)]


def offsets_at(admin: "Admin", places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the offset at each place (`At` or a timestamp); -1 if no record is that late."""
    found: dict[TopicPartition, int] = {}
    for each, result in (admin.offsets(places) if places else {}).items():
        if isinstance(result, KafkaError):
            raise CommandFailed(f"{each}: {error_text(result)}")
        found[each] = result.offset
    return found


def partitions_text(partitions: Sequence[TopicPartition]) -> str | None:
    """Return `orders:0,1 payments:4`: each topic once, in the form of --topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return " ".join(f"{name}:{','.join(map(str, some))}" for name, some in topics.items()) or None
