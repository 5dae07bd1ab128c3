"""Changes of in-sync sets: from the leaders on this node to the active controller.

The changes of a turn leave in one AlterPartition request, and one request is in flight. A change
that the controller has not judged is sent again.
"""

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.partitions.partition import Partition
from penstock.broker.sliced_work import Slices
from penstock.errors import KafkaError, from_code
from penstock.replication.isr_proposal import IsrProposal
from penstock.wire.messages import k56_alter_partition as k56
from penstock.world import Timer

if TYPE_CHECKING:
    from penstock.broker.replication.broker_view import ReplicationBroker

log = logging.getLogger("penstock.replication")

AGAIN_MS = 50
PARTITIONS_PER_SLICE = 200


class IsrChanges:
    """The proposals that wait for the controller, and the checks for lagging followers."""

    def __init__(self, broker: "ReplicationBroker") -> None:
        self._broker = broker
        self._waiting: dict[Partition, IsrProposal] = {}
        self._in_flight: dict[Partition, IsrProposal] = {}
        self._before: dict[Partition, set[int]] = {}  # the sets before the changes in flight
        self._timer: Timer | None = None
        self._attempts = 0  # an answer to an earlier one is no news
        self.expansions = 0
        self.shrinks = 0
        self.failures = 0
        broker.metadata.on_leader(self._leader_changed)

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a change soon, with all others of this turn."""
        self._waiting[partition] = proposal
        self._send_in(0)

    def look_for_laggards(self) -> None:
        """Propose in-sync sets without the followers that lag."""
        self._broker.sliced_work.begin(self._look_for_laggards())

    def _look_for_laggards(self) -> Slices[None]:
        clock = self._broker.world.clock
        lag_ms_max = self._broker.settings.replica_lag_ms_max
        for number, partition in enumerate(list(self._broker.replicas.all())):
            if partition.leading and not partition.gone and partition.leader.followers:
                proposal = partition.leader.lagging(clock.mono_ms(), lag_ms_max)
                if proposal is not None:
                    self.propose(partition, proposal)
            if number % PARTITIONS_PER_SLICE == 0:
                yield None

    def _send_in(self, delay_ms: float) -> None:
        if self._timer is None and not self._in_flight:
            at_ms = self._broker.world.clock.mono_ms() + delay_ms
            self._timer = self._broker.world.timers.at(at_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        present = {
            partition: proposal
            for partition, proposal in self._waiting.items()
            if self._is_present(partition, proposal)
        }
        self._waiting = {}
        if not present or self._broker.stopping:
            return
        self._in_flight = present
        self._before = {partition: set(partition.leader.isr) for partition in present}
        self._attempts += 1
        self._broker.metadata.ask_once(
            self._request(present),
            k56.AlterPartitionResponse,
            partial(self._answered, self._attempts),
        )

    def _is_present(self, partition: Partition, proposal: IsrProposal) -> bool:
        """Return whether the leader still waits for this change."""
        return not partition.gone and partition.leading and partition.leader.pending == proposal

    def _request(self, changes: dict[Partition, IsrProposal]) -> k56.AlterPartitionRequest:
        node_id, broker_epoch = self._broker.node_id, self._broker.broker_epoch
        topics: dict[bytes, k56.RequestTopicData] = {}
        for partition, proposal in changes.items():
            isr = [
                k56.BrokerState(
                    broker_id=each, broker_epoch=broker_epoch if each == node_id else epoch
                )
                for each, epoch in proposal.isr
            ]
            data = k56.RequestPartitionData(
                partition_index=partition.index,
                leader_epoch=proposal.leader_epoch,
                new_isr=[each.broker_id for each in isr],
                new_isr_with_epochs=isr,
                partition_epoch=proposal.partition_epoch,
            )
            topic_id = partition.topic_id
            if topic_id not in topics:
                topics[topic_id] = k56.RequestTopicData(topic_id=topic_id)
            topics[topic_id].partitions.append(data)
        return k56.AlterPartitionRequest(
            broker_id=node_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def _leader_changed(self) -> None:
        """Ask the new controller: the former one may not answer any more."""
        if self._in_flight:
            self._retry_all()

    def _retry_all(self) -> None:
        changes, self._in_flight = self._in_flight, {}
        self._attempts += 1
        self._waiting = changes | self._waiting
        self._send_in(AGAIN_MS)

    def _answered(self, attempt: int, result: k56.AlterPartitionResponse | Exception) -> None:
        if attempt != self._attempts:
            return
        if isinstance(result, Exception) or result.error_code:
            why = result if isinstance(result, Exception) else from_code(result.error_code)
            log.debug("the controller has not judged changes of in-sync sets: %s", why)
            self._retry_all()
            return
        changes, self._in_flight = self._in_flight, {}
        answers = {
            (topic.topic_id, each.partition_index): each
            for topic in result.topics
            for each in topic.partitions
        }
        joined: Counter[int] = Counter()
        left: Counter[int] = Counter()
        for partition, proposal in changes.items():
            answer = answers.get((partition.topic_id, partition.index))
            if answer is not None and not answer.error_code:
                # The image may have ended the change already, before its answer came.
                before, after = self._before[partition], set(answer.isr)
                self._count(len(after) - len(before))
                joined.update(after - before)
                left.update(before - after)
            if self._is_present(partition, proposal):
                self._judged(partition, proposal, answer)
        _tell(left, "left")
        _tell(joined, "joined")
        self._broker.clear_caches()  # they know whether acks=all has enough replicas
        self._broker.touch()
        if self._waiting:
            self._send_in(0)

    def _judged(
        self,
        partition: Partition,
        proposal: IsrProposal,
        answer: k56.ResponsePartitionData | None,
    ) -> None:
        leader = partition.leader
        error: KafkaError | None = None
        if answer is not None and not answer.error_code:
            isr = tuple(answer.isr)
            if leader.accepted(proposal, answer.leader_epoch, answer.partition_epoch, isr):
                partition.watermark_moved()
            partition.isr_changed()
            return
        if answer is not None:
            error = from_code(answer.error_code)
        self.failures += 1
        log.debug("%s keeps its in-sync set: %s", partition, error)
        if leader.rejected(proposal, error):
            self._waiting.setdefault(partition, proposal)
            self._send_in(AGAIN_MS)

    def _count(self, more: int) -> None:
        if more > 0:
            self.expansions += 1
        elif more < 0:
            self.shrinks += 1


def _tell(changed: Counter[int], what: str) -> None:
    """Log how many in-sync sets of this node each broker has left, or joined."""
    for broker_id, partitions in sorted(changed.items()):
        log.info(
            "broker %d %s the in-sync replicas of %d partition%s led here",
            broker_id,
            what,
            partitions,
            "" if partitions == 1 else "s",
        )
