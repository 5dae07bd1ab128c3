"""ControllerRegistration, v0.  A controller tells the active one its endpoints and features."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, UInt16, Uuid
from penstock.wire.schema import field, message, struct


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class Feature:
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(key=70, versions="0", flexible=0)
class ControllerRegistrationRequest:
    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)


@message(key=70, versions="0", flexible=0, response=True)
class ControllerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
