"""DescribeUserScramCredentials, v0.  Mechanisms and iterations, never the secrets."""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class UserName:
    name: str = ""


@message(key=50, versions="0", flexible=0)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(default_factory=list)


@struct
class CredentialInfo:
    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult:
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message(key=50, versions="0", flexible=0, response=True)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
