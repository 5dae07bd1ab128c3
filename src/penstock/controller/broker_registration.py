"""BrokerRegistration and ControllerRegistration: which nodes belong to the cluster."""

from collections.abc import Sequence

from penstock.controller.broker_progress import BrokerProgress
from penstock.controller.image import BrokerImage, Image
from penstock.controller.leadership_changes import changes_on_new_incarnation
from penstock.controller.live_facts import LiveFacts
from penstock.controller.records import (
    CONTROLLER_REGISTRATION_SINCE,
    CORDONED_SINCE,
    DIRECTORIES_SINCE,
    METADATA_VERSION,
)
from penstock.controller.settings import KRAFT_VERSION, ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    UnsupportedVersion,
)
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.records.metadata import RegisterBrokerRecord, RegisterControllerRecord
from penstock.wire.structures import RegisteredFeature, RegisteredListener

RESERVED_DIRECTORIES_BELOW = 100  # ids that are small numbers mean something else
SECURITY_PROTOCOLS = (0, 1, 2, 3)  # PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
CLEAN_STOPS_SINCE = 3  # of BrokerRegistration: older requests cannot tell of a clean stop


class RegistrationRequests:
    """Decides about registrations; holds no state but what it was given."""

    def __init__(
        self,
        image: Image,
        settings: ControllerSettings,
        facts: LiveFacts,
        progress: BrokerProgress,
        next_offset: int,
    ) -> None:
        self._image = image
        self._settings = settings
        self._facts = facts
        self._progress = progress
        self._next_offset = next_offset

    def register_broker(self, request: k62.BrokerRegistrationRequest, version: int) -> Outcome:
        """Register a broker. A new incarnation starts fenced, in a new epoch, after the former one
        has left the in-sync sets and leads nothing. The same incarnation keeps epoch and state."""
        existing = self._image.brokers.get(request.broker_id)
        self._check_broker(request, existing)
        record = self._broker_record(request)
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            record.fenced = existing.fenced
            record.in_controlled_shutdown = existing.in_controlled_shutdown
            record.broker_epoch = existing.epoch
            if record.cordoned_log_dirs is not None:
                record.cordoned_log_dirs = list(existing.cordoned or ())
            reply = k62.BrokerRegistrationResponse(broker_epoch=existing.epoch)
            return Outcome([record], reply)
        record.broker_epoch = self._next_offset
        clean = (
            existing is not None
            and version >= CLEAN_STOPS_SINCE
            and existing.epoch == request.previous_broker_epoch
        )
        changes = changes_on_new_incarnation(
            self._image, self._settings, request.broker_id, clean=clean
        )
        # The registration comes last: with it, all records before it are there.
        reply = k62.BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
        return Outcome([*changes, record], reply)

    def _broker_record(self, request: k62.BrokerRegistrationRequest) -> RegisterBrokerRecord:
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

    def _check_broker(
        self, request: k62.BrokerRegistrationRequest, existing: BrokerImage | None
    ) -> None:
        if request.cluster_id != self._settings.cluster_id:
            raise InconsistentClusterId(
                f"Expected cluster ID {self._settings.cluster_id}, but got cluster ID "
                f"{request.cluster_id}. The broker's directory belongs to another cluster."
            )
        if existing is not None and existing.incarnation_id != request.incarnation_id:
            self._check_replaced(request, existing)
        if request.is_migrating_zk_broker:
            raise BrokerIdNotRegistered("Brokers that come from ZooKeeper are not accepted.")
        if self._image.metadata_version >= DIRECTORIES_SINCE:
            self._check_directories(request)
        if not request.listeners:
            raise InvalidRegistration("The broker names no listener.")
        _check_listeners(request.listeners)
        self._check_features(request.features)

    def _check_replaced(
        self, request: k62.BrokerRegistrationRequest, existing: BrokerImage
    ) -> None:
        """Raise if another process may live under the id. The claim of a clean stop in the
        registered epoch proves to a new controller that it does not."""
        if self._progress.has_stopped(existing):
            return
        key = existing.broker_id, existing.epoch
        if self._facts.has_session(*key):
            raise DuplicateBrokerRegistration(
                f"Another broker is registered with id {existing.broker_id}, and its session "
                "runs. A broker that was restarted has to wait until the session ends."
            )
        if request.previous_broker_epoch != existing.epoch and self._facts.is_awaited(*key):
            raise DuplicateBrokerRegistration(
                f"Another broker is registered with id {existing.broker_id}, and may live: this "
                "controller is new. A broker that was restarted has to wait for half a session."
            )

    def _check_directories(self, request: k62.BrokerRegistrationRequest) -> None:
        if not request.log_dirs:
            raise InvalidRegistration("No directories specified in request.")
        for directory in request.log_dirs:
            if int.from_bytes(directory, "big") < RESERVED_DIRECTORIES_BELOW:
                raise InvalidRegistration("Reserved directory ID in request.")
        wanted = set(request.log_dirs)
        if len(wanted) != len(request.log_dirs):
            raise InvalidRegistration(
                "Duplicate directory ID in request: a log directory was copied. Each needs a "
                "directory.id of its own in meta.properties."
            )
        for other in self._image.brokers.values():
            if other.broker_id != request.broker_id and not wanted.isdisjoint(other.directories):
                raise InvalidRegistration(
                    f"Broker {other.broker_id} is already registered with one of these "
                    "directories: a log directory was copied. Each needs a directory.id of its own "
                    "in meta.properties."
                )

    def _check_features(self, features: Sequence[RegisteredFeature]) -> None:
        """Raise if a finalized feature is out of the broker's range; a feature that the broker does
        not name has the range 0 to 0. No broker has to support a feature that this
        controller does not know: Apache Kafka may have formatted the cluster."""
        finalized = {
            **self._image.features,
            METADATA_VERSION: self._image.metadata_version,
            KRAFT_VERSION: self._facts.kraft_version(),
        }
        ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in features}
        if METADATA_VERSION not in ranges:
            raise InvalidRegistration(f"Request features do not contain '{METADATA_VERSION}'.")
        asked = [name for name in finalized if name in self._settings.supported_features]
        for name in dict.fromkeys((*ranges, *asked)):
            level = finalized.get(name, 0)
            low, high = ranges.get(name, (0, 0))
            if not low <= level <= high:
                raise UnsupportedVersion(
                    f"Unable to register because the broker does not support finalized version "
                    f"{level} of {name}. The broker wants a version between {low} and "
                    f"{high}, inclusive."
                )

    def register_controller(self, request: k70.ControllerRegistrationRequest) -> Outcome:
        """Note the endpoints and features of a controller; a later registration replaces them."""
        if self._image.metadata_version < CONTROLLER_REGISTRATION_SINCE:
            raise UnsupportedVersion(
                "The current MetadataVersion is too old to support controller registrations."
            )
        _check_listeners(request.listeners)
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=False,
            end_points=list(request.listeners),
            features=list(request.features),
        )
        return Outcome([record], k70.ControllerRegistrationResponse(error_message=None))


def _check_listeners(listeners: Sequence[RegisteredListener]) -> None:
    for listener in listeners:
        if listener.security_protocol not in SECURITY_PROTOCOLS:
            raise InvalidRegistration(
                f"Unknown security protocol {listener.security_protocol} in listener "
                f"{listener.name}."
            )
