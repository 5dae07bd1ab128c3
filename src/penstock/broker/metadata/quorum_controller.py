"""The controller of a node on its quorum: start, submit requests, follow the image, stop.

Joins the quorum's log, the runtime and the controller. Listeners get an image when its records are
committed, before the parked replies leave.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.broker.metadata.quorum_files import DiskQuorumFiles
from penstock.broker.metadata.storage_format import read_bootstrap
from penstock.controller.controller import Controller, ControllerRequest, ImageUpdate
from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.controller.image_records import image_records
from penstock.controller.records import decode_record, encode_record
from penstock.controller.settings import ConfigRules, ControllerSettings
from penstock.errors import CoordinatorLoadInProgress, NotController, ThrottlingQuotaExceeded
from penstock.machine.runtime import ReplyCallback, Runtime
from penstock.raft.protocols import MetadataLog
from penstock.raft.quorum import Quorum, QuorumSettings, QuorumView
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import QuorumVoter
from penstock.world import Clock, Disk, DiskFailed, Entropy, Timer, Timers

# Each change that is not committed yet holds an image of its own.
CHANGES_IN_FLIGHT_MAX = 1000

ImageListener = Callable[[Image, Delta], None]


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """metadata.log.max.record.bytes.between.snapshots, metadata.log.max.snapshot.interval.ms."""

    bytes_between_max: int = 20 * 1024 * 1024
    interval_ms: int = 60 * 60 * 1000


class QuorumController:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        timers: Timers,
        entropy: Entropy,
        *,
        me: QuorumVoter,
        quorum: QuorumSettings,
        controller: ControllerSettings,
        rules: ConfigRules,
        snapshots: SnapshotPolicy,
        open_log: Callable[[int], MetadataLog],
        failed: Callable[[DiskFailed], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._timers = timers
        self._entropy = entropy
        self._settings = controller
        self._rules = rules
        self._policy = snapshots
        self._bootstrap: list[Any] = []
        self._image = Image()
        self._waiting: deque[ImageUpdate] = deque()  # made of records that are not committed yet
        self._listeners: list[ImageListener] = []
        self._snapshot_timer: Timer | None = None
        self._quorum = Quorum(
            DiskQuorumFiles(disk, timers, open_log),
            clock,
            me,
            quorum,
            encode=lambda record: encode_record(record, self._runtime.machine.metadata_version),
            decode=decode_record,
            failed=failed,
        )
        self._runtime: Runtime[Controller] = Runtime(
            self._make_controller,
            self._quorum,
            clock,
            timers,
            while_loading=CoordinatorLoadInProgress,
            when_lost=lambda: NotController("The controller is stopping or its disk has failed."),
            when_full=lambda: ThrottlingQuotaExceeded("Too many changes wait for the disk."),
            before_release=self._publish,
            begin=self._quorum.begin,
            parked_max=CHANGES_IN_FLIGHT_MAX,
        )

    def _make_controller(self) -> Controller:
        self._waiting = deque()
        return Controller(self._settings, self._rules, self._bootstrap, self._stepped)

    # Life

    def start(self) -> None:
        """Load snapshot and log, take an epoch, lead. Waits for the disk, but not for the last
        sync."""
        self._bootstrap = read_bootstrap(self._disk)
        self._quorum.start()
        self._runtime.gained_now()
        self._schedule_snapshot()

    def stop(self) -> None:
        """Answer all parked requests with an error; every answered change is on disk already."""
        if self._snapshot_timer is not None:
            self._snapshot_timer.cancel()
            self._snapshot_timer = None
        self._quorum.stop()

    # Requests

    def submit(self, message: Any, version: int, done: ReplyCallback) -> None:
        """Submit a request; `done` gets the response or a KafkaError, once its records are
        committed."""
        self._runtime.submit(ControllerRequest(message, version, self._entropy.uuid()), done)

    # The image

    @property
    def image(self) -> Image:
        """Return the committed image."""
        return self._image

    def on_image(self, listener: ImageListener) -> None:
        """Call the listener with each new image and its changes, from the next one on."""
        self._listeners.append(listener)

    def _stepped(self, step: ImageUpdate) -> None:
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
        if self._quorum.writing_snapshot or (newest and newest.end_offset >= end_offset):
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
