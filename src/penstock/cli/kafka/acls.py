"""kafka-acls: who may do what; adds, removes and lists the rules of the cluster's authorizer."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.cli.kafka.connecting import BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER, admin_of_either
from penstock.cli.kafka.options import Given, Option
from penstock.cli.kafka.running import (
    OK,
    Command,
    CommandRefused,
    UsageRefused,
    message_of,
    one_action,
    run_command,
)
from penstock.client.admin.access_values import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.client.admin.blocking import Admin
from penstock.errors import KafkaError

CLUSTER_NAME = "kafka-cluster"
EVERY_HOST = "*"
_O, _T = AclOperation, AclResourceType
OPERATIONS = {
    "".join(word.capitalize() for word in each.name.split("_")).lower(): each
    for each in AclOperation
    if each not in (_O.UNKNOWN, _O.ANY)
}
# What the resources of each type take, besides ALL.
ALLOWED = {
    _T.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    _T.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    _T.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
        _O.ALTER, _O.DESCRIBE,
    ),
    _T.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT),
    _T.DELEGATION_TOKEN: (_O.DESCRIBE,),
    _T.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
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


class Pattern(NamedTuple):
    """What rules are about; prints as Kafka's tool does."""

    type: AclResourceType
    name: str
    kind: PatternType

    def shown(self, what: str = "ResourcePattern") -> str:
        return (
            f"{what}(resourceType={self.type.name}, name={self.name}, patternType={self.kind.name})"
        )


class Entry(NamedTuple):
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(COMMAND, arguments)


def _run(given: Given) -> int:
    if given.has("bootstrap-server") == given.has("bootstrap-controller"):
        raise UsageRefused("One of --bootstrap-server or --bootstrap-controller must be specified")
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
    return OK


def _failed(problem: Exception) -> None:
    print(f"Error while executing ACL command: {message_of(problem)}")


COMMAND = Command("kafka-acls", "Who may do what.", OPTIONS, _run, _failed)

# -- what was said


def _check(given: Given, action: str) -> None:
    if given.has("principal") and action != "list":
        raise UsageRefused("The --principal option is only available if --list is set")
    if given.has("producer") and not given.has("topic"):
        raise UsageRefused("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise UsageRefused("The --idempotent option is only available if --producer is set")
    if given.has("consumer"):
        alone = given.has("topic") and given.has("group")
        if not alone or (not given.has("producer") and given.any_of("cluster", "transactional-id")):
            raise UsageRefused(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )


def _kind(given: Given) -> PatternType:
    said = given.required("resource-pattern-type")
    try:
        return PatternType[said.upper()]
    except KeyError:
        raise UsageRefused(
            f"--resource-pattern-type {said}: must be any, match, literal or prefixed"
        ) from None


def _patterns(given: Given, *, required: bool) -> list[Pattern]:
    kind = _kind(given)
    found = [
        Pattern(type_, name.strip(), kind)
        for option, type_ in NAMED.items()
        for name in given.texts(option)
    ]
    if kind is PatternType.LITERAL and given.any_of("cluster", "idempotent"):
        found.append(Pattern(_T.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    if required and not found:
        raise UsageRefused(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    return found


def _entries(given: Given, operations: Collection[AclOperation]) -> list[Entry]:
    found: list[Entry] = []
    for word, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        principals = [_principal(text) for text in given.texts(f"{word}-principal")]
        hosts = given.texts(f"{word}-host") or [EVERY_HOST]
        found += [
            Entry(principal, host.strip(), operation, permission)
            for principal in principals
            for operation in operations
            for host in hosts
        ]
    return found


def _principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not colon or not kind or not name:
        raise CommandRefused(f"{text}: a principal is a type and a name, such as User:alice")
    return f"{kind}:{name}"


def _operations(given: Given) -> list[AclOperation]:
    found: list[AclOperation] = []
    for text in given.texts("operation"):
        operation = OPERATIONS.get(text.strip().replace("_", "").lower())
        if operation is None:
            known = ", ".join(each.name.title().replace("_", "") for each in OPERATIONS.values())
            raise UsageRefused(f"--operation {text}: must be one of {known}")
        found.append(operation)
    return found


def _rules(given: Given) -> dict[Pattern, list[Entry]]:
    """The rules that the options stand for, by what they are about."""
    patterns = _patterns(given, required=True)
    rules: dict[Pattern, list[Entry]] = {}
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
            more: list[Entry] = []
            if each.type is _T.TOPIC:
                more = _entries(given, (_O.READ, _O.DESCRIBE))
            elif each.type is _T.GROUP:
                more = _entries(given, (_O.READ,))
            if more:
                rules[each] = list(dict.fromkeys([*more, *rules.get(each, [])]))
    for pattern, entries in rules.items():
        _check_operations(pattern, entries)
    return rules


def _check_operations(pattern: Pattern, entries: Sequence[Entry]) -> None:
    allowed = (*ALLOWED[pattern.type], _O.ALL)
    if any(entry.operation not in allowed for entry in entries):
        listed = ", ".join(each.name.title().replace("_", "") for each in allowed)
        raise UsageRefused(f"ResourceType {pattern.type.name} only supports operations {listed}")


# -- what is done


def _add(admin: Admin, given: Given) -> None:
    if _kind(given) not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageRefused(
            f"A '--resource-pattern-type' value of '{_kind(given).name}' is not valid when adding "
            "acls."
        )
    rules = _rules(given)
    if not all(rules.values()):
        raise UsageRefused(
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
        for error in admin.acls.create(acls).values():
            if error is not None:
                raise error


def _entry(acl: Acl) -> Entry:
    return Entry(acl.principal, acl.host, acl.operation, acl.permission)


def _remove(admin: Admin, given: Given) -> None:
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
            if isinstance(result, KafkaError):
                raise result
            for error in result.values():
                if error is not None:
                    raise error


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _filters(pattern: Pattern, entries: Sequence[Entry]) -> Iterator[AclFilter]:
    if not entries:
        yield AclFilter(pattern.type, pattern.name, pattern_type=pattern.kind)
    for entry in entries:
        yield AclFilter(
            pattern.type, pattern.name, entry.principal, entry.operation, entry.permission,
            entry.host, pattern.kind,
        )  # fmt: skip


def _list(admin: Admin, given: Given) -> None:
    filters = [
        AclFilter(each.type, each.name, pattern_type=each.kind)
        for each in _patterns(given, required=False)
    ] or [AclFilter()]
    rules: dict[Pattern, list[Entry]] = {}
    for acl in dict.fromkeys(acl for wanted in filters for acl in admin.acls.describe(wanted)):
        pattern = Pattern(acl.resource_type, acl.resource_name, acl.pattern_type)
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


def _print_all(rules: Mapping[Pattern, Sequence[Entry]]) -> None:
    for pattern, entries in rules.items():
        if entries:
            _print_rules(f"Current ACLs for resource `{pattern.shown()}`", entries)


def _print_rules(title: str, entries: Sequence[Entry]) -> None:
    listed = "\n".join(f"\t{entry}" for entry in entries)
    print(f"{title}:\n{listed} \n")
