"""Decisions by Kafka's rules: super users, then ACLs, of which a deny wins.

READ, WRITE, DELETE and ALTER allow DESCRIBE as well, ALTER_CONFIGS allows DESCRIBE_CONFIGS; a deny
denies its own operation only. Hosts are compared as text. Without a decision by an
ACL, a setting allows everything on resources without an ACL of any principal. Until the ACLs are
loaded, only super users pass.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from penstock.credentials.acls import (
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.credentials.principal import Caller, Principal
from penstock.security.acl_index import AclIndex

REMEMBERED_MAX = 10_000
REMEMBERED_NAME_LENGTH_MAX = 255  # a group id may have 32,767 characters

_O = AclOperation
_IMPLIED_BY = {
    _O.DESCRIBE: frozenset((_O.READ, _O.WRITE, _O.DELETE, _O.ALTER)),
    _O.DESCRIBE_CONFIGS: frozenset((_O.ALTER_CONFIGS,)),
}
_NOTHING: frozenset[AclOperation] = frozenset()


class DefaultRule(Enum):
    """A rule that decides where no ACL does."""

    SUPER_USER = "super.users"
    EVERYONE = "allow.everyone.if.no.acl.found"
    NO_ACL = "no ACL allows it"
    NOT_LOADED = "the ACLs are not loaded yet"


class AccessDecision(NamedTuple):
    allowed: bool
    rule: Acl | DefaultRule

    @property
    def rule_text(self) -> str:
        rule = self.rule
        if isinstance(rule, DefaultRule):
            return rule.value
        return (
            f"{rule.permission.name} {rule.principal} {rule.operation.name}"
            f" {rule.resource_type.name} {rule.pattern_type.name}:{rule.resource_name}"
            f" from {rule.host}"
        )


_DecisionKey = tuple[Caller, AclOperation, AclResourceType, str]
_SUPER_USER = AccessDecision(True, DefaultRule.SUPER_USER)
_EVERYONE = AccessDecision(True, DefaultRule.EVERYONE)
_NO_ACL = AccessDecision(False, DefaultRule.NO_ACL)
_NOT_LOADED = AccessDecision(False, DefaultRule.NOT_LOADED)


class Authorizer:
    """The rules of access of one node. `generation` grows with each change of the ACLs."""

    def __init__(
        self, super_users: Collection[Principal] = (), *, allow_without_acls: bool = False
    ) -> None:
        self.generation = 0
        self.loaded = False
        self._super_users = frozenset(super_users)
        self._allow_without_acls = allow_without_acls
        self._index = AclIndex()
        self._remembered: dict[
            tuple[Caller, AclOperation, AclResourceType, str], AccessDecision
        ] = {}

    @property
    def admits_nobody(self) -> bool:
        """Return whether no caller can ever pass, and none can change that."""
        return not (self._super_users or self._allow_without_acls or self._index)

    def end_load(self) -> None:
        """Let ACLs count: all those that were stored at the start are known."""
        self.loaded = True
        self._forget()

    def change(self, added: Mapping[bytes, Acl], removed: Collection[bytes]) -> None:
        """Remove ACLs by their ids, and add others. Unknown ids came and went in one batch."""
        for acl_id in removed:
            if acl_id in self._index:
                self._index.remove(acl_id)
        for acl_id, acl in added.items():
            self._index.add(acl_id, acl)
        self._forget()

    def _forget(self) -> None:
        self._remembered.clear()
        self.generation += 1

    # -- decisions

    def decide(
        self, caller: Caller, operation: AclOperation, kind: AclResourceType, name: str
    ) -> AccessDecision:
        key = caller, operation, kind, name
        known = self._remembered.get(key)
        if known is not None:
            return known
        decision = self._decide(caller, operation, kind, name)
        if len(name) <= REMEMBERED_NAME_LENGTH_MAX:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = decision
        return decision

    def _decide(
        self, caller: Caller, operation: AclOperation, kind: AclResourceType, name: str
    ) -> AccessDecision:
        if caller.principal in self._super_users:
            return _SUPER_USER
        if not self.loaded:
            return _NOT_LOADED
        implied_by = _IMPLIED_BY.get(operation, _NOTHING)
        allow: Acl | None = None
        for acl in self._index.matching(kind, name, str(caller.principal)):
            if acl.host not in (WILDCARD, caller.host):
                continue
            exact = acl.operation in (operation, AclOperation.ALL)
            if acl.permission is not AclPermission.ALLOW:  # a permission of a newer version, too
                if exact:
                    return AccessDecision(False, acl)
            elif allow is None and (exact or acl.operation in implied_by):
                allow = acl
        if allow is not None:
            return AccessDecision(True, allow)
        if self._allow_without_acls and not self._index.has_any(kind, name):
            return _EVERYONE
        return _NO_ACL

    def decide_any(
        self, caller: Caller, operation: AclOperation, kind: AclResourceType
    ) -> AccessDecision:
        """Decide whether a caller may do something with some resource of a type, even if none with
        such a name exists: a pattern allows it, and no deny covers the pattern."""
        if caller.principal in self._super_users:
            return _SUPER_USER
        if not self.loaded:
            return _NOT_LOADED
        denied: dict[PatternType, set[str]] = {each: set() for each in PatternType}
        allowed: list[Acl] = []
        for acl in self._index.of_type(kind, str(caller.principal)):
            if acl.host not in (WILDCARD, caller.host):
                continue
            if acl.operation not in (operation, AclOperation.ALL):
                continue
            if acl.permission is AclPermission.ALLOW:
                allowed.append(acl)
            elif acl.covers_all_names:
                return AccessDecision(False, acl)
            else:
                denied[acl.pattern_type].add(acl.resource_name)
        for acl in allowed:
            if acl.covers_all_names or not _is_covered(acl, denied):
                return AccessDecision(True, acl)
        return self._decide(caller, operation, kind, _ANY_NAME)

    def operations(self, caller: Caller, kind: AclResourceType, name: str) -> int:
        """Return the operations that a caller may perform on a resource, as bits."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[kind]
            if self.decide(caller, operation, kind, name).allowed
        )


# Kafka looks at this name for the rules that hold for every name.
_ANY_NAME = "hardcode"


def _is_covered(acl: Acl, denied: Mapping[PatternType, set[str]]) -> bool:
    """Return whether denies leave nothing of an allowed pattern."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL and name in denied[PatternType.LITERAL]:
        return True
    prefixes = denied[PatternType.PREFIXED]
    return any(name[:length] in prefixes for length in range(1, len(name) + 1))
