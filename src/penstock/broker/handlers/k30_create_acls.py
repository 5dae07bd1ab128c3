"""CreateAcls, v1-v3: gives or takes permission. Without an authorizer each one is rejected."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import SecurityDisabled
from penstock.wire.messages.k30_create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Kafka's own words, which differ from those of DescribeAcls.
NO_AUTHORIZER = "No Authorizer is configured."


def handle(
    _broker: "Broker", _request: ClientRequest, message: CreateAclsRequest
) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
            for _ in message.creations
        ]
    )
