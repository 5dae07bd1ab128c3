"""OpenSSL contexts of a node, made once for each value of settings, on any thread."""

import ssl
from dataclasses import replace

from penstock.real.tls_channel import TlsChannel
from penstock.tls_context import client_context, server_context
from penstock.world import TlsFailed, TlsSettings

CONTEXTS_MAX = 64
ROUNDS_MAX = 8  # of a handshake in memory


class TlsContexts:
    """The contexts of listeners and of outbound connections."""

    def __init__(self) -> None:
        self._servers: dict[TlsSettings, ssl.SSLContext] = {}
        self._clients: dict[TlsSettings, ssl.SSLContext] = {}

    def server(self, settings: TlsSettings) -> ssl.SSLContext:
        """Return the context of a listener. Raise TlsFailed for unusable settings."""
        found = self._servers.get(settings)
        return found or _remember(self._servers, settings, server_context(settings))

    def client(self, settings: TlsSettings) -> ssl.SSLContext:
        """Return the context of outbound connections. Raise TlsFailed for unusable settings."""
        found = self._clients.get(settings)
        return found or _remember(self._clients, settings, client_context(settings))

    def prepare(self, settings: TlsSettings) -> None:
        """Make both contexts, and try the identity in a handshake with itself. Raise TlsFailed."""
        server, client = self.server(settings), self.client(settings)
        if not settings.identity:
            return
        if settings.trusts_itself:
            client = client_context(replace(settings, check_host=False))
        else:
            server = server_context(replace(settings, client_auth="none"))
            client = client_context(replace(settings, check_host=False, identity=""))
            client.verify_mode = ssl.CERT_NONE
        try:
            _shake_hands(TlsChannel(client, "localhost"), TlsChannel(server))
        except ssl.SSLError as problem:
            raise TlsFailed(
                "a client with the settings of this node cannot connect to a server with them: "
                f"{tls_reason(problem)}"
            ) from problem


def _remember(
    contexts: dict[TlsSettings, ssl.SSLContext], settings: TlsSettings, made: ssl.SSLContext
) -> ssl.SSLContext:
    while len(contexts) >= CONTEXTS_MAX:
        contexts.pop(next(iter(contexts)), None)
    contexts[settings] = made
    return made


def _shake_hands(client: TlsChannel, server: TlsChannel) -> None:
    to_client = b""
    for _ in range(ROUNDS_MAX):
        client_done = client.shake_hands(to_client)
        server_done = server.shake_hands(client.take())
        to_client = server.take()
        if client_done and server_done:
            return
    raise ssl.SSLError("the handshake does not end")


def tls_reason(problem: ssl.SSLError) -> str:
    """Return the cause in a few words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {problem.verify_message}"
    return (problem.reason or str(problem)).replace("_", " ").lower()
