"""kafka-consumer-groups: lists, describes and deletes groups, resets and deletes offsets."""

import re
from collections.abc import Mapping

from penstock.cli.connection.results import value_of
from penstock.cli.kafka.framework.client_options import COMMAND_CONFIG, admin_of
from penstock.cli.kafka.framework.options import GivenOptions, Option
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
from penstock.cli.kafka.group.deletion import delete_groups, delete_offsets
from penstock.cli.kafka.group.reset import AIMS, reset
from penstock.cli.kafka.group.tables import (
    OffsetRow,
    members_table,
    offsets_table,
    print_error,
    states_table,
)
from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
)
from penstock.client.failures import ClientError
from penstock.client.transport.connection import CannotReach
from penstock.client.values import At, FoundOffset
from penstock.errors import GroupIdNotFound, KafkaError
from penstock.model import TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
NOT_WITH_GROUP = ("list", "delete-offsets", "validate-regex")
STATES = {
    name.lower(): name
    for name in (
        "Unknown",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
        "Empty",
        "Assigning",
        "Reconciling",
    )
}
TYPES = {"classic": "Classic", "consumer": "Consumer"}
GROUP_WIDTH_MIN = 15

OPTIONS = (
    Option("bootstrap-server", "A server of the cluster, or several.", "String: host:port,..."),
    Option("group", "The group; may come again.", "String: consumer group"),
    Option("topic", "A topic, or some of its partitions: orders:0,2.", "String: topic"),
    Option("all-topics", "All topics that the group has committed."),
    Option("list", "Print the names of groups."),
    Option("describe", "Print members, offsets and lag."),
    Option("all-groups", "Every group."),
    Option("delete", "Delete groups that have no members."),
    Option("timeout", "How long to wait for an answer.", "Long: timeout (ms)", "5000"),
    COMMAND_CONFIG,
    Option("reset-offsets", "Move what groups without members have committed."),
    Option("delete-offsets", "Forget what a group has committed of some topics."),
    Option("dry-run", "Only print what --reset-offsets would do."),
    Option("execute", "Do what --reset-offsets says."),
    Option("export", "Print new offsets as lines for --from-file."),
    Option("to-offset", "To this offset.", "Long: offset"),
    Option("from-file", "To what this file lists.", "String: path to CSV file"),
    Option("to-datetime", "To a time: 2026-01-31T12:00:00.000.", "String: datetime"),
    Option("by-duration", "To so long ago: P1DT2H.", "String: duration"),
    Option("to-earliest", "To the start."),
    Option("to-latest", "To the end."),
    Option("to-current", "To where they are; where nothing is committed, to the end."),
    Option("shift-by", "On by so many, or back.", "Long: number-of-offsets"),
    Option("members", "Print members.", only_with=("describe",)),
    Option("verbose", "Print more of it.", only_with=("members", "state", "offsets")),
    Option(
        "offsets", "Print offsets and lag, which is what --describe does.", only_with=("describe",)
    ),
    Option(
        "state",
        "Print states; with --list, only groups in these.",
        "String",
        optional=True,
        only_with=("describe", "list"),
    ),
    Option(
        "type",
        "Print types; with --list, only groups of these.",
        "String",
        optional=True,
        only_with=("list",),
    ),
    Option(
        "validate-regex",
        "Say whether this is an expression that groups can subscribe to.",
        "String: regex",
    ),
)


@command(
    "kafka-consumer-groups",
    "Lists and describes groups, moves and deletes what they have committed.",
    OPTIONS,
)
def main(given: GivenOptions) -> None:
    action = one_action(given, *ACTIONS)
    if action == "validate-regex":
        _validate(given.required("validate-regex"))
        return
    require(given, "bootstrap-server")
    _check(given, action)
    try:
        _act(given, action)
    except (KafkaError, CannotReach, ClientError, CommandRejected) as problem:
        # Kafka's tool prints the error and exits with 0.
        print_error(f"Executing consumer group command failed due to {message_of(problem)}")


def _act(given: GivenOptions, action: str) -> None:
    with admin_of(given) as admin, admin.within((given.long("timeout") or 0) / 1000):
        match action:
            case "list":
                _list(admin, given)
            case "describe":
                _describe(admin, given)
            case "delete":
                delete_groups(admin, _chosen(admin, given))
            case "reset-offsets":
                reset(admin, given, _chosen(admin, given))
            case _:
                delete_offsets(admin, given)


# -- arguments


def _check(given: GivenOptions, action: str) -> None:
    scope = "[group], [all-groups]"
    match action:
        case "describe":
            if not given.any_of("group", "all-groups"):
                raise UsageRejected(f"Option [describe] takes one of these options: {scope}")
            if sum(map(given.has, ("members", "offsets", "state"))) > 1:
                raise UsageRejected(
                    "Option [describe] takes at most one of these options: [members], "
                    "[offsets], [state]"
                )
            if given.has("state") and given.text("state") is not None:
                raise UsageRejected("Option [describe] does not take a value for [state]")
        case "delete":
            if not given.any_of("group", "all-groups"):
                raise UsageRejected(f"Option [delete] takes one of these options: {scope}")
            if given.has("topic"):
                raise UsageRejected(
                    "Groups are deleted as a whole; --delete-offsets is for some topics of one."
                )
        case "delete-offsets":
            if not given.has("group") or not given.has("topic"):
                raise UsageRejected(
                    "Option [delete-offsets] takes the following options: [group], [topic]"
                )
        case "reset-offsets":
            _check_reset(given, scope)
        case _:
            exclude(given, "group", *NOT_WITH_GROUP[:1])
    exclude(given, "group", "all-groups")
    exclude(given, "topic", "list", "describe")


def _check_reset(given: GivenOptions, scope: str) -> None:
    if given.has("dry-run") and given.has("execute"):
        raise UsageRejected("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not given.any_of("dry-run", "execute"):
        say("WARN: without --execute nothing is changed; say --dry-run if that is what you want.")
    if not given.any_of("group", "all-groups"):
        raise UsageRejected(f"Option [reset-offsets] takes one of these options: {scope}")
    for aim in AIMS:
        exclude(given, aim, *(each for each in AIMS if each != aim))


def _validate(expression: str) -> None:
    try:
        re.compile(expression)
    except re.error as problem:
        print(f"The regular expression `{expression}` is invalid: {problem}.")
    else:
        print(f"The regular expression `{expression}` is valid.")


def _chosen(admin: Admin, given: GivenOptions) -> list[str]:
    if given.has("all-groups"):
        return [each.group_id for each in admin.groups.list_all() if _is_consumers(each)]
    return list(dict.fromkeys(given.texts("group")))


def _is_consumers(listing: GroupListing) -> bool:
    """Return whether a group has consumers or only commits; Connect's groups are excluded."""
    return listing.protocol_type in ("consumer", "")


# -- listing


def _list(admin: Admin, given: GivenOptions) -> None:
    states = _names("state", given.text("state"), STATES)
    types = _names("types", given.text("type"), TYPES)
    found = [
        each
        for each in admin.groups.list_all(states=states, types=[each.lower() for each in types])
        if _is_consumers(each)
    ]
    if not given.any_of("state", "type"):
        for each in found:
            print(each.group_id)
        return
    width = max((len(each.group_id) for each in found), default=0)
    width = max(width, GROUP_WIDTH_MIN) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(each.group_id, TYPES.get(each.type, each.type), each.state) for each in found]
    for group, kind, state in rows:
        line = f"{group:<{width}}"
        line += f" {kind:<20}" if given.has("type") else ""
        line += f" {state:<20}" if given.has("state") else ""
        print(line)


def _names(what: str, text: str | None, known: Mapping[str, str]) -> list[str]:
    if not text:
        return []
    names = [each.strip().lower() for each in text.split(",")]
    if any(each not in known or each == "unknown" for each in names):
        valid = ", ".join(name for key, name in known.items() if key != "unknown")
        raise UsageRejected(f"Invalid {what} list '{text}'. Valid {what}s are: {valid}")
    return [known[each] for each in names]


# -- describing


def _describe(admin: Admin, given: GivenOptions) -> None:
    names = sorted(_chosen(admin, given))
    verbose = given.has("verbose")
    for name, found in admin.groups.describe(names).items():
        if isinstance(found, GroupIdNotFound):
            print_error(f"Consumer group '{name}' does not exist.")
            continue
        group = value_of(found)
        _say_state(group)
        if given.has("members"):
            lines = members_table(group, verbose=verbose)
        elif given.has("state"):
            lines = states_table(group, _coordinator(admin, group), verbose=verbose)
        else:
            lines = offsets_table(_offset_rows(admin, group), verbose=verbose)
        for line in lines:
            print(line)


def _say_state(group: GroupDescription) -> None:
    match group.state:
        case "Empty":
            say(f"\nConsumer group '{group.group_id}' has no active members.")
        case "PreparingRebalance" | "CompletingRebalance" | "Assigning" | "Reconciling":
            say(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")


def _coordinator(admin: Admin, group: GroupDescription) -> str:
    for broker in admin.brokers:
        if broker.node_id == group.coordinator:
            return f"{broker.host}:{broker.port}  ({broker.node_id})"
    return f"({group.coordinator})"


def _offset_rows(admin: Admin, group: GroupDescription) -> list[OffsetRow]:
    """Return rows by member, the largest assignment first, then unassigned partitions."""
    committed = admin.groups.offsets(group.group_id)
    assigned = {each for member in group.members for each in member.assigned}
    left = [each for each in committed if each not in assigned]
    ends = admin.offsets(dict.fromkeys([*assigned, *left], At.END)) if assigned or left else {}
    rows: list[OffsetRow] = []
    members = sorted(group.members, key=lambda each: -len(each.assigned))
    for member in (*members, None):
        partitions = left if member is None else member.assigned
        rows += [
            _offset_row(group.group_id, each, committed.get(each), ends.get(each), member)
            for each in sorted(partitions, key=lambda each: each.partition)
        ]
    return rows


def _offset_row(
    group: str,
    partition: TopicPartition,
    known: CommittedOffset | None,
    end: FoundOffset | KafkaError | None,
    member: GroupMember | None,
) -> OffsetRow:
    log_end = end.offset if isinstance(end, FoundOffset) else None
    reader = ("-", "-", "-")
    if member is not None:
        reader = (member.member_id, f"/{member.host}", member.client_id)
    return OffsetRow(
        group,
        partition,
        None if known is None or known.leader_epoch < 0 else known.leader_epoch,
        None if known is None else known.offset,
        log_end,
        None if known is None or log_end is None else log_end - known.offset,
        *reader,
    )
