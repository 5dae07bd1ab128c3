"""DescribeConfigs, v1-v4.

v1: synonyms and sources.  v3: types and documentation.  v4: flexible.
"""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)


@message(key=32, versions="1-4", flexible=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = field("3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: str = ""
    value: str | None = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Int8 = field("3+", default=0)
    documentation: str | None = field("3+", default="")


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(key=32, versions="1-4", flexible=4, response=True)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
