"""BrokerRegistration, v0-v4.

v1: migration from ZooKeeper.  v2: log directories.  v3: broker epoch before a clean shutdown
(KIP-966).  v4: features may start at 0 (KAFKA-17011).
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message
from penstock.wire.structures import RegisteredFeature, RegisteredListener


@message(key=62, versions="0-4", flexible=0)
class BrokerRegistrationRequest:
    broker_id: Int32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: list[RegisteredListener] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)
    rack: str | None = ""
    is_migrating_zk_broker: bool = field("1+", default=False)
    log_dirs: list[Uuid] = field("2+", default_factory=list)
    previous_broker_epoch: Int64 = field("3+", default=-1)


@message(key=62, versions="0-4", flexible=0, response=True)
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
