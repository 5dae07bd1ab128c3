"""AddOffsetsToTxn, v0-v4.  v3: flexible.  v4: TRANSACTION_ABORTABLE."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import message


@message(key=25, versions="0-4", flexible=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


@message(key=25, versions="0-4", flexible=3, response=True)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
