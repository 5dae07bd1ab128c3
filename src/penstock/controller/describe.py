"""The state of the quorum, and the broker that clients use as the controller."""

from penstock.controller.image import Image
from penstock.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.raft.description import QuorumView, ReplicaStatus
from penstock.wire.messages import k55_describe_quorum as k55
from penstock.wire.structures import Listener

NO_BROKER = -1


def describe_quorum(
    request: k55.DescribeQuorumRequest, view: QuorumView
) -> k55.DescribeQuorumResponse:
    """Return the state of the metadata partition, and UnknownTopicOrPartition for any other."""
    topics = []
    for topic in request.topics:
        partitions = [
            _partition(view)
            if topic.topic_name == CLUSTER_METADATA_TOPIC and partition.partition_index == 0
            else _unknown(partition.partition_index)
            for partition in topic.partitions
        ]
        topics.append(k55.ResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = [
        k55.Node(
            node_id=voter.node_id,
            listeners=[
                Listener(name=each.listener, host=each.host, port=each.port)
                for each in voter.endpoints
            ],
        )
        for voter in view.voters
    ]
    return k55.DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(view: QuorumView) -> k55.ResponsePartitionData:
    led = view.led
    if led is None:
        error = NotLeaderOrFollower()
        return k55.ResponsePartitionData(
            partition_index=0,
            error_code=error.code,
            error_message=error.message,
            leader_id=view.leader_id,
            leader_epoch=view.epoch,
            high_watermark=-1,
        )
    return k55.ResponsePartitionData(
        partition_index=0,
        error_message=None,
        leader_id=led.leader_id,
        leader_epoch=led.epoch,
        high_watermark=led.high_watermark,
        current_voters=[_replica(each) for each in led.voters],
        observers=[_replica(each) for each in led.observers],
    )


def _replica(status: ReplicaStatus) -> k55.ReplicaState:
    return k55.ReplicaState(
        replica_id=status.key.node_id,
        replica_directory_id=status.key.directory_id,
        log_end_offset=status.end_offset,
        last_fetch_timestamp=status.last_fetch_ms,
        last_caught_up_timestamp=status.last_caught_up_ms,
    )


def _unknown(partition_index: int) -> k55.ResponsePartitionData:
    error = UnknownTopicOrPartition()
    return k55.ResponsePartitionData(
        partition_index=partition_index, error_code=error.code, error_message=error.message
    )


def some_active_broker(image: Image, asked: int) -> int:
    """Return a broker that clients use as the controller: any broker forwards to the real one. The
    asked broker is alive; another one may have been lost a moment ago."""
    known = image.brokers.get(asked)
    if known is not None and known.active:
        return asked
    active = (broker.broker_id for broker in image.brokers.values() if broker.active)
    return min(active, default=NO_BROKER)
