"""BrokerHeartbeat: fencing, unfencing, controlled shutdown, directories that fail or are cordoned.

After a change of the active controller a broker in controlled shutdown asks again, as with Kafka.
"""

from enum import Enum, auto
from typing import Any

from penstock.controller.broker_progress import BrokerProgress
from penstock.controller.broker_sessions import FenceStaleBroker
from penstock.controller.brokers import (
    UNFENCE,
    check_broker_epoch,
    fence_records,
    registration_change,
)
from penstock.controller.image import BrokerImage, Image
from penstock.controller.leadership_changes import (
    changes_on_leaving,
    changes_on_offline_directories,
    changes_on_return,
    leads_partitions,
)
from penstock.controller.live_facts import LiveFacts
from penstock.controller.records import CORDONED_SINCE, DIRECTORIES_SINCE
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.wire.records.metadata import PartitionChangeRecord

IN_CONTROLLED_SHUTDOWN = 1


class BrokerControlState(Enum):
    """The states of a broker as heartbeats see them; Kafka's names."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()  # fenced, and the process may end

    @property
    def fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


class HeartbeatRequests:
    """Decides about heartbeats, and notes the progress of the brokers."""

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

    def heartbeat(self, request: k63.BrokerHeartbeatRequest) -> Outcome:
        """Move the broker to its next state."""
        broker = check_broker_epoch(self._image, request.broker_id, request.broker_epoch)
        registered_at = self._progress.registered_at(broker.broker_id)
        caught_up = request.current_metadata_offset >= registered_at
        failed = self._failed_directories(broker, request)
        state = self._next_state(broker, request, caught_up)
        records = self._transition(broker, state, failed)
        if failed:
            records += self._without_directories(broker, failed, records)
        records += self._cordoned(broker, request)
        self._progress.report(broker, request.current_metadata_offset)
        if state is BrokerControlState.CONTROLLED_SHUTDOWN:
            self._progress.begin_shutdown(broker, self._next_offset + len(records) - 1)
        elif state.fenced:
            self._progress.end_shutdown(broker.broker_id)
        if state is BrokerControlState.SHUTDOWN_NOW:
            self._progress.note_stop(broker)
        reply = k63.BrokerHeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=state.fenced,
            should_shut_down=state is BrokerControlState.SHUTDOWN_NOW,
        )
        return Outcome(records, reply)

    def fence_stale(self, event: FenceStaleBroker) -> Outcome:
        """Fence a broker whose session has ended, unless it registered again or was in contact."""
        broker = self._image.brokers.get(event.broker_id)
        if (
            broker is None
            or broker.epoch != event.broker_epoch
            or broker.fenced
            or self._facts.has_session(event.broker_id, event.broker_epoch)
        ):
            return Outcome(reply=False)
        self._progress.end_shutdown(broker.broker_id)
        return Outcome(fence_records(self._image, self._settings, broker), reply=True)

    def _next_state(
        self, broker: BrokerImage, request: k63.BrokerHeartbeatRequest, caught_up: bool
    ) -> BrokerControlState:
        states = BrokerControlState
        offset = self._progress.shutdown_offset(broker)
        if offset is not None:
            waits = leads_partitions(self._image, broker.broker_id)
            if waits or not self._progress.passed_by_all(self._image, offset):
                return states.CONTROLLED_SHUTDOWN
            return states.SHUTDOWN_NOW
        if broker.fenced:
            if request.want_shut_down:
                return states.SHUTDOWN_NOW
            return states.UNFENCED if caught_up and not request.want_fence else states.FENCED
        if request.want_fence:
            return states.SHUTDOWN_NOW if request.want_shut_down else states.FENCED
        if not request.want_shut_down:
            return states.UNFENCED
        # In Kafka the last active broker asks twice too, though no other one has to read anything.
        others = any(each.active for each in self._image.brokers.values() if each is not broker)
        if others and leads_partitions(self._image, broker.broker_id):
            return states.CONTROLLED_SHUTDOWN
        return states.SHUTDOWN_NOW

    def _transition(
        self, broker: BrokerImage, state: BrokerControlState, failed: frozenset[bytes]
    ) -> list[Any]:
        """Return the records that lead to the next state; none if the broker is there."""
        image, settings = self._image, self._settings
        if state is BrokerControlState.SHUTDOWN_NOW and len(image.brokers) == 1:
            return []  # no other broker serves what they say; the next registration says the same
        if state.fenced:
            return fence_records(image, settings, broker)
        if state is BrokerControlState.UNFENCED:
            if not broker.fenced:
                return []
            returning = changes_on_return(image, settings, broker.broker_id, failed)
            return [registration_change(broker, fenced=UNFENCE), *returning]
        if self._progress.shutdown_offset(broker) is not None:
            return []
        records: list[Any] = []
        if not broker.in_controlled_shutdown:
            change = registration_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
            records.append(change)
        return [*records, *changes_on_leaving(image, settings, broker.broker_id)]

    # Directories

    def _failed_directories(
        self, broker: BrokerImage, request: k63.BrokerHeartbeatRequest
    ) -> frozenset[bytes]:
        if not request.offline_log_dirs or self._image.metadata_version < DIRECTORIES_SINCE:
            return frozenset()
        return frozenset(request.offline_log_dirs).intersection(broker.directories)

    def _without_directories(
        self, broker: BrokerImage, failed: frozenset[bytes], before: list[Any]
    ) -> list[Any]:
        """Return the changes of replicas in failed directories, and of the registration. Partitions
        that change by records before are left out: the broker has left them."""
        changed = {
            (record.topic_id, record.partition_id)
            for record in before
            if isinstance(record, PartitionChangeRecord)
        }
        records: list[Any] = [
            record
            for record in changes_on_offline_directories(
                self._image, self._settings, broker.broker_id, failed
            )
            if (record.topic_id, record.partition_id) not in changed
        ]
        online = [each for each in broker.directories if each not in failed]
        if online:  # a record cannot say that none is left; the broker stops by itself
            records.append(registration_change(broker, log_dirs=online))
        return records

    def _cordoned(self, broker: BrokerImage, request: k63.BrokerHeartbeatRequest) -> list[Any]:
        wanted = request.cordoned_log_dirs
        if wanted is None or self._image.metadata_version < CORDONED_SINCE:
            return []
        named = frozenset(wanted)
        cordoned = [each for each in broker.directories if each in named]
        if cordoned == list(broker.cordoned or ()):
            return []
        return [registration_change(broker, cordoned_log_dirs=cordoned)]
