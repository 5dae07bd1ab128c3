"""`penstock topic create|list|describe|alter|delete|offsets|delete-records`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.completion import (
    complete_topic,
    complete_topic_key,
    complete_topic_setting,
)
from penstock.cli.arguments.known_names import PATTERN_HELP, explained_topics, matching, no_match
from penstock.cli.arguments.number_limits import INT16_MAX, INT32_MAX
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.config.keys import note_without_effect, unknown_keys
from penstock.cli.connection.access import Access, access_of, connect
from penstock.cli.connection.results import split_results, value_of
from penstock.cli.terminal.output import (
    Format,
    Json,
    Row,
    WrongUsage,
    YesOption,
    confirm,
    counted,
    exit_if_failed,
    format_of,
    key_values,
    note,
    print_rows,
    print_value,
    report,
)
from penstock.cli.topic.records import delete_records, offsets
from penstock.errors import (
    KafkaError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.model import id_to_text

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import TopicDescription

app = typer.Typer(
    help="Create, list, describe, alter and delete topics; show and move their offsets.",
    no_args_is_help=True,
)

NAMES_SHOWN_MAX = 10

NewNames = Annotated[list[str], typer.Argument(metavar="NAME")]
Names = Annotated[list[str], typer.Argument(metavar="NAME", autocompletion=complete_topic)]
ConfigOption = Annotated[
    list[str],
    typer.Option(
        "--config",
        metavar="KEY=VALUE",
        autocompletion=complete_topic_setting,
        help="A topic key; may be repeated.",
    ),
]


@app.command()
@on_cluster
def create(
    context: typer.Context,
    names: NewNames,
    *,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=INT32_MAX,
            help="Default: the server's num.partitions.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=INT16_MAX,
            help="Default: the server's default.replication.factor.",
        ),
    ] = None,
    configs: ConfigOption = [],  # noqa: B006 - typer only reads the default
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave topics alone that are there already.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Ask whether it could be done; do nothing.")
    ] = False,
) -> None:
    """Create topics."""
    from penstock.client.values import NewTopic, Resource, ResourceType

    settings = key_values(configs, "--config")
    new = [NewTopic(name, partitions or -1, replication_factor or -1, settings) for name in names]
    with connect(access_of(context)) as admin:
        results = admin.create_topics(new, validate_only=validate_only)
    failed = {name: each for name, each in results.items() if isinstance(each, KafkaError)}
    if if_not_exists:
        there = [n for n, each in failed.items() if isinstance(each, TopicAlreadyExists)]
        for name in there:
            note(f"{name}: there already")
            del failed[name], results[name]
    done = [name for name in results if name not in failed]
    if done:
        note_without_effect(Resource(ResourceType.TOPIC, done[0]), settings)
    report(format_of(context), done, failed, "valid" if validate_only else "created")


@app.command("list")
@on_cluster
def list_topics(
    context: typer.Context,
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help=f"Only these. {PATTERN_HELP}")
    ] = None,
    *,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also the topics that the server keeps for itself.")
    ] = False,
) -> None:
    """List topics, all of them or those that match a pattern."""
    with connect(access_of(context)) as admin:
        topics = {topic.name: topic for topic in admin.list_topics()}
    names = list(topics) if pattern is None else matching(pattern, topics, "PATTERN")
    rows = [_topic_row(topics[each]) for each in names if internal or not topics[each].internal]
    print_rows(format_of(context), ("name", "partitions", "replication_factor", "topic_id"), rows)
    if pattern is not None and not rows:
        note(no_match(pattern, counted(len(topics), "topic")))


def _topic_row(topic: "TopicDescription") -> Row:
    return {
        "name": topic.name,
        "topic_id": id_to_text(topic.topic_id),
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


@app.command()
@on_cluster
def describe(
    context: typer.Context,
    names: Names = [],  # noqa: B006
) -> None:
    """Describe topics, all of them unless named: partitions, leaders, replicas, settings."""
    with connect(access_of(context)) as admin:
        wanted = names or [topic.name for topic in admin.list_topics() if not topic.internal]
        found, errors = split_results(_with_eligible_leaders(admin, wanted))
        described = list(found.values())
        settings = {topic.name: _own_settings(admin, topic.name) for topic in described}
        failed = explained_topics(admin, errors)
    rows = [_described_row(topic, settings[topic.name]) for topic in described]
    if format_of(context) is not Format.TABLE:
        print_value(format_of(context), list(rows))
    else:
        for topic in described:
            _print_described(topic, settings[topic.name])
    exit_if_failed(failed, some_done=bool(described))


def _with_eligible_leaders(
    admin: "Admin", names: list[str]
) -> "dict[str, TopicDescription | KafkaError]":
    """Return descriptions, with eligible leaders if the server reports them."""
    try:
        return admin.describe_topic_partitions(names)
    except UnsupportedVersion:
        return admin.describe_topics(names)


def _own_settings(admin: "Admin", name: str) -> dict[str, str | None]:
    from penstock.client.values import Resource, ResourceType

    resource = Resource(ResourceType.TOPIC, name)
    values = value_of(admin.describe_configs([resource])[resource])
    return {each.name: each.value for each in values if each.source == _SOURCE_TOPIC}


_SOURCE_TOPIC = 1


def _described_row(topic: "TopicDescription", settings: dict[str, str | None]) -> Row:
    partitions: list[Json] = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
            "offline": list(each.offline),
            "eligible_leaders": _ids(each.eligible_leaders),
            "last_known_leaders": _ids(each.last_known_leaders),
        }
        for each in topic.partitions
    ]
    return {**_topic_row(topic), "configs": {**settings}, "partitions": partitions}


def _print_described(topic: "TopicDescription", settings: dict[str, str | None]) -> None:
    said = ", ".join(f"{name}={value}" for name, value in settings.items()) or "none of its own"
    print(f"{topic.name}  (id {id_to_text(topic.topic_id)}, settings: {said})")
    rows: list[Row] = [
        {
            "partition": each.partition,
            "leader": each.leader if each.leader >= 0 else None,
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
            "eligible_leaders": _ids(each.eligible_leaders),
        }
        for each in topic.partitions
    ]
    columns = ("partition", "leader", "replicas", "in_sync", "eligible_leaders")
    print_rows(Format.TABLE, columns, rows)
    print()


def _ids(brokers: tuple[int, ...] | None) -> Json:
    return None if brokers is None else list(brokers)


@app.command()
@on_cluster
def alter(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_topic)],
    *,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, max=INT32_MAX, help="The new, larger total."),
    ] = None,
    configs: ConfigOption = [],  # noqa: B006
    delete_configs: Annotated[
        list[str],
        typer.Option(
            "--delete-config",
            metavar="KEY",
            autocompletion=complete_topic_key,
            help="Back to the broker's value.",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Add partitions to a topic, or change its settings."""
    from penstock.client.values import ConfigChange, Operation, Resource, ResourceType

    settings = key_values(configs, "--config")
    changes = [ConfigChange(key, Operation.SET, value) for key, value in settings.items()]
    changes += [ConfigChange(key, Operation.DELETE) for key in delete_configs]
    if partitions is None and not changes:
        raise WrongUsage("nothing to alter; say --partitions, --config or --delete-config")
    results: dict[str, KafkaError | None] = {}
    error: KafkaError | None
    with connect(access_of(context)) as admin:
        if partitions is not None:
            results[f"{name} partitions"] = admin.create_partitions({name: partitions})[name]
        if changes:
            resource = Resource(ResourceType.TOPIC, name)
            unknown = unknown_keys(admin, resource, delete_configs)
            error = next(iter(unknown.values()), None)
            if error is None:
                error = admin.alter_configs({resource: changes})[resource]
            if error is None:
                note_without_effect(resource, settings)
            results[f"{name} settings"] = error
        failed = explained_topics(
            admin, {what: error for what, error in results.items() if error is not None}
        )
    report(format_of(context), [n for n in results if n not in failed], failed, "altered")


@app.command()
@on_cluster
def delete(
    context: typer.Context,
    names: Names,
    *,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Topics that are not there are no error.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete topics with all their records."""
    access = access_of(context)
    _confirm(access, names, yes=yes)
    with connect(access) as admin:
        results = admin.delete_topics(names)
        failed = {name: error for name, error in results.items() if error is not None}
        if if_exists:
            missing = [n for n, each in failed.items() if isinstance(each, UnknownTopicOrPartition)]
            for name in missing:
                note(f"{name}: not there")
                del failed[name], results[name]
        failed = explained_topics(admin, failed)
    done = [name for name in results if name not in failed]
    report(format_of(context), done, failed, "deleted")


def _confirm(access: Access, names: list[str], *, yes: bool) -> None:
    named = ", ".join(names[:NAMES_SHOWN_MAX]) + (", ..." if len(names) > NAMES_SHOWN_MAX else "")
    topics = f"{counted(len(names), 'topic')} with all records"
    confirm(f"Delete {topics} at {access.where}: {named}?", yes=yes)


app.command()(offsets)
app.command("delete-records")(delete_records)
