"""Settings of an admin client, which speaks the protocol itself: most keys have no effect."""

from collections.abc import Mapping

from penstock.client.addresses import BootstrapLike
from penstock.client.settings.key_reader import ConfiguredKeys, read
from penstock.client.settings.keys_rdkafka import ADMIN_MEANS
from penstock.client.settings.security import refusal, security_properties
from penstock.client.settings.shared import CLIENT_ID
from penstock.client.settings.table import Client
from penstock.client.settings.values import AdminSettings, SettingRefused, SettingValue
from penstock.client.transport.security import Protocol, Security
from penstock.credentials.stores import STORE_BYTES_MAX

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def admin_settings(
    given: Mapping[str, SettingValue] | None = None, *, bootstrap: BootstrapLike | None = None
) -> AdminSettings:
    """Return the checked settings. Raise SettingRefused with the key, the cause and the next
    step."""
    said = read(given, Client.ADMIN, bootstrap)
    for name in said.serde:
        said.note(name, "the admin client has no serializers")
    properties = {**security_properties(said), **_from_rdkafka(said)}
    try:
        security = Security.from_properties(properties)
    except ValueError as problem:
        raise refusal(problem, "security.protocol") from problem
    request_timeout_ms = said.whole("request.timeout.ms")
    api_timeout_ms = said.whole("default.api.timeout.ms")
    both = said.has("request.timeout.ms") and said.has("default.api.timeout.ms")
    if both and api_timeout_ms < request_timeout_ms:
        raise SettingRefused(
            "default.api.timeout.ms",
            f"is {api_timeout_ms}, less than request.timeout.ms ({request_timeout_ms}); raise it, "
            "or lower that",
        )
    return AdminSettings(
        bootstrap=str(said.values["bootstrap.servers"]),
        client_id=said.text("client.id") or CLIENT_ID,
        request_timeout_ms=request_timeout_ms,
        api_timeout_ms=api_timeout_ms,
        security=None if security.protocol is Protocol.PLAINTEXT else security,
        namespace=said.text("namespace"),
        ignored=said.ignored,
    )


def _from_rdkafka(said: ConfiguredKeys) -> dict[str, str]:
    """Return librdkafka's names of TLS and SASL as Kafka's, so that one configuration fits all
    clients."""
    own = {name: str(value) for name, value in said.own.items()}
    found = {ADMIN_MEANS[name]: value for name, value in own.items() if name in ADMIN_MEANS}
    for file, means in (
        ("ssl.certificate.location", "ssl.keystore.certificate.chain"),
        ("ssl.key.location", "ssl.keystore.key"),
    ):
        if file in own:
            found[means] = _content(file, own[file])
    if "sasl.username" in own:
        mechanism = str(said.get("sasl.mechanism", "")).upper()
        if mechanism not in _MODULES:
            raise SettingRefused(
                "sasl.mechanism", f"is {mechanism!r}; with sasl.username: {', '.join(_MODULES)}"
            )
        found["sasl.jaas.config"] = (
            f"{_MODULES[mechanism]} required username={_quoted(own['sasl.username'])} "
            f"password={_quoted(own.get('sasl.password', ''))};"
        )
    return found


def _content(key: str, path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(STORE_BYTES_MAX)
    except OSError as problem:
        raise SettingRefused(key, f"{path} cannot be read: {problem.strerror}") from problem


def _quoted(text: str) -> str:
    """Return the text in quotes for the JAAS parser."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'
