"""The authorizer's decisions, against a look at every ACL and against Kafka's rules one by one."""

from acl_strategies import (
    acls,
    callers,
    covers,
    is_allowed,
    kinds,
    names,
    operations,
)
from hypothesis import given
from hypothesis import strategies as st

from penstock.credentials.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.credentials.principal import ANONYMOUS, Caller, Principal
from penstock.security import authorizer as authorizer_module
from penstock.security.acl_index import AclIndex
from penstock.security.authorizer import Authorizer, DefaultRule

TOPIC, READ, WRITE = AclResourceType.TOPIC, AclOperation.READ, AclOperation.WRITE
DESCRIBE = AclOperation.DESCRIBE
ANN = Caller(Principal("ann"), "10.0.0.1")
ANN_READS = Acl(TOPIC, "orders", "User:ann", READ)


def with_acls(*stored: Acl, allow_without_acls: bool = False) -> Authorizer:
    authorizer = Authorizer(allow_without_acls=allow_without_acls)
    authorizer.end_load()
    authorizer.change({bytes([place]): each for place, each in enumerate(stored)}, ())
    return authorizer


@given(st.lists(acls, max_size=12), callers, operations, kinds, names, st.booleans())
def test_the_index_decides_like_a_look_at_every_acl(
    stored: list[Acl],
    caller: Caller,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
    allow: bool,
) -> None:
    expected = is_allowed(stored, caller, operation, kind, name, allow_without_acls=allow)
    authorizer = with_acls(*stored, allow_without_acls=allow)
    assert authorizer.decide(caller, operation, kind, name).allowed is expected
    remembered = authorizer.decide(caller, operation, kind, name)
    assert remembered.allowed is expected


@given(st.lists(st.tuples(acls, st.booleans()), max_size=16), kinds, names)
def test_a_changed_index_finds_what_a_rebuilt_one_finds(
    steps: list[tuple[Acl, bool]], kind: AclResourceType, name: str
) -> None:
    index, stored = AclIndex(), dict[bytes, Acl]()
    for place, (acl, removes) in enumerate(steps):
        index.add(bytes([place]), acl)
        stored[bytes([place])] = acl
        if removes:
            oldest = next(iter(stored))
            index.remove(oldest)
            del stored[oldest]
    rebuilt = AclIndex(stored)
    assert len(index) == len(rebuilt) == len(stored)
    for principal in ("User:ann", "User:*"):
        found = sorted(index.matching(kind, name, principal))
        assert found == sorted(rebuilt.matching(kind, name, principal))
        assert sorted(index.of_type(kind, principal)) == sorted(rebuilt.of_type(kind, principal))
    assert index.has_any(kind, name) == any(covers(each, kind, name) for each in stored.values())


@given(st.lists(acls, max_size=8), callers, operations, kinds)
def test_who_may_do_something_with_any_resource_may_with_one(
    stored: list[Acl], caller: Caller, operation: AclOperation, kind: AclResourceType
) -> None:
    authorizer = with_acls(*stored)
    if not authorizer.decide_any(caller, operation, kind).allowed:
        exact = [each for each in stored if each.operation in (operation, AclOperation.ALL)]
        allowed = {
            each.resource_name
            for each in exact
            if each.permission is AclPermission.ALLOW and each.pattern_type is PatternType.LITERAL
        }
        for name in allowed - {"*"}:
            assert not is_allowed(exact, caller, operation, kind, name)


def test_a_super_user_needs_no_acl_and_fears_no_deny() -> None:
    authorizer = Authorizer([Principal("ann")])
    authorizer.change({b"1": ANN_READS._replace(permission=AclPermission.DENY)}, ())
    decision = authorizer.decide(ANN, READ, TOPIC, "orders")
    assert decision == (True, DefaultRule.SUPER_USER)


def test_only_super_users_pass_before_the_acls_are_loaded() -> None:
    authorizer = Authorizer([Principal("root")], allow_without_acls=True)
    authorizer.change({b"1": ANN_READS}, ())
    assert authorizer.decide(ANN, READ, TOPIC, "orders").rule is DefaultRule.NOT_LOADED
    assert not authorizer.decide_any(ANN, READ, TOPIC).allowed
    authorizer.end_load()
    assert authorizer.decide(ANN, READ, TOPIC, "orders").allowed


def test_a_decision_names_its_rule() -> None:
    decision = with_acls(ANN_READS).decide(ANN, DESCRIBE, TOPIC, "orders")
    assert decision.rule == ANN_READS
    assert decision.rule_text == "ALLOW User:ann READ TOPIC LITERAL:orders from *"


def test_a_change_is_not_hidden_by_a_remembered_decision() -> None:
    authorizer = with_acls(ANN_READS)
    generation = authorizer.generation
    assert authorizer.decide(ANN, READ, TOPIC, "orders").allowed
    authorizer.change({}, (bytes([0]),))
    assert not authorizer.decide(ANN, READ, TOPIC, "orders").allowed
    assert authorizer.generation > generation


def test_remembered_decisions_are_bounded() -> None:
    authorizer = with_acls(ANN_READS)
    limit = authorizer_module.REMEMBERED_MAX
    for number in range(limit + 5):
        authorizer.decide(ANN, READ, TOPIC, str(number))
    authorizer.decide(ANN, READ, TOPIC, "long" * authorizer_module.REMEMBERED_NAME_LENGTH_MAX)
    assert len(authorizer._remembered) == 5


def test_resources_without_any_acl_are_everyones_only_if_configured_so() -> None:
    authorizer = with_acls(ANN_READS, allow_without_acls=True)
    bob = Caller(Principal("bob"), "10.0.0.1")
    assert authorizer.decide(bob, READ, TOPIC, "other").rule is DefaultRule.EVERYONE
    assert authorizer.decide(bob, READ, TOPIC, "orders").rule is DefaultRule.NO_ACL


def test_writing_to_any_topic_needs_an_allowed_pattern_that_no_deny_covers() -> None:
    deny = AclPermission.DENY
    writes = Acl(TOPIC, "orders", "User:ann", WRITE)
    prefix = writes._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
    assert with_acls(writes).decide_any(ANN, WRITE, TOPIC).allowed
    assert (
        not with_acls(writes, prefix._replace(permission=deny))
        .decide_any(ANN, WRITE, TOPIC)
        .allowed
    )
    assert with_acls(prefix, writes._replace(permission=deny)).decide_any(ANN, WRITE, TOPIC).allowed
    nothing = writes._replace(resource_name="*", permission=deny)
    assert not with_acls(writes, nothing).decide_any(ANN, WRITE, TOPIC).allowed
    assert with_acls(allow_without_acls=True).decide_any(ANN, WRITE, TOPIC).allowed


def test_an_acl_of_a_newer_version_allows_nothing() -> None:
    pattern = ANN_READS._replace(resource_name="ord", pattern_type=PatternType.UNKNOWN)
    operation = ANN_READS._replace(operation=AclOperation.UNKNOWN)
    permission = ANN_READS._replace(permission=AclPermission.UNKNOWN)
    for newer in (pattern, operation, permission):
        assert not with_acls(newer).decide(ANN, READ, TOPIC, "orders").allowed
        assert not with_acls(newer).decide_any(ANN, READ, TOPIC).allowed
    authorizer = with_acls(pattern)
    authorizer.change({}, (bytes([0]),))
    assert authorizer.admits_nobody


def test_everyone_includes_anonymous_callers() -> None:
    everyone = ANN_READS._replace(principal="User:*")
    caller = Caller(ANONYMOUS, "10.0.0.1")
    assert with_acls(everyone).decide(caller, READ, TOPIC, "orders").allowed


def test_authorized_operations_are_bits_of_what_the_type_has() -> None:
    kind = AclResourceType.CLUSTER
    alter = Acl(kind, CLUSTER_NAME, "User:ann", AclOperation.ALTER)
    bits = with_acls(alter).operations(ANN, kind, CLUSTER_NAME)
    assert bits == 1 << AclOperation.ALTER | 1 << DESCRIBE


def test_nobody_is_admitted_without_super_users_acls_and_the_open_rule() -> None:
    assert Authorizer().admits_nobody
    assert not Authorizer([ANONYMOUS]).admits_nobody
    assert not Authorizer(allow_without_acls=True).admits_nobody
    assert not with_acls(ANN_READS).admits_nobody
