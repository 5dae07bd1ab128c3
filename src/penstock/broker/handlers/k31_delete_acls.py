"""DeleteAcls, v1-v3: removes entries by filters. Without an authorizer each one is rejected."""

from typing import TYPE_CHECKING

from penstock.broker.handlers.k30_create_acls import NO_AUTHORIZER
from penstock.broker.request import ClientRequest
from penstock.errors import SecurityDisabled
from penstock.wire.messages.k31_delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    _broker: "Broker", _request: ClientRequest, message: DeleteAclsRequest
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
            for _ in message.filters
        ]
    )
