"""kafka-topics: makes, lists, describes, grows and deletes topics."""

import re
from collections.abc import Sequence

from penstock.cli.connection.results import raise_first, value_of
from penstock.cli.kafka.framework.client_options import BOOTSTRAP_SERVER, COMMAND_CONFIG, admin_of
from penstock.cli.kafka.framework.options import INT_LAST, GivenOptions, Option, whole
from penstock.cli.kafka.framework.runner import (
    CommandRejected,
    UsageRejected,
    command,
    exclude,
    message_of,
    one_action,
    require,
    say,
)
from penstock.cli.kafka.framework.topic_filter import TopicFilter, visible
from penstock.cli.kafka.topic.view import TopicReport, describe_lines
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import Reassignment
from penstock.client.values import NewTopic, Resource, ResourceType, TopicDescription
from penstock.errors import (
    ClusterAuthorizationFailed,
    KafkaError,
    TopicAlreadyExists,
    UnsupportedVersion,
)
from penstock.model import ZERO_ID, TopicPartition, id_from_text

SHORT_LAST = 2**15 - 1
PARTITIONS_PER_ANSWER = 2_000
ACTIONS = ("list", "describe", "create", "alter", "delete")
REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
WHERE_TO_ALTER = " (To alter topic configurations, use kafka-configs.)"

OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Option("list", "Print the names of topics."),
    Option("create", "Make a topic."),
    Option("delete", "Delete topics."),
    Option("alter", "Give topics more partitions."),
    Option("describe", "Print topics with their partitions."),
    Option(
        "topic",
        "The topic; a regular expression but for --create, and then `\\.` is a dot.",
        "String: topic",
    ),
    Option("topic-id", "The id of the topic to describe.", "String: topic-id"),
    Option("config", "A key of the new topic's configuration.", "String: name=value"),
    Option("delete-config", "Has no effect: kafka-configs changes topics.", "String: name"),
    Option(
        "partitions",
        "How many partitions. More of them send keys to other partitions than before.",
        "Integer: # of partitions",
    ),
    Option("replication-factor", "How many replicas.", "Integer: replication factor"),
    Option(
        "replica-assignment",
        "The brokers of each partition: 1:2,2:3 for two partitions of two replicas.",
        "String: broker_id:broker_id,...",
    ),
    Option("under-replicated-partitions", "Only partitions that miss replicas."),
    Option("unavailable-partitions", "Only partitions without a leader."),
    Option("under-min-isr-partitions", "Only partitions that refuse acks=all."),
    Option("at-min-isr-partitions", "Only partitions that are about to refuse acks=all."),
    Option("topics-with-overrides", "Only topics with settings of their own."),
    Option("if-exists", "Alter, delete and describe do nothing where there is no such topic."),
    Option("if-not-exists", "Create does nothing where the topic is there already."),
    Option("exclude-internal", "Leave out the topics that the cluster made for itself."),
    Option(
        "partition-size-limit-per-response",
        "How many partitions to ask for at once.",
        "Integer: maximum number of partitions per response",
    ),
)


def _failed(problem: Exception) -> None:
    print(f"Error while executing topic command : {message_of(problem)}")


@command(
    "kafka-topics",
    "Makes, lists, describes, grows and deletes topics.",
    OPTIONS,
    failed=_failed,
    usage_on_error=False,
)
def main(given: GivenOptions) -> None:
    action = one_action(given, *ACTIONS)
    if given.has("delete-config"):
        say("note: --delete-config has no effect: kafka-configs --alter --delete-config does it")
    _check(given, action)
    with admin_of(given) as admin:
        match action:
            case "create":
                _create(admin, given)
            case "alter":
                _alter(admin, given)
            case "list":
                print("\n".join(_names(admin, given)))
            case "describe":
                _describe(admin, given)
            case _:
                _delete(admin, given)


# -- allowed combinations


def _check(given: GivenOptions, action: str) -> None:
    require(given, "bootstrap-server")
    if action == "describe" and given.has("if-exists"):
        if not given.any_of("topic", "topic-id"):
            raise UsageRejected("--topic or --topic-id is required to describe a topic")
    if action not in ("list", "describe"):
        require(given, "topic")
    if action == "alter":
        if given.has("config"):
            raise UsageRejected(
                'Option combination "[bootstrap-server],[config]" can\'t be used with option '
                f'"[alter]"{WHERE_TO_ALTER}'
            )
        require(given, "partitions")
    for option, allowed in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("create", "alter")),
        *((report, ("describe",)) for report in REPORTS),
        ("topics-with-overrides", ("describe",)),
        ("if-exists", ("alter", "delete", "describe")),
        ("if-not-exists", ("create",)),
        ("exclude-internal", ("list", "describe")),
    ):
        exclude(given, option, *(each for each in ACTIONS if each not in allowed))
    if action == "create":
        exclude(given, "replica-assignment", "partitions", "replication-factor")
    for report in REPORTS:
        others = [each for each in REPORTS if each != report]
        exclude(given, report, *others, "topics-with-overrides")


# -- arguments


def _names(admin: Admin, given: GivenOptions) -> list[str]:
    """Return the topics of --topic and --exclude-internal."""
    chosen = given.text("topic")
    wanted = None if chosen is None else TopicFilter(chosen)
    without_internal = given.has("exclude-internal")
    return [
        topic.name
        for topic in admin.list_topics()
        if visible(topic.name, wanted, without_internal=without_internal)
    ]


def _existing(admin: Admin, given: GivenOptions) -> list[str]:
    names = _names(admin, given)
    said = given.text("topic")
    if said and not names and not given.has("if-exists"):
        raise CommandRejected(f"Topic '{said}' does not exist as expected")
    return names


def _assignments(given: GivenOptions) -> dict[int, list[int]]:
    """Parse `0:1,1:2`: the brokers of partition 0, then those of partition 1."""
    text = given.text("replica-assignment") or ""
    found: dict[int, list[int]] = {}
    for partition, brokers in enumerate(text.split(",") if text else ()):
        try:
            ids = [whole(each, INT_LAST) for each in brokers.split(":")]
        except ValueError:
            raise CommandRejected(
                f"--replica-assignment {text}: {brokers!r} is not broker ids with colons between"
            ) from None
        repeated = sorted({each for each in ids if ids.count(each) > 1})
        if repeated:
            listed = ", ".join(map(str, repeated))
            raise CommandRejected(
                f"Partition replica lists may not contain duplicate entries: {listed}"
            )
        if found and len(ids) != len(found[0]):
            raise CommandRejected(f"Partition {partition} has different replication factor: {ids}")
        found[partition] = ids
    return found


def _configs(given: GivenOptions) -> dict[str, str]:
    pairs = [re.split(r"\s*=\s*", text) for text in given.texts("config")]
    if any(len(pair) != 2 or not pair[1] for pair in pairs):
        raise CommandRejected(
            'Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    return {key.strip(): value.strip() for key, value in pairs}


# -- actions


def _create(admin: Admin, given: GivenOptions) -> None:
    name = given.required("topic")
    if "." in name or "_" in name:
        print(
            "WARNING: topics with a period ('.') or underscore ('_') could collide in metric "
            "names: use either, but not both."
        )
    factor, partitions = given.number("replication-factor"), given.number("partitions")
    if factor is not None and not 1 <= factor <= SHORT_LAST:
        raise CommandRejected(
            f"The replication factor must be between 1 and {SHORT_LAST} inclusive"
        )
    if partitions is not None and partitions < 1:
        raise CommandRejected("The partitions must be greater than 0")
    topic = NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if factor is None else factor,
        _configs(given),
        _assignments(given),
    )
    made = admin.create_topics([topic])[name]
    if isinstance(made, TopicAlreadyExists) and given.has("if-not-exists"):
        return
    value_of(made)
    print(f"Created topic {name}.")


def _alter(admin: Admin, given: GivenOptions) -> None:
    total = given.number("partitions")
    assert total is not None, "--alter requires it"
    assignments = _assignments(given)
    names = _existing(admin, given)
    if not names:
        return
    new: dict[str, list[list[int]]] = {}
    if assignments:
        for name, topic in admin.describe_topics(names).items():
            known = 0 if isinstance(topic, KafkaError) else len(topic.partitions)
            new[name] = [brokers for at, brokers in assignments.items() if at >= known]
    raise_first(admin.create_partitions(dict.fromkeys(names, total), assignments=new))


def _delete(admin: Admin, given: GivenOptions) -> None:
    names = _existing(admin, given)
    if names:
        raise_first(admin.delete_topics(names))


def _describe(admin: Admin, given: GivenOptions) -> None:
    names = _described(admin, given)
    topics = _with_partitions(admin, names, given).values()
    configs = admin.describe_configs([Resource(ResourceType.TOPIC, name) for name in names])
    report = TopicReport(
        partitions=next((each for each in REPORTS if given.has(each)), None),
        overrides_only=given.has("topics-with-overrides"),
        live=frozenset(broker.node_id for broker in admin.brokers),
    )
    moving = _moving(admin)
    for topic in map(value_of, topics):
        values = value_of(configs[Resource(ResourceType.TOPIC, topic.name)])
        for line in describe_lines(topic, values, moving, report):
            print(line)


def _described(admin: Admin, given: GivenOptions) -> list[str]:
    """Return the topics of --topic-id, else of --topic."""
    said = given.text("topic-id")
    if said is None:
        return _existing(admin, given)
    try:
        wanted = id_from_text(said)
    except ValueError as problem:
        raise CommandRejected(str(problem)) from None
    if wanted == ZERO_ID:
        return _existing(admin, given)
    if given.has("topic"):
        print("Only topic id will be used when both --topic and --topic-id are specified")
    names = [
        topic.name
        for topic in admin.list_topics()
        if topic.topic_id == wanted
        and visible(topic.name, None, without_internal=given.has("exclude-internal"))
    ]
    if not names and not given.has("if-exists"):
        raise CommandRejected(f"TopicId '{said}' does not exist as expected")
    return names


def _with_partitions(
    admin: Admin, names: Sequence[str], given: GivenOptions
) -> dict[str, TopicDescription | KafkaError]:
    """Return descriptions, with eligible leaders if the server reports them."""
    page = given.number("partition-size-limit-per-response") or PARTITIONS_PER_ANSWER
    try:
        return admin.describe_topic_partitions(names, page_partitions=page)
    except UnsupportedVersion:
        return admin.describe_topics(names)


def _moving(admin: Admin) -> dict[TopicPartition, Reassignment]:
    try:
        return admin.reassignments.list_all()
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return {}
