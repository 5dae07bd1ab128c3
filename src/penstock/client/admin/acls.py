"""Access control lists.

In a namespace an ACL is about names of that namespace: `*` means all of its names, which on the
cluster is an ACL on its prefix. ACLs on names of other namespaces are not shown and never deleted,
even by a filter without a name. ACLs on the cluster itself, on users and on tokens have no
namespace.
"""

from collections.abc import Sequence
from typing import TypeVar

from penstock.client.admin.part import AdminPart
from penstock.client.cluster.limits import limited
from penstock.client.namespace import Namespace
from penstock.client.transport.connection import Connection
from penstock.credentials.acls import (
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    known_member,
)
from penstock.errors import KafkaError, UnknownServerError, error_of, from_code
from penstock.wire.messages import k29_describe_acls, k30_create_acls, k31_delete_acls

F = TypeVar("F", k29_describe_acls.DescribeAclsRequest, k31_delete_acls.DeleteAclsFilter)
# A match of a deletion has the fields of both.
AclResource = k29_describe_acls.DescribeAclsResource | k31_delete_acls.DeleteAclsMatchingAcl
AclEntry = k29_describe_acls.AclDescription | k31_delete_acls.DeleteAclsMatchingAcl

NAMED = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)


class Acls(AdminPart):
    """The ACLs of a cluster, kept by the controller: `Admin.acls`."""

    @limited
    def describe(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 - it is frozen
        """Return the ACLs that the filter finds, sorted."""
        return self._describe(wanted)

    def _describe(self, wanted: AclFilter) -> list[Acl]:
        namespace = self._routes.namespace
        found = _ask_describe(self._routes.nodes.any(), _filter_into(namespace, wanted))
        shown = (_out_of(namespace, each) for each in found)
        return sorted(each for each in shown if each is not None)

    @limited
    def create(self, acls: Sequence[Acl]) -> dict[Acl, KafkaError | None]:
        """Create ACLs. Return None for each one that exists now, or its error."""
        namespace = self._routes.namespace
        return self._routes.of_controller(
            list(acls),
            lambda connection: dict(
                zip(
                    acls,
                    _ask_create(connection, [_into(namespace, each) for each in acls]),
                    strict=True,
                )
            ),
        )

    @limited
    def delete(
        self, filters: Sequence[AclFilter]
    ) -> dict[AclFilter, dict[Acl, KafkaError | None] | KafkaError]:
        """Delete ACLs. Return the ACLs that each filter found, with None or the error of the
        deletion."""
        if self._routes.namespace:
            return {each: self._delete_own(each) for each in filters}
        return self._routes.of_controller(
            list(filters), lambda connection: _ask_delete(connection, filters)
        )

    def _delete_own(self, wanted: AclFilter) -> dict[Acl, KafkaError | None] | KafkaError:
        """Delete the ACLs of this namespace one by one: the filter itself may find other
        namespaces' ACLs."""
        namespace = self._routes.namespace
        try:
            exact = {each: AclFilter(*_into(namespace, each)) for each in self._describe(wanted)}
        except KafkaError as error:
            return error
        if not exact:
            return {}
        answer = self._routes.of_controller(
            list(exact.values()),
            lambda connection: _ask_delete(connection, list(exact.values())),
        )
        found: dict[Acl, KafkaError | None] = {}
        for acl, asked in exact.items():
            told = answer[asked]
            # An ACL that is gone by now was deleted by another client.
            found[acl] = told if isinstance(told, KafkaError) else next(iter(told.values()), None)
        return found


# -- namespaces


def _into(namespace: Namespace, acl: Acl) -> Acl:
    if not namespace or acl.resource_type not in NAMED:
        return acl
    if acl.resource_name == WILDCARD and acl.pattern_type is PatternType.LITERAL:
        return acl._replace(resource_name=namespace.prefix, pattern_type=PatternType.PREFIXED)
    return acl._replace(resource_name=namespace.add(acl.resource_name))


def _out_of(namespace: Namespace, acl: Acl) -> Acl | None:
    if not namespace or acl.resource_type not in NAMED:
        return acl
    if acl.resource_name == namespace.prefix and acl.pattern_type is PatternType.PREFIXED:
        return acl._replace(resource_name=WILDCARD, pattern_type=PatternType.LITERAL)
    name = namespace.strip(acl.resource_name)
    return None if name is None else acl._replace(resource_name=name)


def _filter_into(namespace: Namespace, wanted: AclFilter) -> AclFilter:
    named = wanted.resource_type in (*NAMED, AclResourceType.ANY)
    if not namespace or not named or wanted.resource_name is None:
        return wanted
    if wanted.resource_name == WILDCARD and wanted.pattern_type in (
        PatternType.LITERAL,
        PatternType.ANY,
    ):
        return wanted._replace(resource_name=namespace.prefix, pattern_type=PatternType.PREFIXED)
    return wanted._replace(resource_name=namespace.add(wanted.resource_name))


# -- requests


def _filter(kind: type[F], wanted: AclFilter) -> F:
    return kind(
        resource_type_filter=int(wanted.resource_type),
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=int(wanted.pattern_type),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=int(wanted.operation),
        permission_type=int(wanted.permission),
    )


def _acl(resource: AclResource, entry: AclEntry) -> Acl:
    return Acl(
        known_member(AclResourceType, resource.resource_type),
        resource.resource_name,
        entry.principal,
        known_member(AclOperation, entry.operation),
        known_member(AclPermission, entry.permission_type),
        entry.host,
        known_member(PatternType, resource.pattern_type),
    )


def _ask_describe(connection: Connection, wanted: AclFilter) -> list[Acl]:
    wire = k29_describe_acls
    request = _filter(wire.DescribeAclsRequest, wanted)
    answer = connection.request(request, wire.DescribeAclsResponse)
    if answer.error_code:
        raise from_code(answer.error_code, answer.error_message)
    return [_acl(resource, each) for resource in answer.resources for each in resource.acls]


def _ask_create(connection: Connection, acls: Sequence[Acl]) -> list[KafkaError | None]:
    wire = k30_create_acls
    request = wire.CreateAclsRequest(
        creations=[
            wire.AclCreation(
                resource_type=int(each.resource_type),
                resource_name=each.resource_name,
                resource_pattern_type=int(each.pattern_type),
                principal=each.principal,
                host=each.host,
                operation=int(each.operation),
                permission_type=int(each.permission),
            )
            for each in acls
        ]
    )
    answer = connection.request(request, wire.CreateAclsResponse)
    results: list[KafkaError | None] = [
        error_of(each.error_code, each.error_message) for each in answer.results
    ]
    # Results come in the order of the request, without names.
    silent = UnknownServerError("the server did not answer for it")
    return (results + [silent] * len(acls))[: len(acls)]


def _ask_delete(
    connection: Connection, filters: Sequence[AclFilter]
) -> dict[AclFilter, dict[Acl, KafkaError | None] | KafkaError]:
    wire = k31_delete_acls
    request = wire.DeleteAclsRequest(
        filters=[_filter(wire.DeleteAclsFilter, each) for each in filters]
    )
    answer = connection.request(request, wire.DeleteAclsResponse)
    return {
        asked: error_of(told.error_code, told.error_message)
        or {
            _acl(each, each): error_of(each.error_code, each.error_message)
            for each in told.matching_acls
        }
        for asked, told in zip(filters, answer.filter_results, strict=False)
    }
