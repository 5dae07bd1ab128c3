"""`penstock acl allow|deny|list|remove|explain`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.acl.bindings import (
    AclChoice,
    ResourceKind,
    bindings_of,
    operation_of,
    principal_of,
)
from penstock.cli.acl.effects import (
    AccessRules,
    AccessSettings,
    changed_access,
    known_principals,
)
from penstock.cli.arguments.completion import complete_group, complete_topic
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.results import raise_first, value_of
from penstock.cli.terminal.output import (
    DryRunOption,
    ExitCode,
    Format,
    Row,
    WrongUsage,
    YesOrExecuteOption,
    confirm,
    counted,
    format_of,
    note,
    print_rows,
    print_value,
)
from penstock.credentials.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    AclPermission,
    PatternType,
)
from penstock.errors import KafkaError

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

app = typer.Typer(
    help="Allow and deny users what they may do, and explain who may.", no_args_is_help=True
)

COLUMNS = ("permission", "principal", "operation", "type", "name", "pattern", "host")
SUPER_USERS, ALLOW_EVERYONE = "super.users", "allow.everyone.if.no.acl.found"

UserArgument = Annotated[
    str, typer.Argument(metavar="USER", help="A user, or a principal such as Group:ops.")
]
ConsumeOption = Annotated[
    list[str],
    typer.Option(
        "--consume", metavar="TOPIC", autocompletion=complete_topic, help="Read it as a --group."
    ),
]
ProduceOption = Annotated[
    list[str],
    typer.Option("--produce", metavar="TOPIC", autocompletion=complete_topic, help="Write to it."),
]
TopicChoice = Annotated[
    list[str], typer.Option("--topic", autocompletion=complete_topic, help="A topic; * for all.")
]
GroupChoice = Annotated[
    list[str], typer.Option("--group", autocompletion=complete_group, help="A group; * for all.")
]
TransactionChoice = Annotated[
    list[str],
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; * for all."),
]
ClusterChoice = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
OperationChoice = Annotated[
    list[str], typer.Option("--operation", metavar="NAME", help="read, write, describe, all, ...")
]
PrefixChoice = Annotated[
    bool, typer.Option("--prefix", help="The names are the beginnings of names.")
]
HostChoice = Annotated[
    str, typer.Option("--from", metavar="ADDRESS", help="Only from this address.")
]


@app.command()
@on_cluster
def allow(
    context: typer.Context,
    user: UserArgument,
    *,
    consume: ConsumeOption = [],  # noqa: B006 - typer only reads the default
    produce: ProduceOption = [],  # noqa: B006
    topics: TopicChoice = [],  # noqa: B006
    groups: GroupChoice = [],  # noqa: B006
    transactional_ids: TransactionChoice = [],  # noqa: B006
    cluster: ClusterChoice = False,
    operations: OperationChoice = [],  # noqa: B006
    prefix: PrefixChoice = False,
    host: HostChoice = WILDCARD,
    dry_run: DryRunOption = False,
) -> None:
    """Allow a user operations on resources."""
    choice = AclChoice(
        consume, produce, topics, groups, transactional_ids, cluster, operations, prefix, host
    )
    _add(context, bindings_of(user, AclPermission.ALLOW, choice), dry_run=dry_run)


@app.command()
@on_cluster
def deny(
    context: typer.Context,
    user: UserArgument,
    *,
    consume: ConsumeOption = [],  # noqa: B006
    produce: ProduceOption = [],  # noqa: B006
    topics: TopicChoice = [],  # noqa: B006
    groups: GroupChoice = [],  # noqa: B006
    transactional_ids: TransactionChoice = [],  # noqa: B006
    cluster: ClusterChoice = False,
    operations: OperationChoice = [],  # noqa: B006
    prefix: PrefixChoice = False,
    host: HostChoice = WILDCARD,
    dry_run: DryRunOption = False,
) -> None:
    """Deny a user operations on resources; that is stronger than any permission."""
    choice = AclChoice(
        consume, produce, topics, groups, transactional_ids, cluster, operations, prefix, host
    )
    _add(context, bindings_of(user, AclPermission.DENY, choice), dry_run=dry_run)


def _add(context: typer.Context, acls: list[Acl], *, dry_run: bool) -> None:
    with connect(access_of(context)) as admin:
        stored = admin.acls.describe()
        new = [each for each in acls if each not in stored]
        if dry_run:
            _show_effects(context, admin, stored, [*stored, *new], new)
            note(f"nothing was changed; {counted(len(acls) - len(new), 'ACL')} exist already")
            return
        raise_first(admin.acls.create(new))
    _print(context, new)
    if len(new) < len(acls):
        note(f"{counted(len(acls) - len(new), 'ACL')} existed already")


@app.command("list")
@on_cluster
def list_acls(
    context: typer.Context,
    user: Annotated[str | None, typer.Argument(metavar="[USER]", help="Only of this one.")] = None,
    *,
    topic: Annotated[
        str | None,
        typer.Option(autocompletion=complete_topic, help="Only those that are about this topic."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(autocompletion=complete_group, help="Only those that are about this group."),
    ] = None,
) -> None:
    """List ACLs."""
    if topic is not None and group is not None:
        raise WrongUsage("--topic and --group: name one resource")
    principal = None if user is None else principal_of(user)
    wanted = AclFilter(principal=principal)
    for kind, name in ((ResourceKind.TOPIC, topic), (ResourceKind.GROUP, group)):
        if name is not None:
            wanted = AclFilter(
                kind.acl_type, name, principal=principal, pattern_type=PatternType.MATCH
            )
    with connect(access_of(context)) as admin:
        found = admin.acls.describe(wanted)
    _print(context, found)


@app.command()
@on_cluster
def remove(
    context: typer.Context,
    user: UserArgument,
    *,
    consume: ConsumeOption = [],  # noqa: B006
    produce: ProduceOption = [],  # noqa: B006
    topics: TopicChoice = [],  # noqa: B006
    groups: GroupChoice = [],  # noqa: B006
    transactional_ids: TransactionChoice = [],  # noqa: B006
    cluster: ClusterChoice = False,
    operations: OperationChoice = [],  # noqa: B006
    prefix: PrefixChoice = False,
    host: HostChoice = WILDCARD,
    every: Annotated[bool, typer.Option("--all", help="All ACLs of the user.")] = False,
    yes: YesOrExecuteOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Remove what `allow` and `deny` with the same options have added."""
    choice = AclChoice(
        consume, produce, topics, groups, transactional_ids, cluster, operations, prefix, host
    )
    wanted: set[Acl] | None = None
    if not every:
        both = (AclPermission.ALLOW, AclPermission.DENY)
        wanted = {acl for each in both for acl in bindings_of(user, each, choice)}
    elif choice.is_made:
        raise WrongUsage("--all removes every ACL of the user; leave the other options out")
    with connect(access_of(context)) as admin:
        stored = admin.acls.describe()
        principal = principal_of(user)
        mine = [each for each in stored if each.principal == principal]
        gone = [each for each in mine if wanted is None or each in wanted]
        if dry_run:
            left = [each for each in stored if each not in gone]
            _show_effects(context, admin, stored, left, gone)
            note("nothing was removed")
            return
        if gone:
            confirm(f"Remove {counted(len(gone), 'ACL')} of {principal}?", yes=yes)
            for result in admin.acls.delete([AclFilter(*each) for each in gone]).values():
                raise_first(value_of(result))
    _print(context, gone)


@app.command()
@on_cluster
def explain(
    context: typer.Context,
    user: UserArgument,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="read, write, ...")],
    kind: Annotated[ResourceKind, typer.Argument(metavar="TYPE", case_sensitive=False)],
    name: Annotated[str, typer.Argument(metavar="[NAME]")] = CLUSTER_NAME,
    *,
    host: Annotated[
        str, typer.Option("--from", metavar="ADDRESS", help="The address of the user.")
    ] = "",
) -> None:
    """Explain which rule allows or denies an operation. Ends with 1 if it is denied."""
    if kind is not ResourceKind.CLUSTER and name == CLUSTER_NAME:
        raise WrongUsage(f"name the {kind.value}")
    wanted = Acl(kind.acl_type, name, principal_of(user), operation_of(operation))
    with connect(access_of(context)) as admin:
        rules = AccessRules(admin.acls.describe(), _settings(admin))
    decision = rules.decide(wanted.principal, host, wanted)
    verdict = "allowed" if decision.allowed else "denied"
    if format_of(context) is Format.TABLE:
        print(f"{verdict}: {decision.rule_text}")
    else:
        print_value(format_of(context), {"verdict": verdict, "rule": decision.rule_text})
    if not decision.allowed:
        raise typer.Exit(ExitCode.REJECTED)


# -- what is printed


def _show_effects(
    context: typer.Context, admin: "Admin", before: list[Acl], after: list[Acl], shown: list[Acl]
) -> None:
    settings = _settings(admin)
    rules = AccessRules(before, settings), AccessRules(after, settings)
    principals = known_principals(before, *(each.principal for each in shown))
    rows = [
        {**_row(each), "changes": "; ".join(changed_access(*rules, principals, each)) or "nothing"}
        for each in shown
    ]
    print_rows(format_of(context), (*COLUMNS, "changes"), rows)


def _settings(admin: "Admin") -> AccessSettings:
    """Return what a broker says beside its ACLs. Apache Kafka keeps these settings to itself."""
    from penstock.client.values import Resource, ResourceType

    broker = Resource(ResourceType.BROKER, str(admin.describe_cluster().brokers[0].node_id))
    described = admin.describe_configs([broker], keys=[SUPER_USERS, ALLOW_EVERYONE])[broker]
    if isinstance(described, KafkaError):
        note(f"note: {SUPER_USERS} cannot be read: {described.message}")
        return AccessSettings()
    values = {each.name: each.value or "" for each in described}
    return AccessSettings(values.get(SUPER_USERS, ""), values.get(ALLOW_EVERYONE) == "true")


def _print(context: typer.Context, acls: list[Acl]) -> None:
    print_rows(format_of(context), COLUMNS, [_row(each) for each in acls])


def _row(acl: Acl) -> Row:
    return {
        "permission": acl.permission.name.lower(),
        "principal": acl.principal,
        "operation": acl.operation.name.lower().replace("_", "-"),
        "type": acl.resource_type.name.lower().replace("_", "-"),
        "name": acl.resource_name,
        "pattern": acl.pattern_type.name.lower(),
        "host": acl.host,
    }
