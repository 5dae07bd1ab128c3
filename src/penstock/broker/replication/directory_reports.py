"""Reports of this node about the log directories of its replicas (AssignReplicasToDirs, KIP-858).

The image names a directory for each replica. A broker with several directories chooses one itself
and reports it, as after a move. LOST stands for a replica whose log cannot be used: another replica
leads then. No other one could lead for a sole replica. So that is not reported when offline, nor in
a directory that the image has left open: clients get the reason from this node.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import OfflineReplica
from penstock.broker.storage.placements import TopicIdPartition
from penstock.controller.image import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionImage,
)
from penstock.controller.records import DIRECTORIES_SINCE
from penstock.errors import UnsupportedVersion, error_of
from penstock.model import ZERO_ID
from penstock.wire.messages import k73_assign_replicas_to_dirs as k73
from penstock.world import Timer

if TYPE_CHECKING:
    from penstock.broker.replication.broker_view import ReplicationBroker

log = logging.getLogger("penstock.replication")

AGAIN_MS = 100
REPLICAS_PER_REQUEST = 2_250
NOT_ASSIGNED = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)


class DirectoryReports:
    """The directories that the controller does not know yet. One request is in flight."""

    def __init__(self, broker: "ReplicationBroker") -> None:
        self._broker = broker
        self._wanted: dict[TopicIdPartition, bytes] = {}
        self._timer: Timer | None = None
        self._in_flight = False
        self._attempts = 0  # an answer to an earlier one is no news
        self._awaited: tuple[TopicIdPartition, ...] = ()  # losses, before this node may serve
        self._then: Callable[[], None] | None = None
        broker.metadata.on_leader(self._leader_changed)

    # -- what is to be reported

    def look(self, partition: Partition) -> None:
        """Report the directory of a replica if the image has another one."""
        topic_partition = (partition.topic_id, partition.index)
        offline = self._broker.replicas.offline_replica(topic_partition)
        if offline is not None:
            self._want(topic_partition, self._directory_of(topic_partition, offline))
        elif partition.log.lost is not None:
            self._want(
                topic_partition, LOST_DIRECTORY if self._has_others(topic_partition) else None
            )
        elif not partition.gone and not partition.directory.failed:
            self._want(topic_partition, partition.directory.directory_id)

    def lost_replicas(self) -> list[TopicIdPartition]:
        """Return the replicas that may lack records although the node has stopped cleanly: they are
        lost, or were lost before this start."""
        replicas = self._broker.replicas
        found: dict[TopicIdPartition, None] = {}
        for topic_partition, offline in replicas.offline():
            if self._directory_of(topic_partition, offline) == LOST_DIRECTORY:
                found[topic_partition] = None
        for each in replicas.all():
            topic_partition = (each.topic_id, each.index)
            if each.log.recovery.salvaged or self._known(topic_partition) == LOST_DIRECTORY:
                found[topic_partition] = None
        return list(found)

    def report_offline(self, then: Callable[[], None]) -> None:
        """Report the replicas that the start could not open; call when the controller knows
        them."""
        offline = list(self._broker.replicas.offline())
        for topic_partition, each in offline:
            self._want(topic_partition, self._directory_of(topic_partition, each))
        self._awaited = tuple(topic_partition for topic_partition, _ in offline)
        self._then = then
        self._look_for_end()

    def _directory_of(
        self, topic_partition: TopicIdPartition, offline: OfflineReplica
    ) -> bytes | None:
        """Return the directory to report for an offline replica. None for a sole replica, and if a
        next start may open the log. A directory that has failed is offline by itself, and its logs
        may be whole."""
        if offline.may_return or not self._has_others(topic_partition):
            return None
        working = [
            each.directory_id for each in self._broker.replicas.directories if not each.failed
        ]
        is_here = offline.directory_id in working or offline.directory_id == ZERO_ID
        return LOST_DIRECTORY if is_here else offline.directory_id

    def _state(self, topic_partition: TopicIdPartition) -> PartitionImage | None:
        """Return the partition in the image, None if this node has no replica of it."""
        topic = self._broker.image.topic(topic_partition[0])
        state = None if topic is None else topic.partitions.get(topic_partition[1])
        if state is None or self._broker.node_id not in state.replicas:
            return None
        return state

    def _known(self, topic_partition: TopicIdPartition) -> bytes | None:
        state = self._state(topic_partition)
        return None if state is None else state.directory_of(self._broker.node_id)

    def _has_others(self, topic_partition: TopicIdPartition) -> bool:
        state = self._state(topic_partition)
        return state is not None and len(state.replicas) > 1

    def _want(self, topic_partition: TopicIdPartition, directory: bytes | None) -> None:
        known = self._known(topic_partition)
        is_needless = known in NOT_ASSIGNED and not self._has_others(topic_partition)
        if directory is None or is_needless or known in (None, directory):
            self._wanted.pop(topic_partition, None)
        elif self._broker.image.metadata_version >= DIRECTORIES_SINCE:
            self._wanted[topic_partition] = directory
            self._send_in(0)

    # -- requests

    def _send_in(self, delay_ms: float) -> None:
        if self._timer is None and not self._in_flight:
            at_ms = self._broker.world.clock.mono_ms() + delay_ms
            self._timer = self._broker.world.timers.at(at_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        sent = dict(list(self._wanted.items())[:REPLICAS_PER_REQUEST])
        if not sent or self._broker.stopping:
            return
        self._in_flight = True
        self._attempts += 1
        self._broker.metadata.ask_once(
            self._request(sent),
            k73.AssignReplicasToDirsResponse,
            partial(self._answered, self._attempts, sent),
        )

    def _request(self, sent: dict[TopicIdPartition, bytes]) -> k73.AssignReplicasToDirsRequest:
        topics: dict[tuple[bytes, bytes], k73.RequestTopicData] = {}
        directories: dict[bytes, k73.RequestDirectoryData] = {}
        for (topic_id, index), directory_id in sent.items():
            directory = directories.setdefault(
                directory_id, k73.RequestDirectoryData(id=directory_id)
            )
            topic = topics.get((directory_id, topic_id))
            if topic is None:
                topic = topics[directory_id, topic_id] = k73.RequestTopicData(topic_id=topic_id)
                directory.topics.append(topic)
            topic.partitions.append(k73.RequestPartitionData(partition_index=index))
        return k73.AssignReplicasToDirsRequest(
            broker_id=self._broker.node_id,
            broker_epoch=self._broker.broker_epoch,
            directories=list(directories.values()),
        )

    def _leader_changed(self) -> None:
        """Ask the new controller: the former one may not answer any more."""
        if self._in_flight:
            self._in_flight = False
            self._attempts += 1
            self._send_in(AGAIN_MS)

    def _answered(
        self,
        attempt: int,
        sent: dict[TopicIdPartition, bytes],
        result: k73.AssignReplicasToDirsResponse | Exception,
    ) -> None:
        if attempt != self._attempts:
            return
        self._in_flight = False
        if isinstance(result, Exception):
            error: Exception | None = result
        else:
            error = error_of(result.error_code)
        if error is not None and not isinstance(error, UnsupportedVersion):
            log.debug("the controller did not take directories of replicas: %s", error)
            self._send_in(AGAIN_MS)
            return
        for topic_partition, directory in sent.items():
            # A partition that the controller rejects is not one of this broker any more.
            if self._wanted.get(topic_partition) == directory:
                del self._wanted[topic_partition]
        if self._wanted:
            self._send_in(0)
        self._look_for_end()

    def _look_for_end(self) -> None:
        """Call once no awaited report is left."""
        then = self._then
        if then is not None and not any(each in self._wanted for each in self._awaited):
            self._then = None
            then()
