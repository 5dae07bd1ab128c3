"""AllocateProducerIds, v0.  A block of producer ids for one broker."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import message


@message(key=67, versions="0", flexible=0)
class AllocateProducerIdsRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@message(key=67, versions="0", flexible=0, response=True)
class AllocateProducerIdsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
