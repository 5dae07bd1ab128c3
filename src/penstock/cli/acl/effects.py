"""The decisions of a cluster by its ACLs and settings, and what a change of the ACLs changes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.credentials.acls import EVERYONE, WILDCARD, Acl
from penstock.credentials.principal import Caller, Principal, plain_address
from penstock.security.authorizer import AccessDecision, Authorizer

# A host that no ACL names: rules for every host apply to it.
ANY_HOST = ""


class AccessSettings(NamedTuple):
    """The settings of a broker that count beside the ACLs."""

    super_users: str = ""
    allow_without_acls: bool = False


class AccessRules:
    """The rules of a cluster at one moment."""

    def __init__(self, acls: Iterable[Acl], settings: AccessSettings) -> None:
        users = [each.strip() for each in settings.super_users.split(";") if each.strip()]
        self._authorizer = Authorizer(
            [Principal.parse(each) for each in users],
            allow_without_acls=settings.allow_without_acls,
        )
        ids = (number.to_bytes(16) for number in range(1 << 32))
        hosts = (each._replace(host=plain_address(each.host)) for each in acls)
        self._authorizer.change(dict(zip(ids, hosts, strict=False)), ())
        self._authorizer.end_load()

    def decide(self, principal: str, host: str, wanted: Acl) -> AccessDecision:
        """Decide about the operation and the resource of an ACL."""
        caller = Caller(Principal.parse(principal), plain_address(host))
        return self._authorizer.decide(
            caller, wanted.operation, wanted.resource_type, wanted.resource_name
        )


def changed_access(
    before: AccessRules, after: AccessRules, principals: Sequence[str], acl: Acl
) -> list[str]:
    """Return whose access an ACL changes, as lines."""
    host = ANY_HOST if acl.host == WILDCARD else acl.host
    changes = []
    for principal in principals:
        was = before.decide(principal, host, acl)
        now = after.decide(principal, host, acl)
        if was.allowed != now.allowed:
            verdict = "denied -> allowed" if now.allowed else "allowed -> denied"
            changes.append(f"{principal}: {verdict}")
    return changes


def known_principals(acls: Iterable[Acl], *more: str) -> list[str]:
    """Return the principals that ACLs name, in order."""
    found = {each.principal for each in acls} | set(more)
    return sorted(found - {EVERYONE}) + ["User:ANONYMOUS"] * (EVERYONE in more)
