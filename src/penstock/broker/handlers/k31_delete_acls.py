"""DeleteAcls, v1-v3: removes the entries that filters find. Answered by the controller.

Without an authorizer each filter is rejected.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.handlers.k30_create_acls import NO_AUTHORIZER
from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError, SecurityDisabled
from penstock.wire.messages.k31_delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def denied(message: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """Return the error for each filter."""
    result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[result] * len(message.filters))


def handle(
    broker: "Broker", request: ClientRequest, message: DeleteAclsRequest
) -> DeleteAclsResponse | None:
    if not broker.access.enabled:
        return denied(message, SecurityDisabled(NO_AUTHORIZER))
    broker.ask_controller(request, message, partial(denied, message))
    return None
