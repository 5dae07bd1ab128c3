"""kafka-configs: shows and changes settings of topics, brokers, groups, users and clients."""

import re
from collections.abc import Iterator, Mapping, Sequence

from penstock.cli.connection.results import value_of
from penstock.cli.kafka.config.entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    CLIENTS,
    GROUPS,
    IPS,
    TOPICS,
    USERS,
    WITH_DEFAULTS,
    Entities,
    entities_of,
)
from penstock.cli.kafka.config.quotas import alter_quotas, describe_quotas
from penstock.cli.kafka.framework.client_options import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    admin_of_either,
    read_properties,
)
from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.runner import (
    FAILED,
    OK,
    CommandRejected,
    command,
    exclude,
    message_of,
    one_action,
    print_message,
    say,
)
from penstock.client.admin.blocking import Admin
from penstock.client.failures import ClientError
from penstock.client.transport.connection import CannotReach
from penstock.client.values import ConfigChange, ConfigValue, Operation, Resource, ResourceType
from penstock.errors import KafkaError

SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
# The source of an entity's own settings; a broker without a name stands for all brokers.
OWN_SOURCE = {TOPICS: 1, BROKERS: 2, CLIENT_METRICS: 7, GROUPS: 8}
DEFAULT_BROKER_SOURCE = 3
RESOURCES = {
    TOPICS: ResourceType.TOPIC,
    BROKERS: ResourceType.BROKER,
    BROKER_LOGGERS: ResourceType.BROKER_LOGGER,
    CLIENT_METRICS: ResourceType.CLIENT_METRICS,
    GROUPS: ResourceType.GROUP,
}
# Types whose missing entities are reported.
LISTED = (TOPICS, CLIENT_METRICS, GROUPS)
# Commas and equals signs within [] are part of a value.
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"

OPTIONS = (
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    Option("alter", "Change settings."),
    Option("describe", "Print settings."),
    Option("all", "Print defaults, too."),
    Option("entity-type", "topics, clients, users, brokers, ips, groups, ...", "String"),
    Option("entity-name", "The name of the topic, client, user, ..., or a broker's id.", "String"),
    Option("entity-default", "The default of clients, users, brokers or ips, not one of them."),
    Option(
        "add-config",
        "Keys and values: k1=v1,k2=[v1,v2],k3=v3. `penstock config explain KEY` tells of a key.",
        "String",
    ),
    Option("add-config-file", "A properties file of keys and values.", "String"),
    Option("delete-config", "Keys to take back: k1,k2.", "String", separator=","),
    Option("topic", "A topic.", "String"),
    Option("client", "A client.id.", "String"),
    Option("client-defaults", "All clients that have nothing of their own."),
    Option("user", "A user.", "String"),
    Option("user-defaults", "All users that have nothing of their own."),
    Option("broker", "A broker's id.", "String"),
    Option("broker-defaults", "All brokers."),
    Option("broker-logger", "A broker's id, for its loggers.", "String"),
    Option("ip-defaults", "All addresses that have nothing of their own."),
    Option("ip", "An address that clients come from.", "String"),
    Option("group", "A group.", "String"),
    Option("client-metrics", "A subscription of client metrics.", "String"),
)


@command(
    "kafka-configs",
    "Shows and changes settings of topics, brokers, groups, users and clients.",
    OPTIONS,
    failed=print_message,
    usage_on_error=False,
)
def main(given: GivenOptions) -> int:
    action = one_action(given, "describe", "alter")
    exclude(given, "describe", "add-config", "delete-config")
    entities = entities_of(given)
    _check(given, entities, action)
    try:
        with admin_of_either(given) as admin:
            if action == "alter":
                _alter(admin, entities, _added(given), _deleted(given))
            else:
                _describe(admin, entities, everything=given.has("all"))
    except (KafkaError, CannotReach, ClientError) as problem:
        kind = f"{problem.kafka_name()}: " if isinstance(problem, KafkaError) else ""
        say(f"Error while executing config command with args '{' '.join(given.arguments)}'")
        say(f"{kind}{message_of(problem)}")
        return FAILED
    return OK


# -- arguments


def _check(given: GivenOptions, entities: Entities, action: str) -> None:
    listed = ",".join(entities.types)
    named = any(entities.names)
    with_defaults = any(each in WITH_DEFAULTS for each in entities.types)
    if action == "describe":
        if given.has("entity-default") and not with_defaults:
            raise CommandRejected(
                f"--entity-default must not be specified with --describe of {listed}"
            )
        if BROKER_LOGGERS in entities.types and not named:
            raise CommandRejected(f"An entity name must be specified with --describe of {listed}")
        return
    if with_defaults and not entities.names:
        raise CommandRejected(
            "An entity-name or default entity must be specified with --alter of users, clients, "
            "brokers or ips"
        )
    if not with_defaults and not named:
        raise CommandRejected(f"An entity name must be specified with --alter of {listed}")
    if len(entities.types) != len(entities.names):
        raise CommandRejected("An entity name must be specified for every entity type")
    if given.has("add-config") and given.has("add-config-file"):
        raise CommandRejected("Only one of --add-config or --add-config-file must be specified")
    if not given.any_of("add-config", "add-config-file", "delete-config"):
        raise CommandRejected(
            "At least one of --add-config, --add-config-file, or --delete-config must be "
            "specified with --alter"
        )


def _added(given: GivenOptions) -> dict[str, str]:
    added = read_properties(given.text("add-config-file"))
    text = given.text("add-config")
    for pair in re.split("," + _OUTSIDE_BRACKETS, text) if text else ():
        parts = re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, pair)
        if len(parts) != 2:
            raise CommandRejected(
                "Invalid entity config: all configs to be added must be in the format "
                '"key=val" or "key=[val1,val2]" to group values which contain commas.'
            )
        added[parts[0].strip()] = parts[1].replace("[", "").replace("]", "").strip()
    for key in added:
        if not re.fullmatch(r"[$a-zA-Z0-9._-]*", key):
            raise CommandRejected(f"Invalid character found for config key: {key}")
    return added


def _deleted(given: GivenOptions) -> list[str]:
    return [each.strip() for each in given.texts("delete-config")]


# -- describing


def _describe(admin: Admin, entities: Entities, *, everything: bool) -> None:
    if entities.type in (USERS, CLIENTS, IPS):
        describe_quotas(admin, entities)
        return
    kind = entities.type
    # All settings of a broker come from the broker itself, so its answer shows whether it exists.
    listed = kind in LISTED or (kind in (BROKERS, BROKER_LOGGERS) and not everything)
    if entities.name and listed and entities.name not in _all_of(admin, kind):
        what = f"The {kind.removesuffix('s')} '{entities.name}'"
        print(f"{what} doesn't exist and doesn't have dynamic config.")
        return
    for name in [entities.name] if entities.name is not None else _all_of(admin, kind):
        if name or kind != BROKERS:
            which = "All" if everything else "Dynamic"
            print(f"{which} configs for {kind.removesuffix('s')} {name} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        for value in _values(admin, kind, name, everything=everything):
            print(_value_line(value))


def _all_of(admin: Admin, kind: str) -> list[str]:
    match kind:
        case "topics":
            return [topic.name for topic in admin.list_topics()]
        case "brokers" | "broker-loggers":
            cluster = admin.describe_cluster()
            return [*(str(broker.node_id) for broker in cluster.brokers), ""]
        case _:
            found = {each.name for each in admin.list_config_resources([RESOURCES[kind]])}
            if kind == GROUPS:
                found |= {each.group_id for each in admin.groups.list_all()}
            return sorted(found)


def _values(admin: Admin, kind: str, name: str, *, everything: bool) -> Iterator[ConfigValue]:
    resource = Resource(RESOURCES[kind], name)
    found = value_of(admin.describe_configs([resource])[resource])
    own = OWN_SOURCE.get(kind)
    if kind == BROKERS and not name:
        own = DEFAULT_BROKER_SOURCE
    for value in sorted(found, key=lambda each: each.name):
        if everything or own is None or value.source == own:
            yield value


def _value_line(value: ConfigValue) -> str:
    synonyms = ", ".join(
        f"{SOURCES.get(each.source, 'UNKNOWN')}:{each.name}={_shown(each.value)}"
        for each in value.synonyms
    )
    sensitive = str(value.sensitive).lower()
    return f"  {value.name}={_shown(value.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _shown(value: str | None) -> str:
    return "null" if value is None else value


# -- altering


def _alter(
    admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if entities.type in (USERS, CLIENTS, IPS):
        alter_quotas(admin, entities, added, deleted)
    else:
        _alter_resource(admin, entities, added, deleted)
    name = entities.name
    if name:
        print(f"Completed updating config for {entities.type.removesuffix('s')} {name}.")
    else:
        print(f"Completed updating default config for {entities.type} in the cluster.")


def _alter_resource(
    admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    kind, name = entities.type, entities.name or ""
    if kind == BROKER_LOGGERS:
        known = {value.name for value in _values(admin, kind, name, everything=False)}
        unknown = [each for each in (*deleted, *added) if each not in known]
        if unknown:
            raise CommandRejected(f"Invalid broker logger(s): {','.join(unknown)}")
    resource = Resource(RESOURCES[kind], name)
    changes = [ConfigChange(key, Operation.SET, value) for key, value in added.items()]
    changes += [ConfigChange(key, Operation.DELETE) for key in deleted]
    value_of(admin.alter_configs({resource: changes})[resource])
