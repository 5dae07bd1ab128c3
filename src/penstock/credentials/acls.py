"""Access control lists as values, for clients and nodes: ACLs, filters over them, operations."""

from enum import IntEnum
from typing import NamedTuple, TypeVar

E = TypeVar("E", bound=IntEnum)

WILDCARD = "*"  # as a literal name: every name of the type; as a host: every host
EVERYONE = "User:*"
CLUSTER_NAME = "kafka-cluster"  # the only resource of the type CLUSTER


class AclResourceType(IntEnum):
    """A type of resource. ANY is for filters; UNKNOWN stands for a type that only a newer server
    knows."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """A type of name pattern. ANY and MATCH are for filters; MATCH also finds covering prefixes and
    `*`."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Allow or deny. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def known_member(kind: type[E], number: int) -> E:
    """Return the member of an enumeration; UNKNOWN for a number of a newer version."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


_O, _T = AclOperation, AclResourceType
# The operations that each type of resource has, besides ALL.
OPERATIONS_OF = {
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


class Acl(NamedTuple):
    """One access rule: principal, operation, resource and host; `*` stands for every host."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = WILDCARD
    pattern_type: PatternType = PatternType.LITERAL

    @property
    def covers_all_names(self) -> bool:
        return self.pattern_type is PatternType.LITERAL and self.resource_name == WILDCARD


class AclFilter(NamedTuple):
    """A filter over ACLs; the defaults find all of them."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY

    @property
    def has_unknown(self) -> bool:
        """Return whether a part of the filter is from a newer client."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def finds(self, acl: Acl) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._finds_name(acl)
        )

    def _finds_name(self, acl: Acl) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.resource_name:
            return True
        if wanted is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.covers_all_names
