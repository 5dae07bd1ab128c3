"""InitProducerId, v0-v6.

v2: flexible.  v3: a producer may continue with its id and epoch.  v4: PRODUCER_FENCED.  v5:
TRANSACTION_ABORTABLE.  v6: two-phase commit (KIP-939), not yet stable in Kafka.
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message


@message(key=22, versions="0-6", flexible=2)
class InitProducerIdRequest:
    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable_2pc: bool = field("6+", default=False)
    keep_prepared_txn: bool = field("6+", default=False)


@message(key=22, versions="0-6", flexible=2, response=True)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
