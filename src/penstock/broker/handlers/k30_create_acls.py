"""CreateAcls, v1-v3: gives or takes permission, entry by entry. Answered by the controller.

Without an authorizer each entry is rejected. A request for more than 10,000 entries is rejected.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.request_pieces import Equals, Level, PieceRule, answer_in_pieces
from penstock.broker.sliced_work import Slices
from penstock.controller.settings import RECORDS_PER_REQUEST_MAX
from penstock.errors import KafkaError, PolicyViolation, SecurityDisabled
from penstock.wire.messages.k30_create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Kafka's own words, which differ from those of DescribeAcls.
NO_AUTHORIZER = "No Authorizer is configured."
CUT = PieceRule((Level("creations", "results"),), equals=Equals.APART)


def denied(message: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """Return the error for each entry."""
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[result] * len(message.creations))


def handle(
    broker: "Broker", request: ClientRequest, message: CreateAclsRequest
) -> Slices[CreateAclsResponse]:
    if not broker.access.enabled:
        return denied(message, SecurityDisabled(NO_AUTHORIZER))
    if len(message.creations) > RECORDS_PER_REQUEST_MAX:
        error = f"One request may create at most {RECORDS_PER_REQUEST_MAX} ACLs."
        return denied(message, PolicyViolation(error))
    created: CreateAclsResponse = yield from answer_in_pieces(
        request, message, CUT, partial(_create, broker)
    )
    return created


def _create(broker: "Broker", part: ClientRequest, message: CreateAclsRequest) -> Slices[None]:
    broker.ask_controller(part, message, partial(denied, message))
    yield None
