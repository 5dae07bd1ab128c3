"""ACLs by resource type, principal and name.

A lookup costs one probe for the name, one for `*`, and one for each length that prefixes have.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from penstock.credentials.acls import EVERYONE, Acl, AclResourceType, PatternType

# An ACL with a pattern of a newer version is about no name that is known here.
KNOWN_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
AclEntries = dict[bytes, Acl]  # by the ids of their records, which a removal names


class PatternTable:
    """ACLs on resources of one type, by their patterns."""

    __slots__ = ("_every", "_lengths", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._every: AclEntries = {}  # of the name *
        self._literal: dict[str, AclEntries] = {}
        self._prefixed: dict[str, AclEntries] = {}
        self._lengths: dict[int, int] = {}  # of the prefixes, and how many have each

    def __bool__(self) -> bool:
        return bool(self._every or self._literal or self._prefixed)

    def add(self, acl_id: bytes, acl: Acl) -> None:
        name = acl.resource_name
        if acl.covers_all_names:
            self._every[acl_id] = acl
        elif acl.pattern_type is PatternType.LITERAL:
            self._literal.setdefault(name, {})[acl_id] = acl
        else:
            if name not in self._prefixed:
                self._prefixed[name] = {}
                self._lengths[len(name)] = self._lengths.get(len(name), 0) + 1
            self._prefixed[name][acl_id] = acl

    def remove(self, acl_id: bytes, acl: Acl) -> None:
        name = acl.resource_name
        if acl.covers_all_names:
            del self._every[acl_id]
        elif acl.pattern_type is PatternType.LITERAL:
            _remove(self._literal, name, acl_id)
        elif _remove(self._prefixed, name, acl_id):
            self._lengths[len(name)] -= 1
            if not self._lengths[len(name)]:
                del self._lengths[len(name)]

    def matching(self, name: str) -> Iterator[Acl]:
        """Yield the ACLs whose patterns match a name."""
        if name in self._literal:
            yield from self._literal[name].values()
        for length in self._lengths:
            if length <= len(name) and (found := self._prefixed.get(name[:length])) is not None:
                yield from found.values()
        yield from self._every.values()

    def __iter__(self) -> Iterator[Acl]:
        for patterns in (self._literal, self._prefixed):
            for entries in patterns.values():
                yield from entries.values()
        yield from self._every.values()


def _remove(patterns: dict[str, AclEntries], name: str, acl_id: bytes) -> bool:
    """Remove an ACL of a pattern; return whether it was the last one."""
    del patterns[name][acl_id]
    if patterns[name]:
        return False
    del patterns[name]
    return True


class AclIndex:
    """All ACLs of a cluster. A changed index finds the same as one built from its ACLs."""

    def __init__(self, acls: Mapping[bytes, Acl] = MappingProxyType({})) -> None:
        self._acls: AclEntries = {}
        self._of_principal: dict[tuple[AclResourceType, str], PatternTable] = {}
        self._of_anybody: defaultdict[AclResourceType, PatternTable] = defaultdict(PatternTable)
        for acl_id, acl in acls.items():
            self.add(acl_id, acl)

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl_id: bytes) -> bool:
        return acl_id in self._acls

    def add(self, acl_id: bytes, acl: Acl) -> None:
        assert acl_id not in self._acls, "an ACL is added once"
        self._acls[acl_id] = acl
        if acl.pattern_type not in KNOWN_PATTERNS:
            return
        key = acl.resource_type, acl.principal
        self._of_principal.setdefault(key, PatternTable()).add(acl_id, acl)
        self._of_anybody[acl.resource_type].add(acl_id, acl)

    def remove(self, acl_id: bytes) -> None:
        acl = self._acls.pop(acl_id)
        if acl.pattern_type not in KNOWN_PATTERNS:
            return
        key = acl.resource_type, acl.principal
        self._of_principal[key].remove(acl_id, acl)
        if not self._of_principal[key]:
            del self._of_principal[key]
        self._of_anybody[acl.resource_type].remove(acl_id, acl)

    def matching(self, kind: AclResourceType, name: str, principal: str) -> Iterator[Acl]:
        """Yield the ACLs on a resource for a principal, with those of User:*."""
        for each in dict.fromkeys((principal, EVERYONE)):
            table = self._of_principal.get((kind, each))
            if table is not None:
                yield from table.matching(name)

    def has_any(self, kind: AclResourceType, name: str) -> bool:
        """Return whether an ACL of any principal is on a resource."""
        return any(True for _ in self._of_anybody[kind].matching(name))

    def of_type(self, kind: AclResourceType, principal: str) -> Iterator[Acl]:
        """Yield the ACLs on a type of resources for a principal, with those of User:*."""
        for each in dict.fromkeys((principal, EVERYONE)):
            yield from self._of_principal.get((kind, each), ())
