"""The metadata of a node on its quorum: the image, the controller, and the requests to both.

Joins the quorum's log, the runtime and the controller. Every node follows the committed log; the
leader of the quorum is the active controller. Listeners get an image when its records are
committed, before the parked replies leave.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.broker.metadata.bootstrap_files import read_bootstrap
from penstock.broker.metadata.quorum_files import DiskQuorumFiles
from penstock.controller.broker_sessions import BrokerSessions, FenceStaleBroker
from penstock.controller.controller import Controller, ControllerRequest, ImageUpdate
from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.controller.image_difference import difference_of
from penstock.controller.image_records import image_records
from penstock.controller.live_facts import LiveFacts
from penstock.controller.records import decode_record, encode_record
from penstock.controller.settings import ConfigRules, ControllerSettings
from penstock.errors import NotController, ThrottlingQuotaExceeded
from penstock.machine.protocols import LogUnreadable
from penstock.machine.runtime import ReplyCallback, Runtime, RuntimeState, Standby
from penstock.raft.description import QuorumView
from penstock.raft.errors import QuorumError
from penstock.raft.protocols import MetadataLog, QuorumTransport
from penstock.raft.quorum import Quorum, QuorumSettings
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from penstock.world import Clock, Disk, DiskFailed, Entropy, Timer, Timers

log = logging.getLogger("penstock.controller")

# Each change that is not committed yet holds an image of its own.
CHANGES_IN_FLIGHT_MAX = 1000

ImageListener = Callable[[Image, Delta], None]


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """metadata.log.max.record.bytes.between.snapshots, metadata.log.max.snapshot.interval.ms."""

    bytes_between_max: int = 20 * 1024 * 1024
    interval_ms: int = 60 * 60 * 1000


class QuorumController:
    """`failed` gets the failure of the disk, `unreadable` the text of a log that cannot be read."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        timers: Timers,
        entropy: Entropy,
        *,
        me: QuorumVoter,
        quorum: QuorumSettings,
        transport: QuorumTransport,
        controller: ControllerSettings,
        rules: ConfigRules,
        snapshots: SnapshotPolicy,
        open_log: Callable[[MetadataSnapshotId | None], MetadataLog],
        failed: Callable[[DiskFailed], None],
        unreadable: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._timers = timers
        self._entropy = entropy
        self._node_id = me.node_id
        self._settings = controller
        self._rules = rules
        self._policy = snapshots
        self._bootstrap: list[Any] = []
        self._image = Image()
        self._waiting: deque[ImageUpdate] = deque()  # made of records that are not committed yet
        self._replaces_image = False  # the next update comes from a snapshot
        self._listeners: list[ImageListener] = []
        self._snapshot_timer: Timer | None = None
        self._sessions = BrokerSessions(controller.broker_session_timeout_ms)
        self._session_timer: Timer | None = None
        self._facts = LiveFacts(
            has_session=self._has_session,
            is_awaited=self._is_awaited,
            kraft_version=lambda: self._quorum.describe().kraft_version,
            voter_ids=lambda: [each.node_id for each in self._quorum.describe().voters],
        )
        self._quorum = Quorum(
            DiskQuorumFiles(disk, timers, open_log),
            clock,
            timers,
            me,
            quorum,
            transport,
            lambda limit: entropy.random_ms(0, limit - 1),
            encode=lambda record: encode_record(record, self._runtime.machine.metadata_version),
            decode=decode_record,
            failed=failed,
            diverged=unreadable,
        )
        self._runtime: Runtime[Controller] = Runtime(
            self._make_controller,
            self._quorum,
            clock,
            timers,
            while_loading=lambda: NotController("The controller still replays its log."),
            when_lost=lambda: NotController("This node is not the active controller."),
            when_full=lambda: ThrottlingQuotaExceeded("Too many changes wait for the disk."),
            before_release=self._publish,
            unreadable=lambda problem: unreadable(_text_of(problem)),
            begin=self._quorum.begin,
            activated=self._watch_sessions,
            standby=Standby(self._quorum, self._resume, self._restart),
            parked_max=CHANGES_IN_FLIGHT_MAX,
        )

    def _make_controller(self) -> Controller:
        """Return a controller without state: records of a whole log or snapshot follow."""
        self._waiting = deque()
        self._replaces_image = True
        return Controller(
            self._settings, self._rules, self._bootstrap, self._stepped, facts=self._facts
        )

    def _resume(self) -> tuple[Controller, int]:
        """Return a standby with the published image; committed records follow."""
        self._waiting = deque()
        self._replaces_image = False
        image = self._image
        standby = Controller(
            self._settings, self._rules, self._bootstrap, self._stepped, image, self._facts
        )
        standby.follow()
        return standby, image.offset + 1

    def _restart(self) -> Controller:
        """Return a standby without state: the records of a snapshot follow."""
        standby = self._make_controller()
        standby.follow()
        return standby

    # Life

    def start(self) -> None:
        """Load snapshot and log, and take part in the quorum. Waits for the disk. The only voter
        leads at once; others follow what is committed, on the loop."""
        self._bootstrap = read_bootstrap(self._disk)
        self._quorum.start()
        if self._quorum.is_only_voter:
            self._runtime.gained_now()
        else:
            self._runtime.follow_committed()
        self._schedule_snapshot()

    def shut_down(self) -> None:
        """Hand the leadership over: the node is about to stop."""
        self._quorum.shut_down()

    @property
    def may_stop(self) -> bool:
        """Return whether no other node waits for this one's leadership."""
        return self._quorum.may_stop

    def stop(self) -> None:
        """Answer all parked requests with an error; every answered change is on disk already."""
        self._cancel_timers()
        try:
            self._quorum.stop()
        finally:
            self._runtime.stop()  # also if the log could not be closed: nothing follows it then

    def kill(self) -> None:
        """Stop at once without a write or an answer."""
        self._cancel_timers()
        self._quorum.kill()
        self._runtime.stop()

    def _cancel_timers(self) -> None:
        for timer in (self._snapshot_timer, self._session_timer):
            if timer is not None:
                timer.cancel()
        self._snapshot_timer = self._session_timer = None

    # Requests

    @property
    def is_active(self) -> bool:
        """Return whether this node is the active controller."""
        return self._runtime.state is RuntimeState.ACTIVE

    @property
    def active_controller(self) -> tuple[int, int]:
        """Return the leader of the quorum, or -1, and its epoch."""
        return self._quorum.leader_id, self._quorum.epoch

    @property
    def leader_endpoint(self) -> VoterEndpoint | None:
        """Return the address of the leader, None if this node does not know it."""
        return self._quorum.leader_endpoint

    def on_leader(self, listener: Callable[[], None]) -> None:
        """Call the listener when the leader of the quorum or the epoch has changed."""
        self._quorum.on_leader = listener

    def submit(self, message: Any, version: int, done: ReplyCallback) -> None:
        """Submit a request to the controller of this node; `done` gets the response or a
        KafkaError, once its records are committed. The session of a broker counts from here."""
        if isinstance(message, BrokerHeartbeatRequest):
            now_ms = self._clock.mono_ms()
            self._sessions.contact(message.broker_id, message.broker_epoch, now_ms)
        self._runtime.submit(ControllerRequest(message, version, self._entropy.uuid()), done)

    def receive(self, request: QuorumRequest, reply: Callable[[QuorumResponse], None]) -> None:
        """Give a request of another node to the quorum."""
        self._quorum.receive(request, reply)

    # Sessions of brokers

    def _has_session(self, broker_id: int, broker_epoch: int) -> bool:
        return self._sessions.has_session(broker_id, broker_epoch, self._clock.mono_ms())

    def _is_awaited(self, broker_id: int, broker_epoch: int) -> bool:
        if broker_id == self._node_id:
            return False  # the former process of this node had the lock of its directories
        return self._sessions.is_awaited(broker_id, broker_epoch, self._clock.mono_ms())

    def _watch_sessions(self) -> None:
        """Give every broker a full session, and fence those whose session ends: the controller of
        this node has become active."""
        self._sessions.begin(self._image.brokers.values(), self._clock.mono_ms())
        self._schedule_session_check()

    def _schedule_session_check(self) -> None:
        if self._session_timer is not None:
            self._session_timer.cancel()
        at_ms = self._sessions.next_check_ms(self._clock.mono_ms())
        self._session_timer = self._timers.at(at_ms, self._check_sessions_soon)

    def _check_sessions_soon(self) -> None:
        # After a pause of this process heartbeats wait in the sockets: those are read first.
        self._timers.soon(lambda: self._timers.soon(self._check_sessions))

    def _check_sessions(self) -> None:
        self._session_timer = None
        if not self.is_active:
            return
        stale = self._sessions.stale(self._image.brokers, self._clock.mono_ms())
        if stale is not None:
            self._runtime.submit(stale, partial(self._fenced, stale))
        self._schedule_session_check()

    def _fenced(self, stale: FenceStaleBroker, result: object) -> None:
        if result is True:
            log.warning(
                "broker %d is fenced: no heartbeat came for %d ms. Its partitions move to other"
                " replicas in sync, or wait for its return",
                stale.broker_id,
                self._settings.broker_session_timeout_ms,
            )

    # The image

    @property
    def image(self) -> Image:
        """Return the committed image."""
        return self._image

    def on_image(self, listener: ImageListener) -> None:
        """Call the listener with each new image and its changes, from the next one on."""
        self._listeners.append(listener)

    def _stepped(self, step: ImageUpdate) -> None:
        if self._replaces_image:
            self._replaces_image = False
            step = ImageUpdate(step.image, difference_of(self._image, step.image))
        self._waiting.append(step)

    def _publish(self, committed_offset: int) -> None:
        while self._waiting and self._waiting[0].image.offset < committed_offset:
            step = self._waiting.popleft()
            self._image = step.image
            for listener in self._listeners:
                listener(step.image, step.delta)
        if self._quorum.bytes_since_snapshot >= self._policy.bytes_between_max:
            self.snapshot()

    # Snapshots

    def _schedule_snapshot(self) -> None:
        def due() -> None:
            self._schedule_snapshot()
            self.snapshot()

        at = self._clock.mono_ms() + self._policy.interval_ms
        self._snapshot_timer = self._timers.at(at, due)

    def snapshot(self, done: Callable[[DiskFailed | None], None] = lambda _: None) -> bool:
        """Begin a snapshot of the committed image. Return False if nothing is new, or one is
        written."""
        image = self._image
        newest = self._quorum.snapshot_id
        end_offset = image.offset + 1
        is_new = image.offset >= 0 and (newest is None or newest.end_offset < end_offset)
        if self._quorum.writing_snapshot or not is_new:
            return False
        version = image.metadata_version
        values = (encode_record(record, version) for record in image_records(image))
        self._quorum.write_snapshot(
            MetadataSnapshotId(end_offset, image.epoch), values, image.timestamp_ms, done
        )
        return True

    # Questions

    def describe(self) -> QuorumView:
        return self._quorum.describe()


def _text_of(problem: LogUnreadable) -> str:
    """Return the text of the quorum's own error, where that is the cause."""
    cause = problem.__cause__
    return str(cause if isinstance(cause, QuorumError) else problem)
