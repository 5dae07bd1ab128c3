"""DescribeAcls, v1-v3: the ACLs that a filter finds. Without an authorizer: SECURITY_DISABLED."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.controller.acls import acl_of, filter_of
from penstock.errors import SecurityDisabled
from penstock.wire.messages.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

ACLS_PER_SLICE = 500
# Kafka's own words: scripts look for them.
NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(
    broker: "Broker", _request: ClientRequest, message: DescribeAclsRequest
) -> Slices[DescribeAclsResponse]:
    if not broker.access.enabled:
        raise SecurityDisabled(NO_AUTHORIZER)
    wanted = filter_of(message)
    resources: dict[tuple[int, int, str], DescribeAclsResource] = {}
    for number, record in enumerate(broker.image.acls.values(), 1):
        if not number % ACLS_PER_SLICE:
            yield None
        if not wanted.finds(acl_of(record)):
            continue
        key = record.resource_type, record.pattern_type, record.resource_name
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=record.resource_type,
                resource_name=record.resource_name,
                pattern_type=record.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=record.principal,
                host=record.host,
                operation=record.operation,
                permission_type=record.permission_type,
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))
