"""Broker keys of security: TLS, SASL, tokens, access control."""

from penstock.config.allowed import OneOf, at_least, between
from penstock.config.key import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Key,
    per_broker,
    read_only,
)

KEYS: tuple[Key, ...] = (
    read_only("allow.everyone.if.no.acl.found", BOOLEAN, False).now(
        "Allows every caller everything on resources without an access control list. Needs an "
        "authorizer."
    ),
    read_only("audit.grants", BOOLEAN, False).now(
        "Writes allowed requests to the log penstock.audit too. Denied ones are always there."
    ),
    read_only("authorizer.class.name", STRING, "").now(
        "Turns on access control lists: org.apache.kafka.metadata.authorizer.StandardAuthorizer. "
        "Empty allows everything."
    ),
    read_only("connection.failed.authentication.delay.ms", INT, 100, at_least(0)).now(
        "How long a failed login waits for its answer."
    ),
    read_only("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, at_least(1)),
    read_only("delegation.token.expiry.time.ms", LONG, 86_400_000, at_least(1)),
    read_only("delegation.token.max.lifetime.ms", LONG, 604_800_000, at_least(1)),
    read_only("delegation.token.secret.key", PASSWORD, None).later(
        "The secret that signs delegation tokens; they are off without it."
    ),
    read_only("insecure.listeners", STRING, "warn", OneOf(("warn", "refuse"))).now(
        "What becomes of listeners beyond this machine that ask for no login or take passwords in "
        "clear: a line in the log, at the start and hourly, or no start."
    ),
    per_broker("principal.builder.class", CLASS, None).never(
        "How a name is made of a login; one way is built in."
    ),
    read_only("sasl.client.callback.handler.class", CLASS, None),
    per_broker("sasl.enabled.mechanisms", LIST, ("GSSAPI",)).now(
        "The mechanisms that SASL listeners offer, or one of them: `listener.name.L.` in front. "
        "Served are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. Kafka's default, GSSAPI, "
        "is not."
    ),
    per_broker("sasl.jaas.config", PASSWORD, None).now(
        "Users and passwords of a SASL listener, with `listener.name.L.MECHANISM.` in front. "
        'For PLAIN a user is an option, user_alice="secret"; those of SCRAM are in the metadata. '
        "The options username and password are the node's own, for other nodes."
    ),
    per_broker("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit"),
    per_broker("sasl.kerberos.min.time.before.relogin", LONG, 60000),
    per_broker("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",)),
    per_broker("sasl.kerberos.service.name", STRING, None),
    per_broker("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05),
    per_broker("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8),
    read_only("sasl.login.callback.handler.class", CLASS, None),
    read_only("sasl.login.class", CLASS, None),
    read_only("sasl.login.connect.timeout.ms", INT, None),
    read_only("sasl.login.read.timeout.ms", INT, None),
    per_broker("sasl.login.refresh.buffer.seconds", SHORT, 300),
    per_broker("sasl.login.refresh.min.period.seconds", SHORT, 60),
    per_broker("sasl.login.refresh.window.factor", DOUBLE, 0.8),
    per_broker("sasl.login.refresh.window.jitter", DOUBLE, 0.05),
    read_only("sasl.login.retry.backoff.max.ms", LONG, 10000),
    read_only("sasl.login.retry.backoff.ms", LONG, 100),
    read_only("sasl.mechanism.controller.protocol", STRING, "GSSAPI").now(
        "The mechanism by which nodes log in to controllers; PLAIN is served."
    ),
    per_broker("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI").now(
        "The mechanism by which brokers log in to each other; it counts from the start of a node. "
        "For SCRAM the node's own user must be there before: `kafka-storage format --add-scram`."
    ),
    read_only(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        OneOf(("ES256", "RS256"), any_case=True),
    ),
    read_only("sasl.oauthbearer.assertion.claim.aud", STRING, None),
    read_only("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, between(0, 86400)),
    read_only("sasl.oauthbearer.assertion.claim.iss", STRING, None),
    read_only("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False),
    read_only("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, between(0, 3600)),
    read_only("sasl.oauthbearer.assertion.claim.sub", STRING, None),
    read_only("sasl.oauthbearer.assertion.file", STRING, None),
    read_only("sasl.oauthbearer.assertion.private.key.file", STRING, None),
    read_only("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
    read_only("sasl.oauthbearer.assertion.template.file", STRING, None),
    read_only("sasl.oauthbearer.client.credentials.client.id", STRING, None),
    read_only("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None),
    read_only("sasl.oauthbearer.clock.skew.seconds", INT, 30).now(
        "By how much the clocks of the issuer of tokens and of this node may differ."
    ),
    read_only("sasl.oauthbearer.expected.audience", LIST, ()).now(
        "The audience that a token must name, or one of several. A listener that offers "
        "OAUTHBEARER needs it."
    ),
    read_only("sasl.oauthbearer.expected.issuer", STRING, None).now(
        "The issuer that a token must name. A listener that offers OAUTHBEARER needs it."
    ),
    read_only("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000).now(
        "How often the keys of the issuer are fetched."
    ),
    read_only("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000).now(
        "The longest wait between two attempts to fetch keys. A token by an unknown key has them "
        "fetched once in this time."
    ),
    read_only("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100).now(
        "The wait after the first failed attempt to fetch keys; it doubles."
    ),
    read_only("sasl.oauthbearer.jwks.endpoint.url", STRING, None).now(
        "Where the issuer publishes its keys (JWKS): an https, http or file URL. A listener that "
        "offers OAUTHBEARER needs it."
    ),
    read_only("sasl.oauthbearer.jwt.retriever.class", CLASS, None),
    read_only("sasl.oauthbearer.jwt.validator.class", CLASS, None),
    read_only("sasl.oauthbearer.scope", STRING, None),
    read_only("sasl.oauthbearer.scope.claim.name", STRING, "scope"),
    read_only("sasl.oauthbearer.sub.claim.name", STRING, "sub").now(
        "The claim of a token that names the principal."
    ),
    read_only("sasl.oauthbearer.token.endpoint.url", STRING, None),
    read_only("sasl.server.callback.handler.class", CLASS, None),
    read_only("sasl.server.max.receive.size", INT, 524_288).now(
        "The largest request before a login; a larger one ends the connection."
    ),
    read_only("security.providers", STRING, None),
    read_only("ssl.allow.dn.changes", BOOLEAN, False).now(
        "Whether a new key store may have a certificate of another subject."
    ),
    read_only("ssl.allow.san.changes", BOOLEAN, False).now(
        "Whether a new key store may have a certificate of other alternative names."
    ),
    per_broker("ssl.cipher.suites", LIST, ()).now(
        "The cipher suites of TLS 1.2 that are allowed, in Java's words; OpenSSL chooses if empty. "
        "If all of them are of TLS 1.3, TLS 1.2 is off."
    ),
    per_broker("ssl.client.auth", STRING, "none", OneOf(("required", "requested", "none"))).now(
        "Whether clients have to show a certificate. On SASL_SSL listeners only the key with the "
        "listener's prefix counts."
    ),
    per_broker("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3")).now(
        "The versions of TLS that are allowed."
    ),
    per_broker("ssl.endpoint.identification.algorithm", STRING, "https").now(
        "How connections to other nodes check host names: https, or empty for no check."
    ),
    per_broker("ssl.engine.factory.class", CLASS, None).now(
        "A Java class, which cannot run here: a value for a listener with TLS stops the start."
    ),
    per_broker("ssl.key.password", PASSWORD, None).now("The password of the key itself."),
    per_broker("ssl.keymanager.algorithm", STRING, "SunX509").never("Java's choice of a key."),
    per_broker("ssl.keystore.certificate.chain", PASSWORD, None).now(
        "The certificate of this node and its signers as PEM text, instead of a file."
    ),
    per_broker("ssl.keystore.key", PASSWORD, None).now(
        "The key of this node as PEM text, instead of a file."
    ),
    per_broker("ssl.keystore.location", STRING, None).now(
        "The file with the key and the certificate of this node: PEM, PKCS12 or JKS. With the "
        "prefix listener.name.NAME. it counts for one listener. A dynamic change, also to the same "
        "value, reads the file again."
    ),
    per_broker("ssl.keystore.password", PASSWORD, None).now("The password of the key file."),
    per_broker("ssl.keystore.type", STRING, "JKS").now(
        "The format of the key file; its bytes decide."
    ),
    read_only("ssl.principal.mapping.rules", STRING, "DEFAULT").now(
        "Rules that turn the subject of a client's certificate into the name of a principal."
    ),
    per_broker("ssl.protocol", STRING, "TLSv1.3").never("The version of TLS to prefer."),
    per_broker("ssl.provider", STRING, None).now(
        "A provider of Java, which cannot run here: a value for a listener with TLS stops the "
        "start."
    ),
    per_broker("ssl.secure.random.implementation", STRING, None).never("Java's random numbers."),
    per_broker("ssl.trustmanager.algorithm", STRING, "PKIX").never("Java's check of certificates."),
    per_broker("ssl.truststore.certificates", PASSWORD, None).now(
        "The certificates to trust as PEM text, instead of a file."
    ),
    per_broker("ssl.truststore.location", STRING, None).now(
        "The file with the certificates to trust, of clients and of other nodes: PEM, PKCS12 or "
        "JKS."
    ),
    per_broker("ssl.truststore.password", PASSWORD, None).now("The password of that file."),
    per_broker("ssl.truststore.type", STRING, "JKS").now(
        "The format of that file; its bytes decide."
    ),
    read_only("super.users", STRING, "").now(
        "The principals that may do everything, separated by semicolons: User:admin;User:node-1. "
        "The nodes of a cluster are among them. Needs an authorizer."
    ),
)
