"""Records of broker registrations that every decision about brokers uses; producer ids; the end of
a registration."""

from typing import Any

from penstock.controller.image import BrokerImage, Image
from penstock.controller.leadership_changes import changes_on_leaving, changes_on_unregistration
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    BrokerIdNotRegistered,
    InvalidRequest,
    StaleBrokerEpoch,
    UnknownServerError,
)
from penstock.wire.messages import k64_unregister_broker as k64
from penstock.wire.messages import k67_allocate_producer_ids as k67
from penstock.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    ProducerIdsRecord,
    UnregisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1
PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1


def check_broker_epoch(image: Image, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return the broker; raise if it is not registered under this epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker {broker_id} is registered. It has to register first.")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(
            f"Broker {broker_id} is registered with epoch {broker.epoch}, not {broker_epoch}: "
            "another start of it has taken over."
        )
    return broker


def registration_change(broker: BrokerImage, **changes: Any) -> BrokerRegistrationChangeRecord:
    """Return a change of the broker's registration; fields that are not given stay."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, **changes
    )


def fence_records(image: Image, settings: ControllerSettings, broker: BrokerImage) -> list[Any]:
    """Return the records that fence a broker; none if it is fenced."""
    if broker.fenced:
        return []
    leaving = changes_on_leaving(image, settings, broker.broker_id)
    return [*leaving, registration_change(broker, fenced=FENCE)]


def unregister_broker(
    image: Image, settings: ControllerSettings, request: k64.UnregisterBrokerRequest
) -> Outcome:
    """End the registration of a fenced broker, which leaves all in-sync sets."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"Broker ID {request.broker_id} is not registered.")
    if not broker.fenced:
        raise InvalidRequest(f"Broker {request.broker_id} is running. Stop it first.")
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    leaving = changes_on_unregistration(image, settings, broker.broker_id)
    return Outcome([*leaving, record], k64.UnregisterBrokerResponse(error_message=None))


def allocate_producer_ids(image: Image, request: k67.AllocateProducerIdsRequest) -> Outcome:
    """Give a block of ids to one broker; no id is given twice."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = image.producer_ids.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise UnknownServerError("Every producer id has been given out; no more are left.")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    reply = k67.AllocateProducerIdsResponse(
        producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE
    )
    return Outcome([record], reply)
