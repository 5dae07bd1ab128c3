"""RevokeProducer, v0: leaders vouch no longer for the former owner of a transaction.

An API of Penstock's own, between nodes. The coordinator sends it to the leaders of the
transaction's partitions, and answers the new owner after them.
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import TopicErrors


@struct
class RevokeProducerTopic:
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(key=10_000, versions="0", flexible=0)
class RevokeProducerRequest:
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[RevokeProducerTopic] = field(default_factory=list)


@message(key=10_000, versions="0", flexible=0, response=True)
class RevokeProducerResponse:
    topics: list[TopicErrors] = field(default_factory=list)
