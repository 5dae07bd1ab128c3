"""The ACLs that the options of `penstock acl` stand for."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock.cli.terminal.output import WrongUsage
from penstock.credentials.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)

OPERATIONS = {
    each.name.lower().replace("_", "-"): each
    for each in AclOperation
    if each not in (AclOperation.UNKNOWN, AclOperation.ANY)
}


class ResourceKind(StrEnum):
    """A type of resource, as a word of a command."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"
    USER = "user"

    @property
    def acl_type(self) -> AclResourceType:
        return AclResourceType[self.name]


class AclChoice(NamedTuple):
    """Resources and operations; `consume` and `produce` are topics with the operations of each."""

    consume: Sequence[str] = ()
    produce: Sequence[str] = ()
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    cluster: bool = False
    operations: Sequence[str] = ()
    prefix: bool = False
    host: str = WILDCARD

    @property
    def is_made(self) -> bool:
        """Return whether any option was given."""
        *others, host = self
        return any(others) or host != WILDCARD


def principal_of(text: str) -> str:
    """Return a principal; a name without a type is a user's."""
    return text if ":" in text else f"User:{text}"


def operation_of(text: str) -> AclOperation:
    """Return an operation by its name in any spelling of Kafka's tools; raise WrongUsage."""
    found = OPERATIONS.get(text.strip().lower().replace("_", "-"))
    if found is None:
        raise WrongUsage(f"{text} is no operation; there are {', '.join(OPERATIONS)}")
    return found


def bindings_of(principal: str, permission: AclPermission, choice: AclChoice) -> list[Acl]:
    """Return the ACLs of a choice, each once. Raise WrongUsage for a choice without meaning."""
    _check(choice)
    pattern = PatternType.PREFIXED if choice.prefix else PatternType.LITERAL
    found = [
        Acl(
            kind,
            name,
            principal_of(principal),
            operation,
            permission,
            choice.host,
            # The name * stands for all names by itself.
            PatternType.LITERAL if name in (WILDCARD, CLUSTER_NAME) else pattern,
        )
        for kind, name, operation in _resources(choice)
    ]
    return list(dict.fromkeys(found))


def _check(choice: AclChoice) -> None:
    named = (*choice.topics, *choice.groups, *choice.transactional_ids)
    if choice.consume and not choice.groups:
        raise WrongUsage("--consume needs the group that reads: --group NAME, or --group '*'")
    if choice.operations and (choice.consume or choice.produce):
        raise WrongUsage("--consume and --produce bring their operations; leave --operation out")
    plain = choice.topics or choice.cluster or not (choice.consume or choice.produce)
    if plain and not choice.operations:
        raise WrongUsage("name operations (--operation read), or use --consume or --produce")
    if choice.operations and not (named or choice.cluster):
        raise WrongUsage("name a resource: --topic, --group, --transactional-id or --cluster")


def _resources(choice: AclChoice) -> Iterator[tuple[AclResourceType, str, AclOperation]]:
    kinds = AclResourceType
    if not choice.operations:
        yield from ((kinds.TOPIC, name, AclOperation.READ) for name in choice.consume)
        yield from ((kinds.GROUP, name, AclOperation.READ) for name in choice.groups)
        yield from ((kinds.TOPIC, name, AclOperation.WRITE) for name in choice.produce)
        for name in choice.transactional_ids:
            yield kinds.TRANSACTIONAL_ID, name, AclOperation.WRITE
        return
    named = (
        (kinds.TOPIC, choice.topics),
        (kinds.GROUP, choice.groups),
        (kinds.TRANSACTIONAL_ID, choice.transactional_ids),
        (kinds.CLUSTER, (CLUSTER_NAME,) if choice.cluster else ()),
    )
    for kind, names in named:
        for text in choice.operations if names else ():
            operation = operation_of(text)
            if operation not in (*OPERATIONS_OF[kind], AclOperation.ALL):
                allowed = ", ".join(
                    each.name.lower().replace("_", "-") for each in OPERATIONS_OF[kind]
                )
                raise WrongUsage(f"{text} is no operation of a {kind.name.lower()}: {allowed}, all")
            yield from ((kind, name, operation) for name in names)
