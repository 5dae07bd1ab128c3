"""The principal that an Envelope carries, behind its version."""

from penstock.wire.schema import message


@message(versions="0", flexible=0)
class DefaultPrincipalData:
    type: str = ""
    name: str = ""
    token_authenticated: bool = False
