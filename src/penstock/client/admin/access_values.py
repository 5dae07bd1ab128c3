"""Arguments and results of the admin client about access: quotas, SCRAM credentials, tokens; ACLs
are in penstock.credentials.acls, and can be imported from here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from penstock.credentials.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.credentials.principal import Principal
from penstock.credentials.scram import ITERATIONS_MIN

# Public here, too, beside the other values of an Admin.
__all__ = ("Acl", "AclFilter", "AclOperation", "AclPermission", "AclResourceType", "PatternType")

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
