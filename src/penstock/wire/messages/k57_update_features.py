"""UpdateFeatures, v0-v2.  v1: validate only, upgrade types.  v2: no result per feature."""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class FeatureUpdateKey:
    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=1)


@message(key=57, versions="0-2", flexible=0)
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = field("1+", default=False)


@struct
class UpdatableFeatureResult:
    feature: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""


@message(key=57, versions="0-2", flexible=0, response=True)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = field("0-1", default_factory=list)
