"""ControllerRegistration, v0.  A controller tells the active one its endpoints and features."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message
from penstock.wire.structures import RegisteredFeature, RegisteredListener


@message(key=70, versions="0", flexible=0)
class ControllerRegistrationRequest:
    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[RegisteredListener] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)


@message(key=70, versions="0", flexible=0, response=True)
class ControllerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
