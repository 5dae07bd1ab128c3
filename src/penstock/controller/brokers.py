"""Brokers and controllers: registration, heartbeats, fencing, producer ids, leaving for good."""

from typing import Any

from penstock.controller.elections import (
    changes_on_crash,
    changes_on_leaving,
    changes_on_return,
)
from penstock.controller.image import BrokerImage, Image
from penstock.controller.records import CORDONED_SINCE, DIRECTORIES_SINCE
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    BrokerIdNotRegistered,
    InconsistentClusterId,
    InvalidRegistration,
    InvalidRequest,
    StaleBrokerEpoch,
    UnknownServerError,
    UnsupportedVersion,
)
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.wire.messages import k64_unregister_broker as k64
from penstock.wire.messages import k67_allocate_producer_ids as k67
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

RESERVED_DIRECTORIES_BELOW = 100  # ids that are small numbers mean something else
FENCE, UNFENCE = 1, -1
PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1


def check_broker_epoch(image: Image, broker_id: int, broker_epoch: int) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker {broker_id} is registered. It has to register first.")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(
            f"Broker {broker_id} is registered with epoch {broker.epoch}, not {broker_epoch}: "
            "another start of it has taken over."
        )
    return broker


class BrokerRequests:
    """Decides about registrations; holds no state but what it was given."""

    def __init__(self, image: Image, settings: ControllerSettings, next_offset: int) -> None:
        self._image = image
        self._settings = settings
        self._next_offset = next_offset

    def register(self, request: k62.BrokerRegistrationRequest) -> Outcome:
        """Register a broker. A new incarnation starts fenced; its epoch is the offset of its
        registration."""
        self._check_registration(request)
        existing = self._image.brokers.get(request.broker_id)
        record = self._registration(request)
        records: list[Any] = []
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            record.fenced = existing.fenced
            record.in_controlled_shutdown = existing.in_controlled_shutdown
            record.broker_epoch = existing.epoch
        else:
            record.broker_epoch = self._next_offset
            stopped_cleanly = existing is None or existing.epoch == request.previous_broker_epoch
            if not stopped_cleanly:
                records += changes_on_crash(self._image, self._settings, request.broker_id)
        records.append(record)
        reply = k62.BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
        return Outcome(records, reply)

    def _registration(self, request: k62.BrokerRegistrationRequest) -> RegisterBrokerRecord:
        version = self._image.metadata_version
        return RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            end_points=list(request.listeners),
            features=list(request.features),
            rack=request.rack,
            log_dirs=list(request.log_dirs) if version >= DIRECTORIES_SINCE else [],
            cordoned_log_dirs=[] if version >= CORDONED_SINCE else None,
        )

    def _check_registration(self, request: k62.BrokerRegistrationRequest) -> None:
        if request.cluster_id != self._settings.cluster_id:
            raise InconsistentClusterId(
                f"Expected cluster ID {self._settings.cluster_id}, but got cluster ID "
                f"{request.cluster_id}. The broker's directory belongs to another cluster."
            )
        if request.is_migrating_zk_broker:
            raise BrokerIdNotRegistered("Brokers that come from ZooKeeper are not accepted.")
        if not request.listeners:
            raise InvalidRegistration("The broker names no listener.")
        if self._image.metadata_version >= DIRECTORIES_SINCE:
            self._check_directories(request)
        for feature in request.features:
            level = self._image.features.get(feature.name, 0)
            low, high = feature.min_supported_version, feature.max_supported_version
            if level and not low <= level <= high:
                raise UnsupportedVersion(
                    f"Unable to register because the broker does not support finalized version "
                    f"{level} of {feature.name}. The broker wants a version between {low} and "
                    f"{high}, inclusive."
                )

    def _check_directories(self, request: k62.BrokerRegistrationRequest) -> None:
        if not request.log_dirs:
            raise InvalidRegistration("No directories specified in request.")
        if len(set(request.log_dirs)) != len(request.log_dirs):
            raise InvalidRegistration(
                "Duplicate directory ID in request: a log directory was copied. Each needs a "
                "directory.id of its own in meta.properties."
            )
        for directory in request.log_dirs:
            if int.from_bytes(directory, "big") < RESERVED_DIRECTORIES_BELOW:
                raise InvalidRegistration("Reserved directory ID in request.")
            for other in self._image.brokers.values():
                if other.broker_id != request.broker_id and directory in other.directories:
                    raise InvalidRegistration(
                        f"Broker {other.broker_id} is already registered with one of these "
                        "directories."
                    )

    def heartbeat(self, request: k63.BrokerHeartbeatRequest) -> Outcome:
        broker = check_broker_epoch(self._image, request.broker_id, request.broker_epoch)
        records: list[Any] = []
        caught_up = request.current_metadata_offset >= broker.epoch
        fenced = broker.fenced
        if request.want_shut_down:
            records += self._shut_down(broker)
        elif request.want_fence:
            if not fenced:
                records += self.fence(broker)
                fenced = True
        elif fenced and caught_up:
            records += self._unfence(broker)
            fenced = False
        reply = k63.BrokerHeartbeatResponse(
            is_caught_up=caught_up, is_fenced=fenced, should_shut_down=request.want_shut_down
        )
        return Outcome(records, reply)

    def fence(self, broker: BrokerImage) -> list[Any]:
        return [
            _change(broker, fenced=FENCE),
            *changes_on_leaving(self._image, self._settings, broker.broker_id),
        ]

    def _unfence(self, broker: BrokerImage) -> list[Any]:
        return [
            _change(broker, fenced=UNFENCE),
            *changes_on_return(self._image, self._settings, broker.broker_id),
        ]

    def _shut_down(self, broker: BrokerImage) -> list[Any]:
        """Move leadership to other in-sync replicas. A partition without another one keeps this
        broker, which leads it again after its return."""
        if broker.in_controlled_shutdown:
            return []
        changes = [
            record
            for record in changes_on_leaving(self._image, self._settings, broker.broker_id)
            if record.leader != -1
        ]
        others = any(b.active for b in self._image.brokers.values() if b is not broker)
        return [_change(broker, in_controlled_shutdown=1), *changes] if others else []

    def unregister(self, request: k64.UnregisterBrokerRequest) -> Outcome:
        broker = self._image.brokers.get(request.broker_id)
        if broker is None:
            raise BrokerIdNotRegistered(f"Broker ID {request.broker_id} is not registered.")
        if not broker.fenced:
            raise InvalidRequest(f"Broker {request.broker_id} is running. Stop it first.")
        record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
        leaving = changes_on_leaving(self._image, self._settings, broker.broker_id)
        return Outcome([*leaving, record], k64.UnregisterBrokerResponse(error_message=None))

    def register_controller(self, request: k70.ControllerRegistrationRequest) -> Outcome:
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=request.zk_migration_ready,
            end_points=list(request.listeners),
            features=list(request.features),
        )
        return Outcome([record], k70.ControllerRegistrationResponse(error_message=None))


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


def _change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
