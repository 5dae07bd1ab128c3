"""The controller: requests that change the cluster in, metadata records and responses out.

State is one image, made of the records so far, committed or not. Records of a metadata
transaction are collected aside and become visible when it ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.controller.acls import AclRequests
from penstock.controller.alter_partition import AlterPartitionRequests
from penstock.controller.broker_heartbeats import HeartbeatRequests
from penstock.controller.broker_progress import BrokerProgress
from penstock.controller.broker_registration import RegistrationRequests
from penstock.controller.broker_sessions import FenceStaleBroker
from penstock.controller.brokers import allocate_producer_ids, unregister_broker
from penstock.controller.client_quotas import ClientQuotaRequests
from penstock.controller.configs import ConfigRequests
from penstock.controller.delta import Delta, ImageBuilder, MetadataCorrupt
from penstock.controller.elect_leaders import ElectLeadersRequests
from penstock.controller.features import FeatureRequests
from penstock.controller.image import ELIGIBLE_LEADERS, Image
from penstock.controller.live_facts import LiveFacts
from penstock.controller.periodic_elections import (
    ElectionRound,
    LeaderCheck,
    PeriodicElections,
)
from penstock.controller.reassignments import ReassignmentRequests
from penstock.controller.records import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_MIN,
)
from penstock.controller.replica_directories import ReplicaDirectoryRequests
from penstock.controller.seeded_random import SeededRandom
from penstock.controller.settings import ConfigRules, ControllerSettings
from penstock.controller.topics import TopicRequests
from penstock.effects import Failure, Outcome
from penstock.errors import KafkaError, UnsupportedVersion
from penstock.wire.messages.k19_create_topics import CreateTopicsRequest
from penstock.wire.messages.k20_delete_topics import DeleteTopicsRequest
from penstock.wire.messages.k30_create_acls import CreateAclsRequest
from penstock.wire.messages.k31_delete_acls import DeleteAclsRequest
from penstock.wire.messages.k33_alter_configs import AlterConfigsRequest
from penstock.wire.messages.k37_create_partitions import CreatePartitionsRequest
from penstock.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from penstock.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from penstock.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from penstock.wire.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from penstock.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from penstock.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from penstock.wire.messages.k57_update_features import UpdateFeaturesRequest
from penstock.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.wire.messages.k63_broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.wire.messages.k64_unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)

BOOTSTRAP_TRANSACTION = "Bootstrap records"


class NewerMetadata(Exception):
    """The directory was written by a server whose metadata this one cannot read."""


@dataclass(frozen=True, slots=True)
class ControllerRequest:
    """A request message, its version, and the chance it may use."""

    message: Any
    version: int
    seed: bytes


@dataclass(frozen=True, slots=True)
class ImageUpdate:
    """The image after one batch, and its changes."""

    image: Image
    delta: Delta


class Controller:
    """A machine (see machine.protocols). `on_update` gets every image, before the commit.

    `facts` answers what no record holds. Beside requests it takes the event FenceStaleBroker, and
    those of its timers (periodic_elections.py).
    """

    def __init__(
        self,
        settings: ControllerSettings,
        rules: ConfigRules,
        bootstrap: Sequence[Any],
        on_update: Callable[[ImageUpdate], None],
        image: Image | None = None,
        facts: LiveFacts | None = None,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._bootstrap = bootstrap
        self._on_update = on_update
        self._facts = facts or LiveFacts()
        self.image = image or Image()
        self._progress = BrokerProgress(self.image.offset)
        self._next_offset = self.image.offset + 1
        self._records_seen = image is not None and image.offset >= 0
        self._in_transaction = False
        self._loading = True
        known = self.image
        self._last_batch = (known.offset, known.epoch, known.timestamp_ms)
        self._builder = ImageBuilder(self.image)

    @property
    def metadata_version(self) -> int:
        return self.image.metadata_version

    def follow(self) -> None:
        """Give out an image for each batch from now on, as a standby."""
        self._loading = False

    # Records

    def replay(self, record: Any) -> None:
        self._records_seen = True
        match record:
            case BeginTransactionRecord():
                self._fold()
                self._in_transaction = True
            case EndTransactionRecord():
                self._in_transaction = False
            case AbortTransactionRecord():
                self._in_transaction = False
                self._builder = ImageBuilder(self.image)
            case RegisterBrokerRecord():
                self._progress.replay(record)
                self._builder.apply(record)
            case _:
                self._builder.apply(record)

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        self._next_offset = end_offset
        self._progress.replayed(end_offset)
        self._last_batch = (end_offset - 1, epoch, timestamp_ms)
        # While loading, one image for all batches: one for each would be copied and thrown away.
        if not self._loading and not self._in_transaction:
            delta = self._fold()
            self._on_update(ImageUpdate(self.image, delta))

    def _fold(self) -> Delta:
        """Build the next image from the records replayed since the last one, and return its
        delta."""
        self.image, delta = self._builder.build(*self._last_batch)
        self._builder = ImageBuilder(self.image)
        self._check_metadata_version()
        return delta

    def _check_metadata_version(self) -> None:
        level = self.image.features.get(METADATA_VERSION)
        if level is None or METADATA_VERSION_MIN <= level <= METADATA_VERSION_LATEST:
            return
        raise NewerMetadata(
            f"This directory is at {METADATA_VERSION} {level}; this server reads "
            f"{METADATA_VERSION_MIN} to {METADATA_VERSION_LATEST}. Start it with a server that "
            "knows this version."
        )

    def loaded(self, _now_ms: int) -> Outcome:
        """Activate the controller: write the first records of an empty log, abort an open
        transaction."""
        has_followed, self._loading = not self._loading, False
        self._progress.forget_heartbeats()
        records: list[Any] = []
        if self._in_transaction:
            records.append(AbortTransactionRecord(reason="Controller failover"))
        elif not has_followed:
            delta = self._fold()
            self._on_update(ImageUpdate(self.image, delta))
        if not self._records_seen or (self._in_transaction and not self.image.features):
            if not self._bootstrap:
                raise MetadataCorrupt("an empty metadata log, and no bootstrap records for it")
            features = {
                each.name
                for each in self._bootstrap
                if isinstance(each, FeatureLevelRecord) and each.feature_level
            }
            records.append(BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION))
            records += self._bootstrap
            if ELIGIBLE_LEADERS in features:
                records += FeatureRequests(self.image, self._settings).min_isr_records()
            records.append(EndTransactionRecord())
        return Outcome(records, timers=self._periodic_elections().timers())

    def recover(self, event: Any, problem: Exception, _now_ms: int) -> Outcome:
        """Report a request that failed. Only records change the state, so the request has changed
        nothing."""
        name = type(getattr(event, "message", event)).__name__
        subject = f"{name} to the controller"
        failures = [Failure(subject, problem, "It has changed nothing.")]
        if isinstance(event, LeaderCheck):
            timers = self._periodic_elections().check_timer(event.election)
            return Outcome(timers=timers, failures=failures)
        return Outcome(failures=failures)

    def set_aside(self, _record: Any, problem: Exception) -> Failure:
        """Raise the problem: metadata is one whole, and no record of it may be passed over."""
        raise problem

    # Requests

    def handle(self, event: Any, _now_ms: int) -> Outcome:
        match event:
            case FenceStaleBroker():
                return self._heartbeats().fence_stale(event)
            case LeaderCheck():
                return self._periodic_elections().check(event)
            case ElectionRound():
                return self._periodic_elections().elect(event)
        assert isinstance(event, ControllerRequest), "no other event is for the controller"
        return self._handle_request(event)

    def _handle_request(self, event: ControllerRequest) -> Outcome:
        message, version = event.message, event.version
        match message:
            case CreateTopicsRequest():
                return self._topics(event).create(message)
            case DeleteTopicsRequest():
                return self._topics(event).delete(message, version)
            case CreatePartitionsRequest():
                return self._topics(event).create_partitions(message)
            case ListPartitionReassignmentsRequest():
                return ReassignmentRequests(self.image, self._settings).list_all(message)
            case AlterPartitionReassignmentsRequest():
                return ReassignmentRequests(self.image, self._settings).alter(message)
            case ElectLeadersRequest():
                elections = ElectLeadersRequests(self.image, self._settings)
                return _or_code(ElectLeadersResponse, elections.elect, message)
            case IncrementalAlterConfigsRequest():
                return ConfigRequests(self.image, self._rules).incremental(message)
            case AlterConfigsRequest():
                return ConfigRequests(self.image, self._rules).replace_all(message)
            case AlterUserScramCredentialsRequest():
                from penstock.controller.scram import ScramRequests

                return ScramRequests(self.image).alter(message)
            case CreateAclsRequest():
                return AclRequests(self.image, SeededRandom(event.seed)).create(message)
            case DeleteAclsRequest():
                return AclRequests(self.image, SeededRandom(event.seed)).delete(message)
            case AlterClientQuotasRequest():
                return ClientQuotaRequests(self.image).alter(message)
            case AlterPartitionRequest():
                in_sync_sets = AlterPartitionRequests(self.image, self._settings)
                return _or_code(AlterPartitionResponse, in_sync_sets.alter, message, version)
            case AssignReplicasToDirsRequest():
                directories = ReplicaDirectoryRequests(self.image, self._settings)
                return _or_code(AssignReplicasToDirsResponse, directories.assign, message)
            case UpdateFeaturesRequest():
                features = FeatureRequests(self.image, self._settings, self._facts)
                return features.update(message, version)
            case AllocateProducerIdsRequest():
                allocate = allocate_producer_ids
                return _or_code(AllocateProducerIdsResponse, allocate, self.image, message)
            case BrokerRegistrationRequest():
                register = self._registrations().register_broker
                return _or_code(BrokerRegistrationResponse, register, message, version)
            case BrokerHeartbeatRequest():
                return _or_code(BrokerHeartbeatResponse, self._heartbeats().heartbeat, message)
            case UnregisterBrokerRequest():
                return _or_code(
                    UnregisterBrokerResponse, unregister_broker, self.image, self._settings, message
                )
            case ControllerRegistrationRequest():
                register_controller = self._registrations().register_controller
                return _or_code(ControllerRegistrationResponse, register_controller, message)
            case _:
                raise UnsupportedVersion(f"The controller does not serve {type(message).__name__}.")

    def _topics(self, event: ControllerRequest) -> TopicRequests:
        return TopicRequests(self.image, self._settings, self._rules, SeededRandom(event.seed))

    def _periodic_elections(self) -> PeriodicElections:
        return PeriodicElections(self.image, self._settings)

    def _registrations(self) -> RegistrationRequests:
        return RegistrationRequests(
            self.image, self._settings, self._facts, self._progress, self._next_offset
        )

    def _heartbeats(self) -> HeartbeatRequests:
        return HeartbeatRequests(
            self.image, self._settings, self._facts, self._progress, self._next_offset
        )


def _or_code(response: Callable[..., Any], work: Callable[..., Outcome], *given: Any) -> Outcome:
    """Return the decision of `work`, or a response with the code and text of its error."""
    try:
        return work(*given)
    except KafkaError as error:
        reply = response(error_code=error.code)
        if hasattr(reply, "error_message"):
            reply.error_message = error.message
        return Outcome(reply=reply)
