"""AlterClientQuotas, v0-v1.  v1: flexible."""

from penstock.wire.primitives import Float64, Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import EntityData


@struct
class OpData:
    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


@struct
class RequestEntryData:
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@message(key=49, versions="0-1", flexible=1)
class AlterClientQuotasRequest:
    entries: list[RequestEntryData] = field(default_factory=list)
    validate_only: bool = False


@struct
class ResponseEntryData:
    error_code: Int16 = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)


@message(key=49, versions="0-1", flexible=1, response=True)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData] = field(default_factory=list)
