"""Changes of in-sync sets, from the leaders of a simulated node to the controller."""

from functools import partial
from typing import TYPE_CHECKING, cast

from penstock.broker.partitions.partition import Partition
from penstock.errors import KafkaError, from_code
from penstock.replication.isr_proposal import IsrProposal
from penstock.testing.sim.replication.connections import MessageConnection, SendAnswer
from penstock.testing.sim.replication.sim_controller import TOPIC_ID
from penstock.testing.sim.replication.sim_partition import SimPartition
from penstock.wire.messages import k56_alter_partition as k56

if TYPE_CHECKING:
    from penstock.testing.sim.replication.replicating_node import ReplicatingNode

AGAIN_MS = 5.0


class IsrRequests:
    """The proposals of a node, one request in flight (replica_fetch.IsrChangesOfLeaders)."""

    def __init__(self, node: "ReplicatingNode") -> None:
        self._node = node
        self._simulation = node.simulation
        self._waiting: dict[SimPartition, IsrProposal] = {}
        self._connection: MessageConnection | None = None
        self._is_in_flight = False
        self._is_timed = False

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self._waiting[cast("SimPartition", partition)] = proposal
        self._send_in(0.0)

    def _send_in(self, delay_ms: float) -> None:
        if not self._is_timed and not self._is_in_flight:
            self._is_timed = True
            simulation, node = self._simulation, self._node
            simulation.at(simulation.now_ms + delay_ms, node, self._send, node.life)

    def _send(self) -> None:
        self._is_timed = False
        changes = {
            partition: proposal
            for partition, proposal in self._waiting.items()
            if _is_present(partition, proposal)
        }
        self._waiting = {}
        if not changes:
            return
        self._is_in_flight = True
        for proposal in changes.values():
            self._simulation.faults.maybe_end_member(proposal.isr[-1][0])
        request, controller = self._request(changes), self._simulation.controller
        if self._connection is None or not self._connection.is_open:
            self._connection = MessageConnection(self._node, controller)
        connection = self._connection

        def handle(reply: SendAnswer) -> None:
            reply(controller.alter(request))

        self._simulation.connections.ask(
            connection,
            handle,
            partial(self._answered, changes),
            self._simulation.draw.request_timeout_ms,
        )

    def _request(self, changes: dict[SimPartition, IsrProposal]) -> k56.AlterPartitionRequest:
        node = self._node
        topic = k56.RequestTopicData(topic_id=TOPIC_ID)
        for partition, proposal in changes.items():
            isr = [
                k56.BrokerState(
                    broker_id=each,
                    broker_epoch=node.broker_epoch if each == node.node_id else epoch,
                )
                for each, epoch in proposal.isr
            ]
            data = k56.RequestPartitionData(
                partition_index=partition.index,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=isr,
                partition_epoch=proposal.partition_epoch,
            )
            topic.partitions.append(data)
        return k56.AlterPartitionRequest(
            broker_id=node.node_id, broker_epoch=node.broker_epoch, topics=[topic]
        )

    def _answered(
        self,
        changes: dict[SimPartition, IsrProposal],
        response: k56.AlterPartitionResponse | None,
    ) -> None:
        self._is_in_flight = False
        if response is None or response.error_code:
            self._waiting = changes | self._waiting
            self._send_in(AGAIN_MS)
            return
        answers = {each.partition_index: each for each in response.topics[0].partitions}
        for partition, proposal in changes.items():
            if _is_present(partition, proposal):
                self._judged(partition, proposal, answers[partition.index])
        if self._waiting:
            self._send_in(0.0)

    def _judged(
        self, partition: SimPartition, proposal: IsrProposal, answer: k56.ResponsePartitionData
    ) -> None:
        leader = partition.leader
        if not answer.error_code:
            isr = tuple(answer.isr)
            if leader.accepted(proposal, answer.leader_epoch, answer.partition_epoch, isr):
                partition.watermark_moved()
            partition.isr_changed()
            return
        error: KafkaError = from_code(answer.error_code)
        if leader.rejected(proposal, error):
            self._waiting.setdefault(partition, proposal)
            self._send_in(AGAIN_MS)


def _is_present(partition: SimPartition, proposal: IsrProposal) -> bool:
    """Return whether the leader still waits for this change."""
    return partition.leading and partition.leader.pending == proposal
