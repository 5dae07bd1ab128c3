"""The client's TLS and SASL against Apache Kafka: every mechanism, every kind of store.

Keys, stores and the authority are made for each run by keytool and openssl, in its directory.
"""

import hashlib
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from bench.servers import Ports, ServerFailed, running, scratch
from compat.report import Report
from penstock.client.admin.blocking import Admin
from penstock.client.raw.batch_writer import BatchWriter
from penstock.client.raw.range_reader import OffsetRange, RangeReader
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.client.transport.security import Security
from penstock.client.values import NewTopic
from penstock.credentials.stores import BadStore
from penstock.model import TopicPartition
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k51_alter_user_scram_credentials as k51

PASSWORD = "store-secret"
TOOL_SECONDS_MAX = 60
ITERATIONS = 4096
# SCRAM credentials travel by way of the metadata log to where they are looked up.
CREDENTIALS_SECONDS_MAX = 20
LIFETIME_MS = 2_000
MODULES = "org.apache.kafka.common.security"
LISTENERS = ("SSL", "MTLS", "SASL_SSL", "SASL_PLAINTEXT")
SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


class Keys:
    """An authority, a server's store and a client's, in every format."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        for name in ("authority", "server", "client"):
            self._keytool(
                "-genkeypair", "-alias", name, "-keyalg", "EC", "-keystore", f"{name}.p12",
                "-storetype", "PKCS12", "-dname", f"CN={name}", "-validity", "2",
                *(("-ext", "bc:c") if name == "authority" else ()),
            )  # fmt: skip
        authority = self._export("authority")
        self._keytool(
            "-importcert", "-noprompt", "-alias", "ca", "-keystore", "trust.p12", "-storetype",
            "PKCS12", given=authority,
        )  # fmt: skip
        self._keytool(
            "-importkeystore", "-srckeystore", "trust.p12", "-srcstorepass", PASSWORD,
            "-destkeystore", "trust.jks", "-deststoretype", "JKS", "-deststorepass", PASSWORD,
            plain=True,
        )  # fmt: skip
        for name, alternative in (("server", "dns:localhost"), ("client", "dns:client")):
            self._sign(name, alternative, authority)
        (self.place / "ca.pem").write_text(authority)
        self._openssl("pkcs12", "-in", "client.p12", "-passin", f"pass:{PASSWORD}",
                      "-nodes", "-out", "client.pem")  # fmt: skip

    def path(self, name: str) -> str:
        return str(self.place / name)

    def _export(self, alias: str) -> str:
        return self._keytool("-exportcert", "-rfc", "-alias", alias, "-keystore", f"{alias}.p12")

    def _sign(self, name: str, alternative: str, authority: str) -> None:
        asked = self._keytool("-certreq", "-alias", name, "-keystore", f"{name}.p12")
        signed = self._keytool(
            "-gencert", "-rfc", "-alias", "authority", "-keystore", "authority.p12",
            "-ext", f"san={alternative}", "-validity", "2", given=asked,
        )  # fmt: skip
        for alias, certificate in (("ca", authority), (name, signed)):
            self._keytool(
                "-importcert", "-noprompt", "-alias", alias, "-keystore", f"{name}.p12",
                given=certificate,
            )  # fmt: skip

    def _keytool(self, *arguments: str, given: str = "", plain: bool = False) -> str:
        home = os.environ.get("JAVA_HOME")
        tool = f"{home}/bin/keytool" if home else "keytool"
        words = () if plain else ("-storepass", PASSWORD)
        return self._run([tool, *arguments, *words], given)

    def _openssl(self, *arguments: str) -> str:
        return self._run(["openssl", *arguments], "")

    def _run(self, command: list[str], given: str) -> str:
        done = subprocess.run(
            command,
            input=given,
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise ServerFailed(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def _module(name: str, **options: str) -> str:
    given = "".join(f' {option}="{value}"' for option, value in options.items())
    return f"{MODULES}.{name} required{given};"


def _server_settings(keys: Keys, ports: Ports, secured: Mapping[str, int]) -> dict[str, str]:
    plain = f"PLAINTEXT://127.0.0.1:{ports.client}"
    controller = f"CONTROLLER://127.0.0.1:{ports.controller}"
    others = ",".join(f"{name}://localhost:{port}" for name, port in secured.items())
    store = {
        "location": keys.path("server.p12"), "password": PASSWORD, "type": "PKCS12"
    }  # fmt: skip
    trust = {"location": keys.path("trust.p12"), "password": PASSWORD, "type": "PKCS12"}
    mechanisms = {
        "plain": _module("plain.PlainLoginModule", user_alice="plain-secret"),
        "scram-sha-256": _module("scram.ScramLoginModule"),
        "scram-sha-512": _module("scram.ScramLoginModule"),
        "oauthbearer": _module(
            "oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="broker"
        ),
    }
    return {
        "listeners": f"{plain},{controller},{others}",
        "advertised.listeners": f"{plain},{controller},{others}",
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,MTLS:SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.mtls.ssl.client.auth": "required",
        **{f"ssl.keystore.{name}": value for name, value in store.items()},
        **{f"ssl.truststore.{name}": value for name, value in trust.items()},
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": text
            for listener in ("sasl_ssl", "sasl_plaintext")
            for mechanism, text in mechanisms.items()
        },
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": str(LIFETIME_MS),
    }


def _trust(keys: Keys) -> dict[str, str]:
    return {
        "ssl.truststore.location": keys.path("trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }


def _credentials(mechanism: str, password: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        text = _module("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="alice")
    else:
        name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        text = _module(name, username="alice", password=password)
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": text}


def _add_scram_users(bootstrap: str) -> None:
    salt = secrets.token_bytes(16)
    with Admin(bootstrap=bootstrap) as admin:
        for mechanism, (number, hash_name) in SCRAM.items():
            salted = hashlib.pbkdf2_hmac(
                hash_name, f"{mechanism}-secret".encode(), salt, ITERATIONS
            )
            user = k51.ScramCredentialUpsertion(
                name="alice",
                mechanism=number,
                iterations=ITERATIONS,
                salt=salt,
                salted_password=salted,
            )
            request = k51.AlterUserScramCredentialsRequest(upsertions=[user])
            answer = admin.nodes.any().request(request, k51.AlterUserScramCredentialsResponse)
            if answer.results[0].error_code:
                raise ServerFailed(f"{mechanism}: {answer.results[0].error_message}")


def _works(bootstrap: str, properties: Mapping[str, str], topic: str) -> str:
    """Writes and reads over a secured connection; empty, or what went wrong."""
    values = [secrets.token_bytes(20_000) for _ in range(50)]
    partition = TopicPartition(topic, 0)
    try:
        with Admin(bootstrap=bootstrap, security=Security.from_properties(properties)) as admin:
            admin.create_topics([NewTopic(topic, partitions=1, replication_factor=1)])
            writer = BatchWriter(admin.nodes)
            for value in values:
                writer.send(partition, build_batch([Record(0, 1_000, None, value)]), 1)
            writer.flush()
            ranges = [OffsetRange(partition, 0, len(values))]
            reader = RangeReader(admin.nodes, ranges, committed_only=True)
            read = b"".join(bytes(chunk.records) for chunk in reader.chunks())
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    missing = sum(value not in read for value in values)
    return f"{missing} of {len(values)} values are missing" if missing else ""


def _refusal(port: int, properties: Mapping[str, str], host: str = "localhost") -> str:
    """What a client that must not get in is told."""
    try:
        Connection(host, port, security=Security.from_properties(properties)).close()
    except (NotAuthenticated, CannotReach, BadStore) as problem:
        return f"{type(problem).__name__}: {problem}"
    return "it got in"


def _check_tls(report: Report, keys: Keys, ports: Mapping[str, int]) -> None:
    stores = {
        "a PKCS12 trust store": _trust(keys),
        "a PKCS12 trust store that the keys call JKS": {
            **_trust(keys),
            "ssl.truststore.type": "JKS",
        },
        "a JKS trust store": {**_trust(keys), "ssl.truststore.location": keys.path("trust.jks")},
        "a PEM trust store": {"ssl.truststore.location": keys.path("ca.pem")},
        "trusted certificates in the keys": {
            "ssl.truststore.certificates": (keys.place / "ca.pem").read_text()
        },
        "TLS 1.2 and one cipher suite": {
            **_trust(keys),
            "ssl.enabled.protocols": "TLSv1.2",
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        },
    }
    for number, (name, given) in enumerate(stores.items()):
        wrong = _works(
            f"localhost:{ports['SSL']}", {"security.protocol": "SSL", **given}, f"tls-{number}"
        )
        report.expect(not wrong, f"SSL with {name}", wrong)
    secured = {"security.protocol": "SSL", **_trust(keys)}
    own = {
        "a PKCS12 key store": {
            "ssl.keystore.location": keys.path("client.p12"),
            "ssl.keystore.password": PASSWORD,
        },
        "a PEM key store": {"ssl.keystore.location": keys.path("client.pem")},
    }
    for number, (name, given) in enumerate(own.items()):
        wrong = _works(f"localhost:{ports['MTLS']}", {**secured, **given}, f"mtls-{number}")
        report.expect(not wrong, f"a client certificate from {name}", wrong)
    told = _refusal(ports["MTLS"], secured)
    report.expect("ertificate" in told or "CERTIFICATE" in told, "no client certificate", told)
    told = _refusal(ports["SSL"], secured, host="127.0.0.1")
    report.expect("its certificate is not accepted" in told, "another host name", told)
    told = _refusal(
        ports["SSL"], {**secured, "ssl.endpoint.identification.algorithm": ""}, host="127.0.0.1"
    )
    report.expect(told == "it got in", "another host name that is not checked", told)
    told = _refusal(ports["SSL"], {"security.protocol": "SSL"})
    report.expect("ssl.truststore.location" in told, "an authority that is not trusted", told)


def _check_sasl(report: Report, keys: Keys, ports: Mapping[str, int]) -> None:
    for mechanism in ("PLAIN", *SCRAM, "OAUTHBEARER"):
        password = "plain-secret" if mechanism == "PLAIN" else f"{mechanism}-secret"
        for protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
            wrong = _works(
                f"localhost:{ports[protocol]}",
                {
                    "security.protocol": protocol,
                    **_trust(keys),
                    **_credentials(mechanism, password),
                },
                f"{protocol}-{mechanism}".lower(),
            )
            report.expect(not wrong, f"{protocol} with {mechanism}", wrong)
        if mechanism != "OAUTHBEARER":
            told = _refusal(
                ports["SASL_PLAINTEXT"],
                {"security.protocol": "SASL_PLAINTEXT", **_credentials(mechanism, "wrong")},
            )
            report.expect("NotAuthenticated" in told, f"a wrong password of {mechanism}", told)
    told = _refusal(ports["SSL"], {"security.protocol": "PLAINTEXT"})
    report.expect("TLS" in told, "a plain client at a TLS port is told so", told)


def _check_lifetime(report: Report, port: int) -> None:
    """A connection is replaced before the server would close it."""
    properties = {"security.protocol": "SASL_PLAINTEXT", **_credentials("PLAIN", "plain-secret")}
    with Admin(
        bootstrap=f"localhost:{port}", security=Security.from_properties(properties)
    ) as admin:
        first = admin.nodes.any()
        until = time.monotonic() + 2 * LIFETIME_MS / 1000
        asked = 0
        while time.monotonic() < until:
            admin.describe_cluster()
            asked += 1
            time.sleep(0.02)
        replaced = admin.nodes.any() is not first
    report.expect(replaced, f"{asked} questions over twice the life of an authentication")


def _await_scram(ports: Mapping[str, int]) -> None:
    properties = _credentials("SCRAM-SHA-512", "SCRAM-SHA-512-secret")
    until = time.monotonic() + CREDENTIALS_SECONDS_MAX
    told = ""
    while time.monotonic() < until:
        told = _refusal(
            ports["SASL_PLAINTEXT"], {"security.protocol": "SASL_PLAINTEXT", **properties}
        )
        if told == "it got in":
            return
        time.sleep(0.1)
    raise ServerFailed(f"the SCRAM credentials do not arrive: {told}")


def check_security(report: Report) -> None:
    if shutil.which("openssl") is None:
        raise ServerFailed("this check needs `openssl` and `keytool` on the PATH")
    ports, others = Ports.free(), (Ports.free(), Ports.free())
    free = [port for each in others for port in (each.client, each.controller)]
    secured = dict(zip(LISTENERS, free, strict=True))
    with scratch() as place:
        keys = Keys(place / "keys")
        changes = _server_settings(keys, ports, secured)
        with running("kafka", place / "kafka", ports=ports, changes=changes, clean=False) as server:
            _add_scram_users(server.bootstrap)
            _await_scram(secured)
            _check_tls(report, keys, secured)
            _check_sasl(report, keys, secured)
            _check_lifetime(report, secured["SASL_PLAINTEXT"])
