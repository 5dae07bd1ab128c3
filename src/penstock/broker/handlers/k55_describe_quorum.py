"""DescribeQuorum, v0-v2: the metadata quorum, its leader and how far each replica is.

v1: when replicas last fetched.  v2: directory ids, error texts, where the nodes listen.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import UnknownTopicOrPartition
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.raft.quorum import QuorumView
from penstock.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", _request: Request, message: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    view = broker.metadata.describe()
    now_ms = broker.world.clock.wall_ms()
    response = DescribeQuorumResponse(error_message=None)
    for topic in message.topics:
        described = ResponseTopicData(topic_name=topic.topic_name)
        response.topics.append(described)
        for wanted in topic.partitions:
            known = topic.topic_name == CLUSTER_METADATA_TOPIC and wanted.partition_index == 0
            if known:
                described.partitions.append(_describe(view, now_ms))
            else:
                error = UnknownTopicOrPartition()
                described.partitions.append(
                    ResponsePartitionData(
                        partition_index=wanted.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                )
    response.nodes = [
        Node(
            node_id=voter.node_id,
            listeners=[
                Listener(name=each.listener, host=each.host, port=each.port)
                for each in voter.endpoints
            ],
        )
        for voter in view.voters
    ]
    return response


def _describe(view: QuorumView, now_ms: int) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=0,
        error_message=None,
        leader_id=view.leader_id,
        leader_epoch=view.epoch,
        high_watermark=view.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.node_id,
                replica_directory_id=voter.directory_id,
                log_end_offset=view.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in view.voters
        ],
    )
