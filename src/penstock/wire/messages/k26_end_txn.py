"""EndTxn, v0-v5.

v3: flexible.  v4: TRANSACTION_ABORTABLE.  v5: every end bumps the epoch and returns it
(KIP-890).
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message


@message(key=26, versions="0-5", flexible=3)
class EndTxnRequest:
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


@message(key=26, versions="0-5", flexible=3, response=True)
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field("5+", default=-1)
    producer_epoch: Int16 = field("5+", default=-1)
