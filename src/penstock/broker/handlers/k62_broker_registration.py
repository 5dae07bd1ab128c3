"""BrokerRegistration, v0-v4: a broker makes itself known, fenced at first.

v2: directory ids.  v3: the epoch of the last clean stop.  The active controller answers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import InvalidRequest, KafkaError
from penstock.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# A node has a handful of listeners, directories and features. The controller handles them at once.
REGISTERED_MAX = 1_000


def check_sizes(*lists: Sequence[object]) -> None:
    """Raise InvalidRequest for a registration with a list that no node has."""
    if max(len(each) for each in lists) > REGISTERED_MAX:
        raise InvalidRequest(f"A registration names at most {REGISTERED_MAX} of a kind.")


def handle(broker: "Broker", request: ClientRequest, message: BrokerRegistrationRequest) -> None:
    check_sizes(message.listeners, message.features, message.log_dirs)

    def rejected(error: KafkaError) -> BrokerRegistrationResponse:
        return BrokerRegistrationResponse(error_code=error.code)

    broker.ask_controller(request, message, rejected)
