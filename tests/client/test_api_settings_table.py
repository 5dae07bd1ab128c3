"""Every key of Kafka 4.3.1's clients has its fate, and librdkafka takes what becomes of it.

kafka_4_3_client_keys.tsv was written by the ConfigDef of kafka-clients 4.3.1: client, name, type,
default, allowed values.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from librdkafka_told import NOWHERE

from penstock.client.settings import (
    SettingRefused,
    admin_settings,
    consumer_settings,
    keys_rdkafka,
    producer_settings,
)
from penstock.client.settings.row import KeyHandling, SettingRow
from penstock.client.settings.table import PASSING, ROWS, Client
from tools.client_settings_reference import reference

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "client-configuration.md"
OF_PENSTOCK = {"namespace", "handler.timeout.ms", "revoke.timeout.ms"}
ALL_ROWS = [(client, row) for client in Client for row in ROWS[client].values()]


class KafkaKey(NamedTuple):
    client: Client
    name: str
    type: str
    default: str
    allowed: str


def kafka_keys() -> list[KafkaKey]:
    lines = (HERE / "kafka_4_3_client_keys.tsv").read_text().splitlines()[1:]
    return [KafkaKey(Client(client), *rest) for client, *rest in (row.split("\t") for row in lines)]


KAFKA_KEYS = kafka_keys()
NO_DEFAULT = ("(none)", "(required)")


def settings_of(client: Client, given: dict[str, Any]) -> Any:
    match client:
        case Client.PRODUCER:
            return producer_settings(given, bootstrap=NOWHERE)
        case Client.CONSUMER:
            return consumer_settings({"group.id": "g", **given}, bootstrap=NOWHERE)
        case Client.ADMIN:
            return admin_settings(given, bootstrap=NOWHERE)


def made(client: Client, given: dict[str, Any]) -> None:
    """A real client of librdkafka, from the translated settings."""
    settings = settings_of(client, given)
    match client:
        case Client.PRODUCER:
            confluent_kafka.Producer(settings.rdkafka)
        case Client.CONSUMER:
            confluent_kafka.Consumer(settings.rdkafka).close()
        case Client.ADMIN:
            pass


@pytest.mark.parametrize("client", Client)
def test_every_key_of_kafkas_is_in_the_table(client: Client) -> None:
    kafkas = {key.name for key in KAFKA_KEYS if key.client is client}
    assert len(kafkas) > 80
    assert set(ROWS[client]) - OF_PENSTOCK == kafkas


@pytest.mark.parametrize(
    "key",
    [
        key
        for key in KAFKA_KEYS
        if key.default not in NO_DEFAULT and key.name != "bootstrap.servers"
    ],
    ids=lambda key: f"{key.client}-{key.name}",
)
def test_kafkas_own_default_may_be_said(key: KafkaKey) -> None:
    made(key.client, {key.name: key.default})


def test_all_of_kafkas_defaults_may_be_said_at_once() -> None:
    for client in Client:
        given = {
            key.name: key.default
            for key in KAFKA_KEYS
            if key.client is client
            and key.default not in NO_DEFAULT
            and key.name != "bootstrap.servers"
        }
        made(client, given)


def limits(key: KafkaKey) -> list[str]:
    """The least and the greatest value that Kafka allows."""
    least = key.allowed.partition("[")[2].partition(",")[0]
    found = [least] if least.lstrip("-").isdecimal() else []
    greatest = key.allowed.rpartition(",")[2].partition("]")[0]
    if greatest.isdecimal():
        found.append(greatest)
    elif key.type in ("INT", "LONG"):
        found.append(str(2**31 - 1 if key.type == "INT" else 2**63 - 1))
    return found


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (key, text)
        for key in KAFKA_KEYS
        if key.type in ("INT", "LONG") and not key.name.startswith(("sasl.", "ssl."))
        for text in limits(key)
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.client}-{each.name}",
)
def test_a_value_at_kafkas_limit_is_one_that_librdkafka_takes(key: KafkaKey, text: str) -> None:
    if key.name == "heartbeat.interval.ms" and int(text) > 1:
        with pytest.raises(SettingRefused, match=r"has to be below session\.timeout\.ms"):
            made(key.client, {key.name: text})
    elif key.name == "max.poll.interval.ms" and text == "1":
        made(key.client, {key.name: text, "heartbeat.interval.ms": 1})
    else:
        made(key.client, {key.name: text})


@pytest.mark.parametrize(
    "key",
    [
        key
        for key in KAFKA_KEYS
        if key.type in ("INT", "LONG")
        and key.allowed.startswith("[")
        and not key.allowed.endswith("or -1")
    ],
    ids=lambda key: f"{key.client}-{key.name}",
)
def test_a_value_below_kafkas_limit_is_refused(key: KafkaKey) -> None:
    least = int(key.allowed[1:].partition(",")[0])
    with pytest.raises(SettingRefused, match=f"^{key.name}: is {least - 1}; it takes at least"):
        settings_of(key.client, {key.name: least - 1})


@pytest.mark.parametrize(
    ("key", "word"),
    [
        (key, word.strip())
        for key in KAFKA_KEYS
        if key.type == "STRING" and "[" in key.allowed and "by_duration" not in key.allowed
        for word in key.allowed.partition("[")[2].rstrip("]").split(",")
        if not key.name.startswith("share.")
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.client}-{each.name}",
)
def test_every_word_of_kafkas_is_taken(key: KafkaKey, word: str) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="a" password="b";'
    needed = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas} if "SASL" in word else {}
    made(key.client, {**needed, key.name: word})


@pytest.mark.parametrize(
    ("client", "row"),
    [(client, row) for client, row in ALL_ROWS if row.fate is KeyHandling.REFUSED],
    ids=lambda each: each.name if isinstance(each, SettingRow) else str(each),
)
def test_a_refused_key_says_the_way_out(client: Client, row: SettingRow) -> None:
    value = True if row.kind.value == "boolean" else "com.example.Mine"
    with pytest.raises(SettingRefused) as refused:
        settings_of(client, {row.name: value})
    assert refused.value.key == row.name
    assert row.about in str(refused.value)


@pytest.mark.parametrize(
    ("client", "row"),
    [(client, row) for client, row in ALL_ROWS if row.fate is KeyHandling.NO_EFFECT],
    ids=lambda each: each.name if isinstance(each, SettingRow) else str(each),
)
def test_a_key_without_effect_is_taken_and_says_why(client: Client, row: SettingRow) -> None:
    value: Any = {"boolean": True, "list": "a"}.get(row.kind.value, 5000)
    value = row.words[0] if row.words else value
    assert (row.name, row.about) in settings_of(client, {row.name: value}).ignored


def test_each_key_says_what_becomes_of_it() -> None:
    assert [row.name for _, row in ALL_ROWS if not row.about] == []


def test_no_two_rows_of_a_client_have_one_name() -> None:
    for client in Client:
        assert not set(ROWS[client]) & set(keys_rdkafka.ALIASES)
        assert not set(ROWS[client]) & set(keys_rdkafka.TAKEN)
    assert not set(keys_rdkafka.TAKEN) & set(keys_rdkafka.OF_PRODUCERS)
    assert not set(keys_rdkafka.TAKEN) & set(keys_rdkafka.OF_CONSUMERS)


# -- librdkafka's own names

# What a value has to be where 1 is none.
VALUES: dict[str, Any] = {
    "error_cb": print,
    "logger": __import__("logging").getLogger("penstock.test"),
    "stats_cb": print,
    "throttle_cb": print,
    "api.version.request": True,
    "broker.address.family": "v4",
    "broker.version.fallback": "2.4.0",
    "builtin.features": "ssl",
    "client.rack": "a",
    "client.software.name": "x",
    "client.software.version": "1",
    "debug": "conf",
    "enable.sasl.oauthbearer.unsecure.jwt": True,
    "group.protocol.type": "consumer",
    "https.ca.location": "probe",
    "message.max.bytes": 1000,
    "plugin.library.paths": "",
    "queuing.strategy": "fifo",
    "receive.message.max.bytes": 100_000_000,
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.metadata.authentication.type": "none",
    "sasl.oauthbearer.method": "default",
    "socket.timeout.ms": 100,
    "ssl.engine.id": "dynamic",
}
OF_WINDOWS = ("ssl.ca.certificate.stores",)
# Only with SASL it means something; test_api_settings_security.py has it.
ELSEWHERE = ("oauth_cb",)
BOOLEANS = (
    "allow.auto.create.topics",
    "delivery.report.only.error",
    "enable.gapless.guarantee",
    "enable.random.seed",
    "enable.ssl.certificate.verification",
    "log.connection.close",
    "log.thread.name",
    "produce.offset.report",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "topic.metadata.refresh.sparse",
)


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (client, name)
        for client in (Client.PRODUCER, Client.CONSUMER)
        for name in sorted(PASSING[client].difference(ELSEWHERE))
    ],
    ids=str,
)
def test_librdkafkas_own_names_pass(client: Client, name: str) -> None:
    value = VALUES.get(name, True if name in BOOLEANS else "1")
    settings = settings_of(client, {name: value})
    assert settings.rdkafka[name] is value
    if name not in OF_WINDOWS:
        made(client, {name: value})


@pytest.mark.parametrize("name", sorted(keys_rdkafka.TAKEN))
def test_names_that_the_clients_have_for_themselves_are_refused(name: str) -> None:
    for client in (Client.PRODUCER, Client.CONSUMER):
        with pytest.raises(SettingRefused, match=name):
            settings_of(client, {name: "1"})


@pytest.mark.parametrize(("alias", "name"), sorted(keys_rdkafka.ALIASES.items()))
def test_another_name_of_a_key_is_that_key(alias: str, name: str) -> None:
    client = Client.CONSUMER if alias.startswith("fetch.") else Client.PRODUCER
    value: Any = {
        "compression.type": "lz4",
        "acks": "all",
        "partitioner.class": "random",
        "sasl.mechanism": "PLAIN",
        "bootstrap.servers": NOWHERE,
    }.get(name, 5)
    one, other = settings_of(client, {alias: value}), settings_of(client, {name: value})
    assert one == other
    if name != "bootstrap.servers":
        different: Any = "gzip" if name == "compression.type" else {"acks": "-1"}.get(name, "6")
        with pytest.raises(SettingRefused, match=f"{name}: is said twice"):
            settings_of(client, {name: value, alias: different})


def test_a_timeout_of_librdkafkas_that_is_none_stays_none() -> None:
    assert (
        producer_settings({"message.timeout.ms": 0}, bootstrap=NOWHERE).delivery_timeout_ms
        == 2**31 - 1
    )


# -- what is no key


@pytest.mark.parametrize(
    ("client", "name", "near"),
    [
        (Client.PRODUCER, "bootstrap.server", "bootstrap.servers"),
        (Client.PRODUCER, "linger_ms", "linger.ms"),
        (Client.PRODUCER, "buffer.memry", "buffer.memory"),
        (Client.CONSUMER, "groupid", "group.id"),
        (Client.CONSUMER, "auto.offset.rest", "auto.offset.reset"),
        (Client.ADMIN, "request.timeout", "request.timeout.ms"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(client: Client, name: str, near: str) -> None:
    with pytest.raises(SettingRefused, match=f"{name}: there is no such key; is {near} meant"):
        settings_of(client, {name: "1"})


def test_a_key_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(SettingRefused, match=r"there is no such key$"):
        settings_of(Client.PRODUCER, {"qqqq": 1})


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(SettingRefused, match="a key is text"):
        producer_settings({7: "x"}, bootstrap=NOWHERE)  # type: ignore[dict-item]


def test_a_key_of_another_client_is_ignored_with_a_word() -> None:
    ignored = settings_of(Client.PRODUCER, {"group.id": "g", "max.poll.records": 5}).ignored
    assert ignored == (
        ("group.id", "it is a key of a consumer, and this is not one"),
        ("max.poll.records", "it is a key of a consumer, and this is not one"),
    )
    (noted,) = settings_of(Client.CONSUMER, {"bootstrap.controllers": ""}).ignored
    assert noted[1] == "it is a key of an admin, and this is not one"


def test_a_key_that_kafka_gave_up_is_ignored_with_a_word() -> None:
    (noted,) = settings_of(Client.PRODUCER, {"block.on.buffer.full": "true"}).ignored
    assert "max.block.ms" in noted[1]


def test_a_value_of_none_was_not_said() -> None:
    assert settings_of(Client.PRODUCER, {"acks": None, "nonsense": None}) == settings_of(
        Client.PRODUCER, {}
    )


# -- the page


def test_the_reference_page_of_client_keys_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run python -m tools.client_settings_reference"


def test_the_reference_command_of_client_keys_prints_the_page() -> None:
    command = [sys.executable, "-m", "tools.client_settings_reference"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == reference()


def test_the_page_names_every_key() -> None:
    page = reference()
    names = [*(key.name for key in KAFKA_KEYS), *keys_rdkafka.TAKEN, *keys_rdkafka.OF_PRODUCERS]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_settings_do_not_load_librdkafka() -> None:
    code = "import sys, penstock.client.settings; assert 'confluent_kafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
