"""ApiVersions, v0-v4.

v3: flexible, client software, features; the response header stays v0 for ever.  v4: features
may start at 0 (KAFKA-17011).
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@message(key=18, versions="0-4", flexible=3)
class ApiVersionsRequest:
    client_software_name: str = field("3+", default="")
    client_software_version: str = field("3+", default="")


@struct
class ApiVersion:
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@message(key=18, versions="0-4", flexible=3, response=True)
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Int32 = field("1+", default=0)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, default_factory=list)
    finalized_features_epoch: Int64 = field("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, default_factory=list)
    zk_migration_ready: bool = field("3+", tag=3, default=False)
