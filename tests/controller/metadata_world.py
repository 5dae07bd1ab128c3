"""A metadata quorum in a world of seeds: simulated disk, time that stands still, counted chance."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from controller_bench import FewRules, registration

from penstock.broker.metadata.quorum_controller import QuorumController, SnapshotPolicy
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.storage_format import MetaProperties, open_directories_now
from penstock.broker.metadata.stored_log import open_stored_log
from penstock.controller.settings import ControllerSettings
from penstock.errors import KafkaError
from penstock.raft.quorum import QuorumSettings
from penstock.raft.replica import ReplicaSettings
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.testing.sim.disk import SimDisk
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.world import DiskFailed

ENDPOINT = VoterEndpoint("CONTROLLER", "localhost", 9093)


class Ticking:
    """Clock, timers and chance; each look at the clock is a little later than the last."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 1000.0
        self.next: list[Callable[[], None]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self._seed = seed
        self._drawn = 0

    def wall_ms(self) -> int:
        self.now += 0.1
        return int(self.now) + 1_700_000_000_000

    def mono_ms(self) -> float:
        return self.now

    def at(self, mono_ms: float, call: Callable[[], None]) -> "Cancelled":
        self.timers.append((mono_ms, call))
        return Cancelled(self, call)

    def soon(self, call: Callable[[], None]) -> None:
        self.next.append(call)

    def after_turn(self, call: Callable[[], None]) -> None:
        self.next.append(call)

    def uuid(self) -> bytes:
        self._drawn += 1
        value = bytearray(blake2b(f"{self._seed}/{self._drawn}".encode(), digest_size=16).digest())
        value[6] = value[6] & 0x0F | 0x40
        return bytes(value)

    def random_ms(self, low: int, high: int) -> int:
        return (low + high) // 2

    def advance(self, milliseconds: float) -> None:
        self.now += milliseconds
        due = [each for each in self.timers if each[0] <= self.now]
        self.timers = [each for each in self.timers if each[0] > self.now]
        for _, call in due:
            call()


class Cancelled:
    def __init__(self, ticking: Ticking, call: Callable[[], None]) -> None:
        self.ticking, self.call = ticking, call

    def cancel(self) -> None:
        self.ticking.timers = [each for each in self.ticking.timers if each[1] is not self.call]


class NoTransport:
    """A transport of a node without others."""

    def send(self, *request: object) -> None:
        raise AssertionError(f"the only voter sends nothing: {request}")


class MetadataWorld:
    """One node's metadata quorum, restarted and crashed at will."""

    def __init__(
        self,
        disk: SimDisk | None = None,
        *,
        seed: int = 0,
        snapshots: SnapshotPolicy | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.disk = disk if disk is not None else SimDisk(seed)
        self.time = Ticking(seed)
        self.snapshots = snapshots or SnapshotPolicy()
        self.settings = settings or {}
        self.failures: list[DiskFailed] = []
        self.problems: list[str] = []
        self.meta: MetaProperties
        self.metadata: QuorumController
        self.start()

    def start(self) -> None:
        (self.meta,) = open_directories_now(
            [self.disk],
            node_id=1,
            cluster_id=None,
            sole_voter=True,
            endpoint=ENDPOINT,
            clock=self.time,
            entropy=self.time,
        )
        self.metadata = QuorumController(
            self.disk,
            self.time,
            self.time,
            self.time,
            me=QuorumVoter(1, self.meta.directory_id, (ENDPOINT,)),
            quorum=QuorumSettings(ReplicaSettings(cluster_id=self.meta.cluster_id)),
            transport=NoTransport(),
            controller=ControllerSettings(
                cluster_id=self.meta.cluster_id, node_id=1, **self.settings
            ),
            rules=FewRules(),
            snapshots=self.snapshots,
            open_log=open_stored_log(self.disk, METADATA_DIRECTORY, self.time),
            failed=self.failures.append,
            unreadable=self.problems.append,
        )
        self.metadata.start()

    def run(self) -> None:
        """Until nothing waits any more."""
        while True:
            calls, self.time.next = self.time.next, []
            for call in calls:
                call()
            if not self.disk.run_callbacks() and not self.time.next:
                return

    def step(self) -> None:
        """One turn without waiting for the disk."""
        calls, self.time.next = self.time.next, []
        for call in calls:
            call()

    def ask(self, message: Any, version: int = 0) -> Any:
        replies: list[Any] = []
        self.metadata.submit(message, version, replies.append)
        self.run()
        (reply,) = replies
        if isinstance(reply, KafkaError):
            raise reply
        return reply

    def join(self, **fields: Any) -> int:
        request = registration(
            1,
            cluster_id=self.meta.cluster_id,
            log_dirs=[self.meta.directory_id],
            incarnation_id=self.time.uuid(),
            **fields,
        )
        epoch = int(self.ask(request, 4).broker_epoch)
        beat = k63.BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=epoch, current_metadata_offset=self.metadata.image.offset
        )
        assert not self.ask(beat, 1).is_fenced
        return epoch

    def create(self, name: str, partitions: int = 1) -> bytes:
        topic = k19.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        (result,) = self.ask(k19.CreateTopicsRequest(topics=[topic]), 7).topics
        assert result.error_code == 0, result.error_message
        return bytes(result.topic_id)

    def restart(self) -> None:
        self.run()
        self.metadata.stop()
        self.run()
        self.time.next = []
        self.start()
        self.run()

    def crash(self, seed: int) -> None:
        """The power goes; what was not synced is a gamble."""
        self.time.next, self.time.timers = [], []
        self.disk = self.disk.crash(seed)
        self.start()
        self.run()
