"""DescribeClientQuotas, v0-v1: from the image of this node."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.controller.client_quotas import describe
from penstock.errors import KafkaError
from penstock.wire.messages.k48_describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def denied(
    _message: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message, entries=None
    )


def handle(
    broker: "Broker", _request: ClientRequest, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        return describe(broker.image, message)
    except KafkaError as error:
        return denied(message, error)
