"""Random ACLs over few names, so that they often meet, and decisions by looking at each of them."""

from collections.abc import Collection

from hypothesis import strategies as st

from penstock.credentials.acls import (
    EVERYONE,
    OPERATIONS_OF,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.credentials.principal import Caller, Principal

KINDS = (AclResourceType.TOPIC, AclResourceType.GROUP)
NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "hardcode", "hard")
PRINCIPALS = ("User:ann", "User:bob", EVERYONE, "Group:ann")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OPERATIONS = (AclOperation.ALL, *OPERATIONS_OF[AclResourceType.TOPIC])

acls = st.builds(
    Acl,
    resource_type=st.sampled_from(KINDS),
    resource_name=st.sampled_from(NAMES),
    principal=st.sampled_from(PRINCIPALS),
    operation=st.sampled_from(OPERATIONS),
    permission=st.sampled_from((AclPermission.ALLOW, AclPermission.DENY)),
    host=st.sampled_from(HOSTS),
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)
callers = st.builds(
    Caller,
    principal=st.sampled_from((Principal("ann"), Principal("bob"), Principal("ann", "Group"))),
    host=st.sampled_from(HOSTS[1:]),
)
kinds = st.sampled_from(KINDS)
names = st.sampled_from(NAMES)
operations = st.sampled_from(OPERATIONS[1:])

IMPLIED = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


def covers(acl: Acl, kind: AclResourceType, name: str) -> bool:
    if acl.resource_type is not kind:
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def is_allowed(
    stored: Collection[Acl],
    caller: Caller,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
    *,
    allow_without_acls: bool = False,
) -> bool:
    """Decide by looking at every ACL."""
    about = [each for each in stored if covers(each, kind, name)]
    if not about:
        return allow_without_acls
    mine = [
        each
        for each in about
        if each.principal in (str(caller.principal), EVERYONE) and each.host in ("*", caller.host)
    ]
    exact = (operation, AclOperation.ALL)
    if any(each.permission is AclPermission.DENY and each.operation in exact for each in mine):
        return False
    enough = (*exact, *IMPLIED.get(operation, ()))
    return any(each.permission is AclPermission.ALLOW and each.operation in enough for each in mine)
