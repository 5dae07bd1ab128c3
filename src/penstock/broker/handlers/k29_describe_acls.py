"""DescribeAcls, v1-v3: access control lists. This node has no authorizer: SECURITY_DISABLED."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import SecurityDisabled
from penstock.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Kafka's own words: scripts look for them.
NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(
    _broker: "Broker", _request: ClientRequest, _message: DescribeAclsRequest
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
