"""TLS of a simulation: certificates are compared by name, and handshakes fail for real reasons.

No byte is encrypted and no signature is checked. A trust store accepts its own certificates, and
those whose issuer is the subject of one.
"""

from penstock.credentials.certificate import parse_certificate
from penstock.credentials.stores import certificates_in
from penstock.world import TlsFailed, TlsSettings


def certificate_of(settings: TlsSettings | None) -> bytes | None:
    """Return the certificate that these settings show; None without one."""
    found = certificates_in(settings.identity) if settings is not None else []
    return found[0] if found else None


def check_settings(settings: TlsSettings) -> None:
    """Raise TlsFailed for an identity without a certificate, or one that does not trust itself."""
    if not settings.identity:
        return
    if certificate_of(settings) is None:
        raise TlsFailed("the key of ssl.keystore cannot be used")
    if settings.trusts_itself and not _trusts(settings, settings):
        raise TlsFailed("a client with the settings of this node cannot connect to a server")


def handshake_problem(client: TlsSettings, server: TlsSettings | None) -> str | None:
    """Return why the handshake fails; None for one that works."""
    if server is None:
        return "the TLS handshake failed: wrong version number"
    if not _trusts(client, server):
        return "the TLS handshake failed: the certificate is not accepted"
    if server.client_auth == "none":
        return None
    if not client.identity:
        required = server.client_auth == "required"
        return "the TLS handshake failed: certificate required" if required else None
    if not _trusts(server, client):
        return "the TLS handshake failed: the certificate is not accepted"
    return None


def _trusts(settings: TlsSettings, other: TlsSettings) -> bool:
    trusted = certificates_in(settings.trusted or "")
    subjects = {parse_certificate(each).subject for each in trusted}
    shown = certificates_in(other.identity)
    return any(each in trusted or parse_certificate(each).issuer in subjects for each in shown)
