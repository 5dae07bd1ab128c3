"""Keys of TLS and SASL, shared by all clients.

Admin reads them itself. librdkafka gets them translated: stores as PEM text, a JAAS configuration
as user and password or as a source of tokens.
"""

from penstock.client.settings.row import (
    BOOLEAN,
    CLASS,
    LIST,
    NUMBER,
    PASSWORD,
    TEXT,
    WHOLE,
    no_effect,
    refused,
    translated,
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
    translated("ssl.truststore.location", TEXT, "the system's authorities").described(
        "PKCS12 or PEM: its certificates become ssl.ca.pem. A JKS file is refused with the command "
        "that converts it"
    ),
    translated("ssl.truststore.password", PASSWORD).described("Opens a PKCS12 file"),
    translated("ssl.truststore.type", TEXT, "JKS").described("The file's own first bytes decide"),
    translated("ssl.truststore.certificates", PASSWORD).described("PEM text; becomes ssl.ca.pem"),
    translated("ssl.keystore.location", TEXT).described(
        "PKCS12 or PEM: becomes ssl.certificate.pem and ssl.key.pem. A JKS file is refused with "
        "the command that converts it"
    ),
    translated("ssl.keystore.password", PASSWORD).described("Opens a PKCS12 file"),
    translated("ssl.keystore.type", TEXT, "JKS").described("The file's own first bytes decide"),
    translated("ssl.keystore.key", PASSWORD).described("PEM text; becomes ssl.key.pem"),
    translated("ssl.keystore.certificate.chain", PASSWORD).described(
        "PEM text; becomes ssl.certificate.pem"
    ),
    translated("ssl.key.password", PASSWORD).described("Opens the key"),
    translated("ssl.cipher.suites", LIST).described(
        "In OpenSSL's names; those of TLS 1.3 cannot be chosen among and stay allowed"
    ),
    translated("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3").described(
        "OpenSSL offers TLS 1.2 and 1.3, and librdkafka cannot take one away: a list without one "
        "of them is refused (limit it on the broker). Admin obeys any list"
    ),
    no_effect("ssl.protocol", TEXT).described(_JVM),
    translated("ssl.endpoint.identification.algorithm", TEXT, "https").described(
        "https checks that the certificate is the broker's; empty does not, which librdkafka calls "
        "none"
    ),
    no_effect("ssl.keymanager.algorithm", TEXT).described(_JVM),
    no_effect("ssl.trustmanager.algorithm", TEXT).described(_JVM),
    no_effect("ssl.secure.random.implementation", TEXT).described(_JVM),
    refused("ssl.provider", TEXT, harmless=("",)).described(f"{_JAVA}; remove it: OpenSSL is used"),
    refused("ssl.engine.factory.class", CLASS, harmless=("",)).described(
        f"{_JAVA}; give the certificates as PEM or PKCS12"
    ),
)

_SASL = (
    translated("sasl.mechanism", TEXT).described(
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Kafka's default, GSSAPI, is refused"
    ),
    translated("sasl.jaas.config", PASSWORD).described(
        "User and password become sasl.username and sasl.password; OAUTHBEARER gets a source of "
        "tokens"
    ),
    translated("sasl.login.callback.handler.class", CLASS).described(
        "Kafka's own OAuthBearerLoginCallbackHandler is done here; others are Java and refused: "
        "give oauth_cb a function"
    ),
    refused("sasl.client.callback.handler.class", CLASS, harmless=("",)).described(
        f"{_JAVA}; give oauth_cb a function"
    ),
    refused("sasl.login.class", CLASS, harmless=("",)).described(f"{_JAVA}; remove it"),
    refused("sasl.kerberos.service.name", TEXT, harmless=("",)).described(_KERBEROS),
    refused("sasl.kerberos.kinit.cmd", TEXT, harmless=("", "/usr/bin/kinit")).described(_KERBEROS),
    no_effect("sasl.kerberos.min.time.before.relogin", WHOLE).described(_KERBEROS),
    no_effect("sasl.kerberos.ticket.renew.jitter", NUMBER).described(_KERBEROS),
    no_effect("sasl.kerberos.ticket.renew.window.factor", NUMBER).described(_KERBEROS),
    no_effect("sasl.login.refresh.buffer.seconds", WHOLE).described(_NEW_TOKEN),
    no_effect("sasl.login.refresh.min.period.seconds", WHOLE).described(_NEW_TOKEN),
    no_effect("sasl.login.refresh.window.factor", NUMBER).described(_NEW_TOKEN),
    no_effect("sasl.login.refresh.window.jitter", NUMBER).described(_NEW_TOKEN),
    no_effect("sasl.login.connect.timeout.ms", WHOLE).described(
        "sasl.login.read.timeout.ms holds for connecting as well"
    ),
    translated("sasl.login.read.timeout.ms", WHOLE, "10000").described(
        "How long the token endpoint is waited for"
    ),
    no_effect("sasl.login.retry.backoff.ms", WHOLE).described(
        "The endpoint is asked up to three times, after short pauses"
    ),
    no_effect("sasl.login.retry.backoff.max.ms", WHOLE).described(
        "The endpoint is asked up to three times, after short pauses"
    ),
    translated("sasl.oauthbearer.token.endpoint.url", TEXT).described(
        "Where tokens are fetched, http or https, or the file that they are read from (file:)"
    ),
    translated("sasl.oauthbearer.client.credentials.client.id", TEXT).described(
        "Who the client is to the endpoint; also clientId in sasl.jaas.config"
    ),
    translated("sasl.oauthbearer.client.credentials.client.secret", PASSWORD).described(
        "Its secret; also clientSecret in sasl.jaas.config"
    ),
    translated("sasl.oauthbearer.scope", TEXT).described("What the token shall be good for"),
    no_effect("sasl.oauthbearer.header.urlencode", BOOLEAN).described(
        "Id and secret are sent as they are"
    ),
    no_effect("sasl.oauthbearer.clock.skew.seconds", WHOLE).described(_SERVER),
    no_effect("sasl.oauthbearer.expected.audience", LIST).described(_SERVER),
    no_effect("sasl.oauthbearer.expected.issuer", TEXT).described(_SERVER),
    no_effect("sasl.oauthbearer.jwks.endpoint.refresh.ms", WHOLE).described(_SERVER),
    no_effect("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", WHOLE).described(_SERVER),
    no_effect("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", WHOLE).described(_SERVER),
    no_effect("sasl.oauthbearer.jwks.endpoint.url", TEXT).described(_SERVER),
    no_effect("sasl.oauthbearer.scope.claim.name", TEXT).described(_SERVER),
    no_effect("sasl.oauthbearer.sub.claim.name", TEXT).described(_SERVER),
    refused(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        harmless=("", "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    ).described(f"{_JAVA}; give oauth_cb a function"),
    refused(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        harmless=("", "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
    ).described(f"{_JAVA}; the broker checks tokens"),
    no_effect("sasl.oauthbearer.assertion.algorithm", TEXT).described(_ASSERTION),
    refused("sasl.oauthbearer.assertion.claim.aud", TEXT, harmless=("",)).described(_ASSERTION),
    no_effect("sasl.oauthbearer.assertion.claim.exp.seconds", WHOLE, low=0).described(_ASSERTION),
    refused("sasl.oauthbearer.assertion.claim.iss", TEXT, harmless=("",)).described(_ASSERTION),
    no_effect("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN).described(_ASSERTION),
    no_effect("sasl.oauthbearer.assertion.claim.nbf.seconds", WHOLE, low=0).described(_ASSERTION),
    refused("sasl.oauthbearer.assertion.claim.sub", TEXT, harmless=("",)).described(_ASSERTION),
    refused("sasl.oauthbearer.assertion.file", TEXT, harmless=("",)).described(_ASSERTION),
    refused("sasl.oauthbearer.assertion.private.key.file", TEXT, harmless=("",)).described(
        _ASSERTION
    ),
    refused(
        "sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, harmless=("",)
    ).described(_ASSERTION),
    refused("sasl.oauthbearer.assertion.template.file", TEXT, harmless=("",)).described(_ASSERTION),
)

KEYS = (
    translated("security.protocol", TEXT, "PLAINTEXT").described(
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    ),
    refused("security.providers", TEXT, harmless=("",)).described(f"{_JAVA}; remove it"),
    *_TLS,
    *_SASL,
)
