"""The metadata quorum: its leader, its voters, and the log end offset of each replica."""

from collections.abc import Sequence

from penstock.client.admin.cluster_values import QuorumDescription, QuorumListener, QuorumReplica
from penstock.client.admin.part import AdminPart
from penstock.client.cluster.limits import limited
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, UnknownServerError, error_of, from_code
from penstock.model import CLUSTER_METADATA_TOPIC, ZERO_ID
from penstock.wire.messages import k55_describe_quorum, k80_add_raft_voter, k81_remove_raft_voter
from penstock.wire.structures import Listener

METADATA_PARTITION = 0


class MetadataQuorum(AdminPart):
    """The metadata quorum; any broker forwards requests to its leader: `Admin.quorum`."""

    @limited
    def describe(self) -> QuorumDescription:
        """Return the leader, voters and observers, with the log end offset of each."""
        return self._routes.of_controller_as_one(_ask_describe)

    @limited
    def add_voter(
        self,
        node_id: int,
        directory_id: bytes,
        listeners: Sequence[QuorumListener],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Add a controller that has caught up as a voter. Raise if `cluster_id` is not this
        cluster's."""
        wire = k80_add_raft_voter
        request = wire.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._timeout_ms,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[
                Listener(name=each.name, host=each.host, port=each.port) for each in listeners
            ],
        )

        def ask(connection: Connection) -> KafkaError | None:
            answer = connection.request(request, wire.AddRaftVoterResponse)
            return error_of(answer.error_code, answer.error_message)

        self._routes.of_controller_as_one(ask)

    @limited
    def remove_voter(
        self, node_id: int, directory_id: bytes, *, cluster_id: str | None = None
    ) -> None:
        """Remove a controller from the voters."""
        wire = k81_remove_raft_voter
        request = wire.RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id
        )

        def ask(connection: Connection) -> KafkaError | None:
            answer = connection.request(request, wire.RemoveRaftVoterResponse)
            return error_of(answer.error_code, answer.error_message)

        self._routes.of_controller_as_one(ask)


def _ask_describe(connection: Connection) -> QuorumDescription | KafkaError:
    wire = k55_describe_quorum
    partition = wire.RequestPartitionData(partition_index=METADATA_PARTITION)
    request = wire.DescribeQuorumRequest(
        topics=[wire.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    )
    answer = connection.request(request, wire.DescribeQuorumResponse)
    if answer.error_code:
        return from_code(answer.error_code, answer.error_message)
    told = [each for topic in answer.topics for each in topic.partitions]
    if len(told) != 1:
        return UnknownServerError(f"the server at {connection} did not tell of the quorum")
    if told[0].error_code:
        return from_code(told[0].error_code, told[0].error_message)
    return QuorumDescription(
        told[0].leader_id,
        told[0].leader_epoch,
        told[0].high_watermark,
        tuple(_replica(each) for each in told[0].current_voters),
        tuple(_replica(each) for each in told[0].observers),
        {
            node.node_id: tuple(
                QuorumListener(each.name, each.host, each.port) for each in node.listeners
            )
            for node in answer.nodes
        },
    )


def _replica(told: k55_describe_quorum.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        told.replica_id,
        told.replica_directory_id if told.replica_directory_id != ZERO_ID else None,
        told.log_end_offset,
        told.last_fetch_timestamp if told.last_fetch_timestamp >= 0 else None,
        told.last_caught_up_timestamp if told.last_caught_up_timestamp >= 0 else None,
    )
