"""The security of a connection, from Kafka's own client keys.

`Security.from_properties` takes the keys of a Java client: security.protocol, sasl.*, ssl.*, and
opens no file or connection. A ValueError names the wrong key and never shows a secret. Features
that need Java (GSSAPI, own callback handlers) are rejected.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.client.transport.sasl import OAuthBearer
from penstock.client.transport.tls_files import tls_context
from penstock.client.transport.tokens import (
    EndpointTokens,
    FileTokens,
    TokenSource,
    UnsecuredTokens,
)
from penstock.credentials.jaas import EXAMPLE, LoginModule, parse_jaas
from penstock.credentials.mechanism import Mechanism
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import HASHES, Scram
from penstock.credentials.tls import Tls

TOKEN_TIMEOUT_MS_DEFAULT = 10_000
MECHANISMS = ("PLAIN", *HASHES, "OAUTHBEARER")
# Kafka's own handlers are built in; other handlers would be Java classes.
KNOWN_HANDLERS = frozenset(
    {"OAuthBearerLoginCallbackHandler", "AbstractLogin$DefaultLoginCallbackHandler"}
)


class Protocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


@dataclass(frozen=True, slots=True)
class Security:
    """TLS, SASL, both or neither; secrets are not printed."""

    protocol: Protocol = Protocol.PLAINTEXT
    tls: Tls | None = None
    mechanism: Mechanism | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "Security":
        text = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        try:
            protocol = Protocol(text)
        except ValueError:
            raise ValueError(
                f"security.protocol={text}: it is one of {', '.join(Protocol)}"
            ) from None
        secured = protocol in (Protocol.SSL, Protocol.SASL_SSL)
        named = protocol in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)
        return cls(
            protocol,
            Tls.from_properties(properties) if secured else None,
            _mechanism(properties) if named else None,
        )

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for connections; the stores are read now."""
        return None if self.tls is None else tls_context(self.tls)


def _mechanism(properties: Mapping[str, str]) -> Mechanism:
    name = properties.get("sasl.mechanism", "GSSAPI").strip().upper()
    if name == "GSSAPI":
        raise ValueError(
            "sasl.mechanism=GSSAPI (Kerberos, and Kafka's default) is not offered; "
            f"set it to one of {', '.join(MECHANISMS)}"
        )
    if name not in MECHANISMS:
        raise ValueError(f"sasl.mechanism={name}: it is one of {', '.join(MECHANISMS)}")
    handler = properties.get("sasl.login.callback.handler.class", "").rpartition(".")[2]
    if handler and handler not in KNOWN_HANDLERS:
        raise ValueError(f"sasl.login.callback.handler.class={handler} is Java and cannot run here")
    text = properties.get("sasl.jaas.config")
    if not text:
        raise ValueError(f"sasl.jaas.config is missing; it looks like: {EXAMPLE}")
    module = parse_jaas(text)
    match name:
        case "PLAIN":
            _expect(module, "PlainLoginModule", name)
            return SaslPlain(_option(module, "username"), _option(module, "password"))
        case "OAUTHBEARER":
            _expect(module, "OAuthBearerLoginModule", name)
            return _bearer(properties, module.options)
        case _:
            _expect(module, "ScramLoginModule", name)
            by_token = module.options.get("tokenauth", "").lower() == "true"
            return Scram(name, _option(module, "username"), _option(module, "password"), by_token)


def _expect(module: LoginModule, wanted: str, mechanism: str) -> None:
    if module.short_name != wanted:
        raise ValueError(
            f"sasl.mechanism={mechanism} goes with {wanted}, sasl.jaas.config names "
            f"{module.short_name}"
        )


def _option(module: LoginModule, name: str) -> str:
    if name not in module.options:
        raise ValueError(f'sasl.jaas.config has no {name}="..."')
    return module.options[name]


def _bearer(properties: Mapping[str, str], options: Mapping[str, str]) -> OAuthBearer:
    prefixes = ("extension_", "unsecuredLoginExtension_")
    extensions = {
        option.removeprefix(prefix): value
        for option, value in options.items()
        for prefix in prefixes
        if option.startswith(prefix)
    }
    return OAuthBearer(_tokens(properties, options), extensions)


def _tokens(properties: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "").strip()
    if not url:
        unsecured = UnsecuredTokens(dict(options))
        unsecured.claims()  # wrong options fail now
        return unsecured
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileTokens(url2pathname(parts.path))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(
            f"sasl.oauthbearer.token.endpoint.url={url}: it is an http, https or file URL"
        )
    client_id = _credential(properties, options, "clientId", "client.id")
    client_secret = _credential(properties, options, "clientSecret", "client.secret")
    scope = options.get("scope") or properties.get("sasl.oauthbearer.scope")
    # The endpoint has TLS settings of its own, among the options.
    own_tls = any(option.startswith("ssl.") for option in options)
    timeout = properties.get("sasl.login.read.timeout.ms", "").strip()
    return EndpointTokens(
        url,
        client_id,
        client_secret,
        scope,
        int(timeout) if timeout.isdecimal() else TOKEN_TIMEOUT_MS_DEFAULT,
        Tls.from_properties(options) if own_tls else None,
    )


def _credential(
    properties: Mapping[str, str], options: Mapping[str, str], option: str, key: str
) -> str:
    full_key = f"sasl.oauthbearer.client.credentials.{key}"
    given = options.get(option) or properties.get(full_key)
    if not given:
        raise ValueError(f'fetching tokens needs {option}="..." in sasl.jaas.config, or {full_key}')
    return given
