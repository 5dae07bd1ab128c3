"""kafka-get-offsets: prints offsets of partitions as lines of topic:partition:offset."""

import re
from collections.abc import Callable
from typing import TypeAlias

from penstock.cli.kafka.framework.client_options import BOOTSTRAP_SERVER, COMMAND_CONFIG, admin_of
from penstock.cli.kafka.framework.options import LONG_LAST, GivenOptions, Option
from penstock.cli.kafka.framework.runner import CommandRejected, command, message_of, require, say
from penstock.cli.kafka.framework.topic_filter import TopicFilter, visible
from penstock.client.admin.blocking import Admin
from penstock.client.values import At, FoundOffset
from penstock.errors import KafkaError
from penstock.model import TopicPartition

Wanted: TypeAlias = "Callable[[TopicPartition], bool]"

NO_OFFSET = -1
PLACES = {
    "latest": At.END,
    "earliest": At.BEGINNING,
    "max-timestamp": At.MAX_TIMESTAMP,
    "earliest-local": At.EARLIEST_LOCAL,
    "latest-tiered": At.LATEST_TIERED,
    "earliest-pending-upload": At.EARLIEST_PENDING_UPLOAD,
}
# topic, or topic:3, topic:1-3 (the last one not), topic:1- and topic:-3; a topic may be missing.
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option(
        "topic-partitions",
        "Topics and partitions: orders:1,other:0-3,more:5-; expressions for topics.",
        "String: topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
    ),
    Option("topic", "A regular expression of topics; without it, all.", "String: topic"),
    Option("partitions", "Numbers of partitions; without it, all.", "String: partition ids"),
    Option(
        "time",
        "A timestamp: the offset of the first record at or after it; or one of the names, or -1 to "
        "-6 for them.",
        "String: <timestamp> / " + " / ".join(PLACES),
        "latest",
    ),
    COMMAND_CONFIG,
    Option("exclude-internal-topics", "Leave out the topics that the cluster made for itself."),
)


def _failed(problem: Exception) -> None:
    say(f"Error occurred: {message_of(problem)}")


@command(
    "kafka-get-offsets",
    "Where partitions begin and end.",
    OPTIONS,
    failed=_failed,
    usage_on_error=False,
    before_error="Error occurred: ",
)
def main(given: GivenOptions) -> None:
    require(given, "bootstrap-server")
    place = _place(given.required("time"))
    wanted = _wanted(given)
    with admin_of(given) as admin:
        partitions = _matching(admin, wanted, given.has("exclude-internal-topics"))
        if not partitions:
            raise CommandRejected("Could not match any topic-partitions with the specified filters")
        found = admin.offsets(dict.fromkeys(partitions, place))
    for each in sorted(partitions, key=str):
        known = found[each]
        if isinstance(known, KafkaError):
            say(f"Skip getting offsets for topic-partition {each} due to error: {known.message}")
        elif isinstance(known, FoundOffset) and known.offset != NO_OFFSET:
            print(f"{each.topic}:{each.partition}:{known.offset}")


def _place(text: str) -> int:
    if text in PLACES:
        return int(PLACES[text])
    try:
        value = int(text)
    except ValueError:
        names = " / ".join(f"{int(at)} or {name}" for name, at in PLACES.items())
        raise CommandRejected(
            f"Malformed time argument {text}. Please use {names}, or a specified long format "
            "timestamp"
        ) from None
    if abs(value) > LONG_LAST:
        raise CommandRejected(f"Malformed time argument {text}: it is no timestamp")
    return value


def _wanted(given: GivenOptions) -> Wanted:
    rules = given.text("topic-partitions")
    if rules is not None:
        if given.any_of("topic", "partitions"):
            raise CommandRejected("--topic-partitions cannot be used with --topic or --partitions")
        parsed = [_rule(rule) for rule in rules.split(",")]
        return lambda each: any(rule(each) for rule in parsed)
    topics = TopicFilter(given.text("topic") or ".*")
    numbers = _numbers(given.text("partitions") or "")
    return lambda each: topics(each.topic) and (not numbers or each.partition in numbers)


def _numbers(text: str) -> frozenset[int]:
    try:
        return frozenset(int(each) for each in text.split(",") if text)
    except ValueError:
        raise CommandRejected(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{text}"
        ) from None


def _rule(text: str) -> Wanted:
    found = _RULE.fullmatch(text)
    if found is None:
        raise CommandRejected(f"Invalid rule specification: {text}")
    topic, only, first, last = found.groups()
    topics = TopicFilter(topic or ".*")
    if only:
        return lambda each: topics(each.topic) and each.partition == int(only)
    low, high = int(first or 0), int(last) if last else LONG_LAST
    return lambda each: topics(each.topic) and low <= each.partition < high


def _matching(admin: Admin, wanted: Wanted, without_internal: bool) -> list[TopicPartition]:
    return [
        each
        for topic in admin.list_topics()
        if visible(topic.name, None, without_internal=without_internal)
        for partition in topic.partitions
        if wanted(each := TopicPartition(topic.name, partition.partition))
    ]
