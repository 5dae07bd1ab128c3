"""kafka-acls: adds, removes and lists ACLs of the cluster's authorizer."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.cli.connection.results import raise_first, value_of
from penstock.cli.kafka.framework.client_options import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    admin_of_either,
)
from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.runner import (
    CommandRejected,
    UsageRejected,
    command,
    message_of,
    one_action,
)
from penstock.client.admin.blocking import Admin
from penstock.credentials.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)

EVERY_HOST = "*"
_O, _T = AclOperation, AclResourceType
OPERATIONS = {
    "".join(word.capitalize() for word in each.name.split("_")).lower(): each
    for each in AclOperation
    if each not in (_O.UNKNOWN, _O.ANY)
}
NAMED = {
    "topic": _T.TOPIC,
    "group": _T.GROUP,
    "transactional-id": _T.TRANSACTIONAL_ID,
    "delegation-token": _T.DELEGATION_TOKEN,
    "user-principal": _T.USER,
}

OPTIONS = (
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    Option("command-config", "A properties file for the client.", "String: file", optional=True),
    Option("topic", "A topic; * for all.", "String: topic"),
    Option("cluster", "The cluster itself."),
    Option("group", "A group; * for all.", "String: group"),
    Option("transactional-id", "A transactional id; * for all.", "String: transactional-id"),
    Option("idempotent", "With --producer: idempotent writes too."),
    Option("delegation-token", "A delegation token; * for all.", "String: delegation-token"),
    Option(
        "resource-pattern-type",
        "literal or prefixed; any and match for --list and --remove.",
        "ANY|MATCH|LITERAL|PREFIXED",
        "LITERAL",
    ),
    Option("add", "Add rules."),
    Option("remove", "Remove rules."),
    Option("list", "Print rules."),
    Option("operation", "What is allowed or denied: Read, Write, Create, ...", "String", "All"),
    Option("allow-principal", "Who may: User:alice, User:* for all.", "String: principal"),
    Option("deny-principal", "Who may not; stronger than who may.", "String: principal"),
    Option("principal", "With --list: rules for these only.", "String: principal", optional=True),
    Option("allow-host", "From where --allow-principal may; without it, everywhere.", "String"),
    Option("deny-host", "From where --deny-principal may not.", "String"),
    Option("producer", "What a producer needs: Write, Describe and Create on topics."),
    Option("consumer", "What a consumer needs: Read and Describe on topics, Read on groups."),
    Option("force", "Do not ask before rules are removed."),
    Option("user-principal", "A user as the resource, for tokens.", "String: user-principal"),
)


class AclPattern(NamedTuple):
    """A resource pattern, printed as by Kafka's tool."""

    type: AclResourceType
    name: str
    kind: PatternType

    def shown(self, what: str = "ResourcePattern") -> str:
        return (
            f"{what}(resourceType={self.type.name}, name={self.name}, patternType={self.kind.name})"
        )


class AclEntry(NamedTuple):
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


def _failed(problem: Exception) -> None:
    print(f"Error while executing ACL command: {message_of(problem)}")


@command("kafka-acls", "Who may do what.", OPTIONS, failed=_failed)
def main(given: GivenOptions) -> None:
    if given.has("bootstrap-server") == given.has("bootstrap-controller"):
        raise UsageRejected("One of --bootstrap-server or --bootstrap-controller must be specified")
    action = one_action(given, "list", "add", "remove")
    _check(given, action)
    with admin_of_either(given) as admin:
        match action:
            case "add":
                _add(admin, given)
            case "remove":
                _remove(admin, given)
            case _:
                _list(admin, given)


# -- arguments


def _check(given: GivenOptions, action: str) -> None:
    if given.has("principal") and action != "list":
        raise UsageRejected("The --principal option is only available if --list is set")
    if given.has("producer") and not given.has("topic"):
        raise UsageRejected("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise UsageRejected("The --idempotent option is only available if --producer is set")
    if given.has("consumer"):
        alone = given.has("topic") and given.has("group")
        if not alone or (not given.has("producer") and given.any_of("cluster", "transactional-id")):
            raise UsageRejected(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )


def _kind(given: GivenOptions) -> PatternType:
    said = given.required("resource-pattern-type")
    try:
        return PatternType[said.upper()]
    except KeyError:
        raise UsageRejected(
            f"--resource-pattern-type {said}: must be any, match, literal or prefixed"
        ) from None


def _patterns(given: GivenOptions, *, required: bool) -> list[AclPattern]:
    kind = _kind(given)
    found = [
        AclPattern(type_, name.strip(), kind)
        for option, type_ in NAMED.items()
        for name in given.texts(option)
    ]
    if kind is PatternType.LITERAL and given.any_of("cluster", "idempotent"):
        found.append(AclPattern(_T.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    if required and not found:
        raise UsageRejected(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    return found


def _entries(given: GivenOptions, operations: Collection[AclOperation]) -> list[AclEntry]:
    found: list[AclEntry] = []
    for word, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        principals = [_principal(text) for text in given.texts(f"{word}-principal")]
        hosts = given.texts(f"{word}-host") or [EVERY_HOST]
        found += [
            AclEntry(principal, host.strip(), operation, permission)
            for principal in principals
            for operation in operations
            for host in hosts
        ]
    return found


def _principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not colon or not kind or not name:
        raise CommandRejected(f"{text}: a principal is a type and a name, such as User:alice")
    return f"{kind}:{name}"


def _operations(given: GivenOptions) -> list[AclOperation]:
    found: list[AclOperation] = []
    for text in given.texts("operation"):
        operation = OPERATIONS.get(text.strip().replace("_", "").lower())
        if operation is None:
            known = ", ".join(each.name.title().replace("_", "") for each in OPERATIONS.values())
            raise UsageRejected(f"--operation {text}: must be one of {known}")
        found.append(operation)
    return found


def _rules(given: GivenOptions) -> dict[AclPattern, list[AclEntry]]:
    """Return the ACL entries of the options, by resource pattern."""
    patterns = _patterns(given, required=True)
    rules: dict[AclPattern, list[AclEntry]] = {}
    if not given.any_of("producer", "consumer"):
        rules = {each: _entries(given, _operations(given)) for each in patterns}
    if given.has("producer"):
        for each in patterns:
            if each.type is _T.TOPIC:
                rules[each] = _entries(given, (_O.WRITE, _O.DESCRIBE, _O.CREATE))
            elif each.type is _T.TRANSACTIONAL_ID:
                rules[each] = _entries(given, (_O.WRITE, _O.DESCRIBE))
            elif each.type is _T.CLUSTER and given.has("idempotent"):
                rules[each] = _entries(given, (_O.IDEMPOTENT_WRITE,))
    if given.has("consumer"):
        for each in patterns:
            more: list[AclEntry] = []
            if each.type is _T.TOPIC:
                more = _entries(given, (_O.READ, _O.DESCRIBE))
            elif each.type is _T.GROUP:
                more = _entries(given, (_O.READ,))
            if more:
                rules[each] = list(dict.fromkeys([*more, *rules.get(each, [])]))
    for pattern, entries in rules.items():
        _check_operations(pattern, entries)
    return rules


def _check_operations(pattern: AclPattern, entries: Sequence[AclEntry]) -> None:
    allowed = (*OPERATIONS_OF[pattern.type], _O.ALL)
    if any(entry.operation not in allowed for entry in entries):
        listed = ", ".join(each.name.title().replace("_", "") for each in allowed)
        raise UsageRejected(f"ResourceType {pattern.type.name} only supports operations {listed}")


# -- actions


def _add(admin: Admin, given: GivenOptions) -> None:
    if _kind(given) not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageRejected(
            f"A '--resource-pattern-type' value of '{_kind(given).name}' is not valid when adding "
            "acls."
        )
    rules = _rules(given)
    if not all(rules.values()):
        raise UsageRejected(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for pattern, entries in rules.items():
        wanted = AclFilter(pattern.type, pattern.name, pattern_type=pattern.kind)
        there = {_entry(acl) for acl in admin.acls.describe(wanted)}
        for entry in entries:
            if entry in there:
                named = pattern.shown("ResourcePattern")
                print(f"Acl (pattern={named}, entry={entry}) already exists.")
        new = [entry for entry in entries if entry not in there]
        if not new:
            continue
        _print_rules(f"Adding ACLs for resource `{pattern.shown()}`", new)
        acls = [
            Acl(
                pattern.type, pattern.name, entry.principal, entry.operation, entry.permission,
                entry.host, pattern.kind,
            )
            for entry in new
        ]  # fmt: skip
        raise_first(admin.acls.create(acls))


def _entry(acl: Acl) -> AclEntry:
    return AclEntry(acl.principal, acl.host, acl.operation, acl.permission)


def _remove(admin: Admin, given: GivenOptions) -> None:
    for pattern, entries in _rules(given).items():
        named = pattern.shown("ResourcePattern")
        question = f"Are you sure you want to delete all ACLs for resource filter `{named}`? (y/n)"
        if entries:
            listed = "\n".join(f"\t{entry}" for entry in entries)
            question = (
                f"Are you sure you want to remove ACLs: \n {listed} \n from resource filter "
                f"`{named}`? (y/n)"
            )
        if not given.has("force") and not _confirmed(question):
            continue
        filters = list(_filters(pattern, entries))
        for result in admin.acls.delete(filters).values():
            raise_first(value_of(result))


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _filters(pattern: AclPattern, entries: Sequence[AclEntry]) -> Iterator[AclFilter]:
    if not entries:
        yield AclFilter(pattern.type, pattern.name, pattern_type=pattern.kind)
    for entry in entries:
        yield AclFilter(
            pattern.type, pattern.name, entry.principal, entry.operation, entry.permission,
            entry.host, pattern.kind,
        )  # fmt: skip


def _list(admin: Admin, given: GivenOptions) -> None:
    filters = [
        AclFilter(each.type, each.name, pattern_type=each.kind)
        for each in _patterns(given, required=False)
    ] or [AclFilter()]
    rules: dict[AclPattern, list[AclEntry]] = {}
    for acl in dict.fromkeys(acl for wanted in filters for acl in admin.acls.describe(wanted)):
        pattern = AclPattern(acl.resource_type, acl.resource_name, acl.pattern_type)
        rules.setdefault(pattern, []).append(_entry(acl))
    principals = [_principal(text) for text in given.texts("principal")]
    if not principals:
        _print_all(rules)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print_all(
            {
                pattern: [each for each in entries if each.principal == principal]
                for pattern, entries in rules.items()
            }
        )


def _print_all(rules: Mapping[AclPattern, Sequence[AclEntry]]) -> None:
    for pattern, entries in rules.items():
        if entries:
            _print_rules(f"Current ACLs for resource `{pattern.shown()}`", entries)


def _print_rules(title: str, entries: Sequence[AclEntry]) -> None:
    listed = "\n".join(f"\t{entry}" for entry in entries)
    print(f"{title}:\n{listed} \n")
