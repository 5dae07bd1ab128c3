"""What the admin client takes and tells about access: ACLs, quotas, SCRAM credentials, tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from penstock.client.transport.scram import ITERATIONS_MIN

# -- ACLs


class AclResourceType(IntEnum):
    """ANY is for filters; UNKNOWN stands for what a newer server may tell."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """ANY and MATCH are for filters; MATCH also finds prefixes and `*` that cover the name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """ANY is for filters."""

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
    """ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """Who may do what, from where: e.g. `User:alice`, READ, `*` for every host."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """Which ACLs are meant; the defaults mean all of them."""

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
    """Whom a quota is for: parts like ("user", "alice"); None is the default of that part."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> "QuotaEntity":
        """The same entity whatever the order of its parts."""
        return cls(tuple(sorted(parts.items())))


class QuotaMatch(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """One part of the entities that are meant; `name` goes with EXACT."""

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
        """As in sasl.mechanism, e.g. SCRAM-SHA-256."""
        return f"SCRAM-{self.name.replace('_', '-')}"


class ScramCredential(NamedTuple):
    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """Salted and hashed here: the password does not travel. A salt is drawn unless one is given."""

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


class Principal(NamedTuple):
    name: str
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """`User:alice`; ValueError if it has no type."""
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise ValueError(f"{text!r} is no principal: it looks like User:alice")
        return cls(name, kind)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """`requester` is None where an older server does not tell; the secret is not printed."""

    token_id: str
    owner: Principal
    requester: Principal | None
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)
    renewers: tuple[Principal, ...] = ()
