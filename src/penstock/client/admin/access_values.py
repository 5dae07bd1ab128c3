"""Arguments and results of the admin client about access: ACLs, quotas, SCRAM credentials,
tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from penstock.credentials.principal import Principal
from penstock.credentials.scram import ITERATIONS_MIN

# -- ACLs


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


class Acl(NamedTuple):
    """One access rule: principal, operation, resource and host; `*` stands for every host."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """A filter over ACLs; the defaults find all of them."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


# -- quotas

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class QuotaEntity(NamedTuple):
    """The subject of a quota: parts such as ("user", "alice"); None is the default of that part."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> "QuotaEntity":
        """Return the entity of these parts; their order does not matter."""
        return cls(tuple(sorted(parts.items())))


class QuotaMatch(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """A filter over one part of the entities; `name` goes with EXACT."""

    part: str
    match: QuotaMatch = QuotaMatch.ANY
    name: str | None = None


# -- SCRAM


class ScramMechanism(IntEnum):
    UNKNOWN = 0
    SHA_256 = 1
    SHA_512 = 2

    @property
    def text(self) -> str:
        """Return the mechanism as sasl.mechanism spells it, e.g. SCRAM-SHA-256."""
        return f"SCRAM-{self.name.replace('_', '-')}"


class ScramCredential(NamedTuple):
    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A new password, salted and hashed in this process. Without a salt, a random one is used."""

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = ITERATIONS_MIN
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: ScramMechanism


# -- delegation tokens


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. `requester` is None if an older server omits it; the secret is never printed."""

    token_id: str
    owner: Principal
    requester: Principal | None
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)
    renewers: tuple[Principal, ...] = ()
