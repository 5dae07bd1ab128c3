"""`penstock config describe|set|unset|explain`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.completion import (
    complete_group,
    complete_key,
    complete_setting,
    complete_topic,
)
from penstock.cli.arguments.shared_options import on_cluster, with_format
from penstock.cli.config.keys import (
    explained_owner,
    note_missing_group,
    note_without_effect,
    unknown_keys,
    with_dynamic_sibling,
)
from penstock.cli.config.usage import check_pairs
from penstock.cli.connection.access import Access, access_of, connect
from penstock.cli.terminal.output import (
    CommandFailed,
    ExitCode,
    Format,
    Json,
    Row,
    WrongUsage,
    error_text,
    format_of,
    key_values,
    note,
    print_rows,
    print_value,
    report,
)
from penstock.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from penstock.client.values import ConfigChange, ConfigValue, Resource
    from penstock.config.key import Key

app = typer.Typer(
    help="Show, change and explain the settings of topics, groups and brokers.",
    no_args_is_help=True,
)

SOURCES = {
    1: "topic",
    2: "dynamic broker",
    3: "dynamic, all brokers",
    4: "static broker",
    5: "default",
    8: "group",
}
SOURCE_DEFAULT = 5

TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="NAME", autocompletion=complete_topic, help="A topic."),
]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", metavar="NAME", autocompletion=complete_group, help="A group."),
]
BrokerOption = Annotated[int | None, typer.Option("--broker", metavar="ID", help="One broker.")]
AllBrokersOption = Annotated[bool, typer.Option("--all-brokers", help="All brokers at once.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY", autocompletion=complete_key)]


def _resource(
    topic: str | None, group: str | None, broker: int | None, all_brokers: bool
) -> "Resource":
    from penstock.client.values import Resource, ResourceType

    if (topic is not None) + (group is not None) + (broker is not None) + all_brokers != 1:
        raise WrongUsage(
            "say whose settings: one of --topic NAME, --group NAME, --broker ID, --all-brokers"
        )
    if topic is not None:
        return Resource(ResourceType.TOPIC, topic)
    if group is not None:
        return Resource(ResourceType.GROUP, group)
    return Resource(ResourceType.BROKER, "" if broker is None else str(broker))


@app.command()
@on_cluster
def describe(
    context: typer.Context,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", autocompletion=complete_key)] = [],  # noqa: B006
    *,
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also the keys that have their default.")
    ] = False,
) -> None:
    """Show settings: those that somebody set, unless keys are named or --all is given."""
    resource = _resource(topic, group, broker, all_brokers)
    with connect(access_of(context)) as admin:
        found = admin.describe_configs([resource], keys=keys or None)[resource]
        if isinstance(found, KafkaError):
            raise explained_owner(admin, resource, found)
        unknown = unknown_keys(admin, resource, keys)
        note_missing_group(admin, resource)
    shown = sorted(found, key=lambda each: each.name)
    if not everything and not keys:
        shown = [each for each in shown if each.source != SOURCE_DEFAULT]
    rows = [_row(each) for each in shown]
    how = format_of(context)
    if rows or not unknown or how is not Format.TABLE:
        print_rows(how, ("name", "value", "source"), rows)
    for error in unknown.values():
        note(f"error: {resource}: {error_text(error)}")
    if unknown:
        raise typer.Exit(ExitCode.PARTIAL if rows else ExitCode.REJECTED)


def _row(value: "ConfigValue") -> Row:
    synonyms: list[Json] = [
        {"name": each.name, "value": each.value, "source": SOURCES.get(each.source, "other")}
        for each in value.synonyms
    ]
    return {
        "name": value.name,
        "value": "(hidden)" if value.sensitive else value.value,
        "source": SOURCES.get(value.source, "other"),
        "read_only": value.read_only,
        "sensitive": value.sensitive,
        "synonyms": synonyms,
    }


@app.command("set")
@on_cluster
def set_keys(
    context: typer.Context,
    pairs: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE", autocompletion=complete_setting)
    ],
    *,
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
) -> None:
    """Set keys of a topic, of a group, of one broker, or of all brokers."""
    from penstock.client.values import ConfigChange, Operation

    check_pairs(pairs, _owner_option(topic, group, broker, all_brokers))
    said = key_values(pairs, "set")
    changes = [ConfigChange(name, Operation.SET, value) for name, value in said.items()]
    resource = _resource(topic, group, broker, all_brokers)
    _change(access_of(context), format_of(context), resource, changes)
    note_without_effect(resource, said)


def _owner_option(
    topic: str | None, group: str | None, broker: int | None, all_brokers: bool
) -> str | None:
    """Return the option that names the owner of the settings, as typed; None if none is given."""
    if topic is not None:
        return f"--topic {topic}"
    if group is not None:
        return f"--group {group}"
    if broker is not None:
        return f"--broker {broker}"
    return "--all-brokers" if all_brokers else None


@app.command()
@on_cluster
def unset(
    context: typer.Context,
    keys: Keys,
    *,
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
) -> None:
    """Let keys have the value that they had before somebody set them."""
    from penstock.client.values import ConfigChange, Operation

    changes = [ConfigChange(key, Operation.DELETE) for key in keys]
    resource = _resource(topic, group, broker, all_brokers)
    _change(access_of(context), format_of(context), resource, changes)


def _change(
    access: Access, form: Format, resource: "Resource", changes: "list[ConfigChange]"
) -> None:
    from penstock.client.values import Operation

    removed = [each.name for each in changes if each.operation is Operation.DELETE]
    error: KafkaError | None
    with connect(access) as admin:
        try:
            error = next(iter(unknown_keys(admin, resource, removed).values()), None)
        except UnknownTopicOrPartition as missing:
            error = missing
        if error is None:
            error = admin.alter_configs({resource: changes})[resource]
        if error is not None:
            error = explained_owner(admin, resource, error)
        note_missing_group(admin, resource)
    if error is not None:
        error = with_dynamic_sibling(error, resource, changes)
    name = str(resource)
    report(form, [] if error else [name], {name: error} if error else {}, "changed")


@app.command()
@with_format
def explain(context: typer.Context, keys: Keys) -> None:
    """Say what keys mean here, their defaults and limits. Needs no server."""
    rows = [row for name in keys for row in _explained(name)]
    if format_of(context) is not Format.TABLE:
        print_value(format_of(context), list(rows))
        return
    for row in rows:
        print(f"{row['name']}  ({row['scope']} key)")
        print(f"  {row['documentation'] or 'Known by name.'}")
        for label in ("type", "default", "allowed", "changes", "from", "environment"):
            if row.get(label) is not None:
                print(f"  {label + ':':13}{row[label]}")
        print()


def _explained(name: str) -> list[Row]:
    from penstock.config.environment import variable_of_key
    from penstock.config.keys_group import allowed_text
    from penstock.config.table import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, nearest, removed_key

    rows: list[Row] = []
    if (key := TOPIC_KEYS.get(name)) is not None:
        rows.append({**_explained_key(key, "topic"), "from": _behind(key)})
    if (key := GROUP_KEYS.get(name)) is not None:
        limited: Row = {"allowed": allowed_text(key) or None, "from": _behind(key)}
        rows.append({**_explained_key(key, "group"), **limited})
    if (key := BROKER_KEYS.get(name)) is not None:
        more: Row = {"changes": key.mode.value, "environment": variable_of_key(name)}
        rows.append({**_explained_key(key, "broker"), **more})
    if rows:
        return rows
    if (gone := removed_key(name)) is not None:
        raise CommandFailed(f"{name}: {gone.way_out}")
    near = nearest(name, {**BROKER_KEYS, **TOPIC_KEYS, **GROUP_KEYS})
    hint = f"; did you mean {near}?" if near else ""
    raise CommandFailed(f"{name} is not a known key{hint}")


def _behind(key: "Key") -> str | None:
    return ", ".join(name for name, _ in key.synonyms) or None


def _explained_key(key: "Key", scope: str) -> Row:
    from penstock.config.values import to_text

    return {
        "name": key.name,
        "scope": scope,
        "type": key.type.name.lower(),
        "default": to_text(key.default),
        "allowed": key.allowed.text() if key.allowed is not None else None,
        "effect": key.effect.name.lower(),
        "documentation": key.documentation,
    }
