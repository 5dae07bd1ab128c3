"""CreateAcls and DeleteAcls: entries to records, each with its own answer."""

from collections.abc import Iterable

import pytest
from controller_bench import Bench

from penstock import errors
from penstock.controller.acls import acl_of
from penstock.credentials.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31

Kind, Op, Pattern = AclResourceType, AclOperation, PatternType
READS = Acl(Kind.TOPIC, "orders", "User:ann", Op.READ)
ALL_ORDERS = Acl(Kind.TOPIC, "ord", "User:ann", Op.WRITE, pattern_type=Pattern.PREFIXED)
EVERY_TOPIC = Acl(Kind.TOPIC, "*", "User:*", Op.DESCRIBE, host="10.0.0.1")
DENIED = Acl(Kind.GROUP, "orders", "User:bob", Op.READ, AclPermission.DENY)
STORED = (READS, ALL_ORDERS, EVERY_TOPIC, DENIED)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def create(bench: Bench, *acls: Acl) -> list[int]:
    creations = [
        k30.AclCreation(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            resource_pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in acls
    ]
    answer = bench.ask(k30.CreateAclsRequest(creations=creations))
    return [each.error_code for each in answer.results]


def delete(bench: Bench, *filters: AclFilter) -> list[set[Acl] | int]:
    asked = [
        k31.DeleteAclsFilter(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.resource_name,
            pattern_type_filter=each.pattern_type,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    results = bench.ask(k31.DeleteAclsRequest(filters=asked)).filter_results
    return [each.error_code or {_found(match) for match in each.matching_acls} for each in results]


def _found(match: k31.DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        Kind(match.resource_type),
        match.resource_name,
        match.principal,
        Op(match.operation),
        AclPermission(match.permission_type),
        match.host,
        Pattern(match.pattern_type),
    )


def stored(bench: Bench) -> set[Acl]:
    return {acl_of(record) for record in bench.image.acls.values()}


def test_acls_are_stored(bench: Bench) -> None:
    assert create(bench, *STORED) == [0] * len(STORED)
    assert stored(bench) == set(STORED)
    assert set(bench.steps[-1].delta.acls) == set(bench.image.acls)


def test_a_binding_is_stored_once(bench: Bench) -> None:
    assert create(bench, READS, READS) == [0, 0]
    assert create(bench, READS) == [0]
    assert len(bench.image.acls) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        READS._replace(resource_type=Kind.ANY),
        READS._replace(resource_type=Kind.UNKNOWN),
        READS._replace(resource_type=Kind.CLUSTER),
        READS._replace(resource_name=""),
        READS._replace(pattern_type=Pattern.MATCH),
        READS._replace(operation=Op.ANY),
        READS._replace(permission=AclPermission.ANY),
        READS._replace(principal="ann"),
    ],
)
def test_an_impossible_entry_is_rejected_and_the_others_are_stored(
    bench: Bench, wrong: Acl
) -> None:
    assert create(bench, wrong, DENIED) == [errors.InvalidRequest.code, 0]
    assert stored(bench) == {DENIED}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), STORED),
        (AclFilter(Kind.TOPIC), (READS, ALL_ORDERS, EVERY_TOPIC)),
        (AclFilter(Kind.TOPIC, "orders"), (READS,)),
        (AclFilter(Kind.TOPIC, "orders", pattern_type=Pattern.LITERAL), (READS,)),
        (AclFilter(Kind.TOPIC, "orders", pattern_type=Pattern.PREFIXED), ()),
        (AclFilter(Kind.TOPIC, "ord", pattern_type=Pattern.PREFIXED), (ALL_ORDERS,)),
        (
            AclFilter(Kind.TOPIC, "orders", pattern_type=Pattern.MATCH),
            (READS, ALL_ORDERS, EVERY_TOPIC),
        ),
        (AclFilter(resource_name="orders"), (READS, DENIED)),
        (AclFilter(principal="User:ann"), (READS, ALL_ORDERS)),
        (AclFilter(host="10.0.0.1"), (EVERY_TOPIC,)),
        (AclFilter(operation=Op.READ), (READS, DENIED)),
        (AclFilter(permission=AclPermission.DENY), (DENIED,)),
    ],
)
def test_a_filter_deletes_what_it_finds(
    bench: Bench, wanted: AclFilter, found: Iterable[Acl]
) -> None:
    create(bench, *STORED)
    assert delete(bench, wanted) == [set(found)]
    assert stored(bench) == set(STORED) - set(found)


def test_an_acl_that_two_filters_find_is_removed_once(bench: Bench) -> None:
    create(bench, READS)
    assert delete(bench, AclFilter(Kind.TOPIC), AclFilter(principal="User:ann")) == [
        {READS},
        {READS},
    ]
    assert len(bench.steps[-1].delta.acls) == 1


def test_an_unknown_filter_is_rejected_alone(bench: Bench) -> None:
    create(bench, READS)
    answers = delete(bench, AclFilter(operation=Op.UNKNOWN), AclFilter(Kind.TOPIC))
    assert answers == [errors.InvalidRequest.code, {READS}]
