"""Keys of TLS and SASL, shared by all clients.

Admin reads them itself. librdkafka gets them translated: stores as PEM text, a JAAS configuration
as user and password or as a source of tokens.
"""

from penstock.client.settings.row import (
    BOOLEAN,
    CLASS,
    LIST,
    NO_EFFECT,
    NUMBER,
    PASSWORD,
    REFUSED,
    TEXT,
    TRANSLATED,
    WHOLE,
    SettingRow,
)

_JAVA = "Java classes cannot run here"
_JVM = "It chooses among what Java has; OpenSSL decides here"
_KERBEROS = "Kerberos is not offered; set sasl.mechanism to PLAIN, SCRAM-SHA-512 or OAUTHBEARER"
_NEW_TOKEN = "A new token is fetched when most of the old one's life is over"
_SERVER = "It is the broker's: it says how tokens are checked"
_ASSERTION = (
    "Tokens for a signed assertion are not offered; use client credentials "
    "(sasl.oauthbearer.client.credentials.*), a file: URL, or oauth_cb"
)
_TLS = (
    SettingRow(
        "ssl.truststore.location",
        TEXT,
        TRANSLATED,
        "PKCS12 or PEM: its certificates become ssl.ca.pem. A JKS file is refused with the command "
        "that converts it",
        "the system's authorities",
    ),
    SettingRow("ssl.truststore.password", PASSWORD, TRANSLATED, "Opens a PKCS12 file"),
    SettingRow("ssl.truststore.type", TEXT, TRANSLATED, "The file's own first bytes decide", "JKS"),
    SettingRow("ssl.truststore.certificates", PASSWORD, TRANSLATED, "PEM text; becomes ssl.ca.pem"),
    SettingRow(
        "ssl.keystore.location",
        TEXT,
        TRANSLATED,
        "PKCS12 or PEM: becomes ssl.certificate.pem and ssl.key.pem. A JKS file is refused with "
        "the command that converts it",
    ),
    SettingRow("ssl.keystore.password", PASSWORD, TRANSLATED, "Opens a PKCS12 file"),
    SettingRow("ssl.keystore.type", TEXT, TRANSLATED, "The file's own first bytes decide", "JKS"),
    SettingRow("ssl.keystore.key", PASSWORD, TRANSLATED, "PEM text; becomes ssl.key.pem"),
    SettingRow(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        TRANSLATED,
        "PEM text; becomes ssl.certificate.pem",
    ),
    SettingRow("ssl.key.password", PASSWORD, TRANSLATED, "Opens the key"),
    SettingRow(
        "ssl.cipher.suites",
        LIST,
        TRANSLATED,
        "In OpenSSL's names; those of TLS 1.3 cannot be chosen among and stay allowed",
    ),
    SettingRow(
        "ssl.enabled.protocols",
        LIST,
        TRANSLATED,
        "OpenSSL offers TLS 1.2 and 1.3, and librdkafka cannot take one away: a list without one "
        "of them is refused (limit it on the broker). Admin obeys any list",
        "TLSv1.2,TLSv1.3",
    ),
    SettingRow("ssl.protocol", TEXT, NO_EFFECT, _JVM),
    SettingRow(
        "ssl.endpoint.identification.algorithm",
        TEXT,
        TRANSLATED,
        "https checks that the certificate is the broker's; empty does not, which librdkafka calls "
        "none",
        "https",
    ),
    SettingRow("ssl.keymanager.algorithm", TEXT, NO_EFFECT, _JVM),
    SettingRow("ssl.trustmanager.algorithm", TEXT, NO_EFFECT, _JVM),
    SettingRow("ssl.secure.random.implementation", TEXT, NO_EFFECT, _JVM),
    SettingRow(
        "ssl.provider", TEXT, REFUSED, f"{_JAVA}; remove it: OpenSSL is used", harmless=("",)
    ),
    SettingRow(
        "ssl.engine.factory.class",
        CLASS,
        REFUSED,
        f"{_JAVA}; give the certificates as PEM or PKCS12",
        harmless=("",),
    ),
)

_SASL = (
    SettingRow(
        "sasl.mechanism",
        TEXT,
        TRANSLATED,
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Kafka's default, GSSAPI, is refused",
    ),
    SettingRow(
        "sasl.jaas.config",
        PASSWORD,
        TRANSLATED,
        "User and password become sasl.username and sasl.password; OAUTHBEARER gets a source of "
        "tokens",
    ),
    SettingRow(
        "sasl.login.callback.handler.class",
        CLASS,
        TRANSLATED,
        "Kafka's own OAuthBearerLoginCallbackHandler is done here; others are Java and refused: "
        "give oauth_cb a function",
    ),
    SettingRow(
        "sasl.client.callback.handler.class",
        CLASS,
        REFUSED,
        f"{_JAVA}; give oauth_cb a function",
        harmless=("",),
    ),
    SettingRow("sasl.login.class", CLASS, REFUSED, f"{_JAVA}; remove it", harmless=("",)),
    SettingRow("sasl.kerberos.service.name", TEXT, REFUSED, _KERBEROS, harmless=("",)),
    SettingRow(
        "sasl.kerberos.kinit.cmd", TEXT, REFUSED, _KERBEROS, harmless=("", "/usr/bin/kinit")
    ),
    SettingRow("sasl.kerberos.min.time.before.relogin", WHOLE, NO_EFFECT, _KERBEROS),
    SettingRow("sasl.kerberos.ticket.renew.jitter", NUMBER, NO_EFFECT, _KERBEROS),
    SettingRow("sasl.kerberos.ticket.renew.window.factor", NUMBER, NO_EFFECT, _KERBEROS),
    SettingRow("sasl.login.refresh.buffer.seconds", WHOLE, NO_EFFECT, _NEW_TOKEN),
    SettingRow("sasl.login.refresh.min.period.seconds", WHOLE, NO_EFFECT, _NEW_TOKEN),
    SettingRow("sasl.login.refresh.window.factor", NUMBER, NO_EFFECT, _NEW_TOKEN),
    SettingRow("sasl.login.refresh.window.jitter", NUMBER, NO_EFFECT, _NEW_TOKEN),
    SettingRow(
        "sasl.login.connect.timeout.ms",
        WHOLE,
        NO_EFFECT,
        "sasl.login.read.timeout.ms holds for connecting as well",
    ),
    SettingRow(
        "sasl.login.read.timeout.ms",
        WHOLE,
        TRANSLATED,
        "How long the token endpoint is waited for",
        "10000",
    ),
    SettingRow(
        "sasl.login.retry.backoff.ms",
        WHOLE,
        NO_EFFECT,
        "The endpoint is asked up to three times, after short pauses",
    ),
    SettingRow(
        "sasl.login.retry.backoff.max.ms",
        WHOLE,
        NO_EFFECT,
        "The endpoint is asked up to three times, after short pauses",
    ),
    SettingRow(
        "sasl.oauthbearer.token.endpoint.url",
        TEXT,
        TRANSLATED,
        "Where tokens are fetched, http or https, or the file that they are read from (file:)",
    ),
    SettingRow(
        "sasl.oauthbearer.client.credentials.client.id",
        TEXT,
        TRANSLATED,
        "Who the client is to the endpoint; also clientId in sasl.jaas.config",
    ),
    SettingRow(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        TRANSLATED,
        "Its secret; also clientSecret in sasl.jaas.config",
    ),
    SettingRow("sasl.oauthbearer.scope", TEXT, TRANSLATED, "What the token shall be good for"),
    SettingRow(
        "sasl.oauthbearer.header.urlencode",
        BOOLEAN,
        NO_EFFECT,
        "Id and secret are sent as they are",
    ),
    SettingRow("sasl.oauthbearer.clock.skew.seconds", WHOLE, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.expected.audience", LIST, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.expected.issuer", TEXT, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.jwks.endpoint.refresh.ms", WHOLE, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", WHOLE, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", WHOLE, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.jwks.endpoint.url", TEXT, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.scope.claim.name", TEXT, NO_EFFECT, _SERVER),
    SettingRow("sasl.oauthbearer.sub.claim.name", TEXT, NO_EFFECT, _SERVER),
    SettingRow(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        REFUSED,
        f"{_JAVA}; give oauth_cb a function",
        harmless=("", "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    ),
    SettingRow(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        REFUSED,
        f"{_JAVA}; the broker checks tokens",
        harmless=("", "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
    ),
    SettingRow("sasl.oauthbearer.assertion.algorithm", TEXT, NO_EFFECT, _ASSERTION),
    SettingRow("sasl.oauthbearer.assertion.claim.aud", TEXT, REFUSED, _ASSERTION, harmless=("",)),
    SettingRow("sasl.oauthbearer.assertion.claim.exp.seconds", WHOLE, NO_EFFECT, _ASSERTION, low=0),
    SettingRow("sasl.oauthbearer.assertion.claim.iss", TEXT, REFUSED, _ASSERTION, harmless=("",)),
    SettingRow("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, NO_EFFECT, _ASSERTION),
    SettingRow("sasl.oauthbearer.assertion.claim.nbf.seconds", WHOLE, NO_EFFECT, _ASSERTION, low=0),
    SettingRow("sasl.oauthbearer.assertion.claim.sub", TEXT, REFUSED, _ASSERTION, harmless=("",)),
    SettingRow("sasl.oauthbearer.assertion.file", TEXT, REFUSED, _ASSERTION, harmless=("",)),
    SettingRow(
        "sasl.oauthbearer.assertion.private.key.file", TEXT, REFUSED, _ASSERTION, harmless=("",)
    ),
    SettingRow(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        PASSWORD,
        REFUSED,
        _ASSERTION,
        harmless=("",),
    ),
    SettingRow(
        "sasl.oauthbearer.assertion.template.file", TEXT, REFUSED, _ASSERTION, harmless=("",)
    ),
)

KEYS = (
    SettingRow(
        "security.protocol",
        TEXT,
        TRANSLATED,
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        "PLAINTEXT",
    ),
    SettingRow("security.providers", TEXT, REFUSED, f"{_JAVA}; remove it", harmless=("",)),
    *_TLS,
    *_SASL,
)
