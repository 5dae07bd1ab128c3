"""The client of a schema registry: what it asks, what it keeps, and what it does in trouble."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest
from fake_registry import FakeRegistry, send

from penstock.client.failures import is_retriable
from penstock.client.serde import registry as registry_module
from penstock.client.serde.confluent_serdes import registry_of
from penstock.client.serde.registry import JSON_SCHEMA, Reference, RegisteredSchema
from penstock.client.serde.schema_ids import (
    by_record,
    by_topic,
    by_topic_and_record,
    frame,
    subject_naming,
    unframe,
)
from penstock.serde import RegistryError, SchemaRegistry, SerdeRefused

TEXT = RegisteredSchema('"string"')


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


def test_a_schema_gets_an_id_and_is_found_by_it(fake: FakeRegistry) -> None:
    registry = SchemaRegistry(fake.url)
    number = registry.register("orders-value", TEXT)
    assert registry.by_id(number) == TEXT


def test_what_was_asked_once_is_not_asked_again(fake: FakeRegistry) -> None:
    registry = SchemaRegistry(fake.url)
    for _ in range(3):
        number = registry.register("orders-value", TEXT)
        registry.by_id(number)
        registry.find("orders-value", TEXT)
        registry.latest("orders-value")
    assert fake.asked == [
        ("POST", "/subjects/orders-value/versions"),
        ("GET", f"/schemas/ids/{number}"),
        ("POST", "/subjects/orders-value"),
        ("GET", "/subjects/orders-value/versions/latest"),
    ]


def test_the_newest_schema_is_asked_for_again_after_a_while(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "LATEST_KEPT_S", -1.0)
    registry = SchemaRegistry(fake.url)
    fake.add("orders-value", '"string"')
    assert registry.latest("orders-value").schema.text == '"string"'
    fake.add("orders-value", '"long"')
    assert registry.latest("orders-value").schema.text == '"long"'


def test_the_newest_schema_is_used_for_five_minutes(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(registry_module, "time", SimpleNamespace(monotonic=lambda: now_s))
    registry = SchemaRegistry(fake.url)
    fake.add("orders-value", '"string"')
    registry.latest("orders-value")
    fake.add("orders-value", '"long"')
    now_s += 299.0
    assert registry.latest("orders-value").schema.text == '"string"'
    now_s += 1.0
    assert registry.latest("orders-value").schema.text == '"long"'


def test_the_kind_of_a_schema_and_its_references_are_told(fake: FakeRegistry) -> None:
    fake.add("base", {"type": "integer"}, JSON_SCHEMA)
    schema = RegisteredSchema("{}", JSON_SCHEMA, (Reference("base.json", "base", 1),))
    registry = SchemaRegistry(fake.url)
    assert registry.by_id(registry.register("orders-value", schema)) == schema


def test_references_of_references_come_first(fake: FakeRegistry) -> None:
    fake.add("c", '"long"')
    fake.add("b", '"int"', references=[{"name": "C", "subject": "c", "version": 1}])
    schema = RegisteredSchema('"x"', references=(Reference("B", "b", 1), Reference("C", "c", 1)))
    names = [name for name, _ in SchemaRegistry(fake.url).references(schema)]
    assert names == ["C", "B"]


def test_references_in_a_circle_end(fake: FakeRegistry) -> None:
    fake.add("a", '"int"', references=[{"name": "A", "subject": "a", "version": 1}])
    schema = RegisteredSchema('"x"', references=(Reference("A", "a", 1),))
    assert [name for name, _ in SchemaRegistry(fake.url).references(schema)] == ["A"]


def test_a_subject_is_quoted(fake: FakeRegistry) -> None:
    SchemaRegistry(fake.url).register("a/b c-value", TEXT)
    assert fake.asked == [("POST", "/subjects/a%2Fb%20c-value/versions")]
    assert list(fake.subjects) == ["a/b c-value"]


def test_an_address_may_have_a_path(fake: FakeRegistry) -> None:
    with pytest.raises(RegistryError):
        SchemaRegistry(f"{fake.url}/api/").by_id(1)
    assert fake.asked == [("GET", "/api/schemas/ids/1")]


def test_user_and_password_are_sent(fake: FakeRegistry) -> None:
    fake.wanted_authorization = "Basic " + base64.b64encode(b"me:s3:cret").decode()
    SchemaRegistry(fake.url, user="me", password="s3:cret").register("s", TEXT)
    with pytest.raises(RegistryError, match=r"401.*basic\.auth\.user\.info"):
        SchemaRegistry(fake.url).register("s", TEXT)


def test_user_and_password_may_be_in_the_address_and_are_never_shown(fake: FakeRegistry) -> None:
    fake.wanted_authorization = "Basic " + base64.b64encode(b"me:s@cret").decode()
    registry = SchemaRegistry(f"http://me:s%40cret@{fake.address}")
    registry.register("s", TEXT)
    assert "cret" not in repr(registry)
    with pytest.raises(RegistryError) as refused:
        registry.by_id(99)
    assert "cret" not in str(refused.value)


def test_a_token_is_sent(fake: FakeRegistry) -> None:
    SchemaRegistry(fake.url, token="abc").register("s", TEXT)
    assert fake.authorizations == ["Bearer abc"]


def test_a_user_and_a_token_exclude_each_other() -> None:
    with pytest.raises(SerdeRefused, match="not both"):
        SchemaRegistry("http://127.0.0.1:1", user="a", password="b", token="c")


def test_the_next_address_is_asked_if_one_is_silent(fake: FakeRegistry) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        registry = SchemaRegistry(f"http://127.0.0.1:{port}, {fake.url}")
        assert registry.register("s", TEXT) == 1


def test_the_next_address_is_not_asked_what_one_has_answered_with_no(fake: FakeRegistry) -> None:
    other = FakeRegistry()
    try:
        other.add("s", TEXT.text)
        with pytest.raises(RegistryError, match="404"):
            SchemaRegistry(f"{fake.url},{other.url}").by_id(1)
        assert other.asked == []
    finally:
        other.close()


def test_the_next_address_is_asked_if_one_has_a_problem_of_its_own(fake: FakeRegistry) -> None:
    other = FakeRegistry()
    try:
        fake.answer_with = lambda request: send(request, 503, b"{}")
        number = other.add("s", TEXT.text)
        assert SchemaRegistry(f"{fake.url},{other.url}").by_id(number) == TEXT
    finally:
        other.close()


def test_nobody_at_the_address_is_retriable_and_says_where() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(RegistryError, match=f"127.0.0.1:{port}") as failed:
            SchemaRegistry(f"http://127.0.0.1:{port}").by_id(1)
    assert is_retriable(failed.value)
    assert "schema.registry.url" in str(failed.value)


def test_a_problem_of_the_registrys_own_is_retriable(fake: FakeRegistry) -> None:
    fake.answer_with = lambda request: send(request, 500, b'{"message":"disk full"}')
    with pytest.raises(RegistryError, match="500: disk full") as failed:
        SchemaRegistry(fake.url).by_id(1)
    assert is_retriable(failed.value)


def test_an_unknown_schema_is_not_retriable(fake: FakeRegistry) -> None:
    with pytest.raises(RegistryError, match="Is it the registry that the sender used") as failed:
        SchemaRegistry(fake.url).by_id(77)
    assert not is_retriable(failed.value)
    assert (failed.value.status, failed.value.code) == (404, 40403)


def test_an_incompatible_schema_says_what_to_do(fake: FakeRegistry) -> None:
    answer = json.dumps({"error_code": 409, "message": "READER_FIELD_MISSING"}).encode()
    fake.answer_with = lambda request: send(request, 409, answer)
    with pytest.raises(RegistryError, match=r"READER_FIELD_MISSING.*compatible"):
        SchemaRegistry(fake.url).register("s", TEXT)


@pytest.mark.parametrize("answer", [b"not json", b"[]", b"", b'{"other":1}', b'{"schema":7}'])
def test_an_answer_that_is_none_is_refused(fake: FakeRegistry, answer: bytes) -> None:
    fake.answer_with = lambda request: send(request, 200, answer)
    with pytest.raises(RegistryError, match="not another server's"):
        SchemaRegistry(fake.url).by_id(1)


def test_a_server_that_knows_no_subjects_is_no_registry(fake: FakeRegistry) -> None:
    fake.answer_with = lambda request: send(request, 404, b"<html>nothing here</html>")
    with pytest.raises(RegistryError, match="not another server's"):
        SchemaRegistry(fake.url).register("s", TEXT)


def test_a_redirect_is_not_followed(fake: FakeRegistry) -> None:
    fake.answer_with = lambda request: send(request, 302, b"{}")
    with pytest.raises(RegistryError, match="302"):
        SchemaRegistry(fake.url, user="me", password="secret").by_id(1)
    assert len(fake.asked) == 1


def test_an_endless_answer_is_cut_off(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "ANSWER_BYTES_MAX", 100_000)

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(b"x" * 10_000)
        except OSError:
            request.close_connection = True

    fake.answer_with = endless
    with pytest.raises(RegistryError, match="more than 100000 bytes"):
        SchemaRegistry(fake.url).by_id(1)


def test_a_registry_that_does_not_answer_is_given_up(fake: FakeRegistry) -> None:
    released = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        released.wait(30)

    fake.answer_with = silent
    try:
        with pytest.raises(RegistryError, match="no answer"):
            SchemaRegistry(fake.url, timeout_s=0.05).by_id(1)
    finally:
        released.set()


def test_what_is_kept_is_bounded(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "KEPT_MAX", 2)
    registry = SchemaRegistry(fake.url)
    numbers = [fake.add("s", f'"{each}"') for each in ("a", "b", "c")]
    for number in numbers:
        registry.by_id(number)
    asked = len(fake.asked)
    registry.by_id(numbers[2])
    assert len(fake.asked) == asked
    registry.by_id(numbers[0])
    assert len(fake.asked) == asked + 1


@pytest.mark.parametrize("url", ["", "ftp://x", "127.0.0.1:8081", "http://", "http://x:99999"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SerdeRefused, match=r"schema\.registry\.url"):
        SchemaRegistry(url)


# -- from Confluent's keys


def test_a_registry_is_made_from_confluents_keys(fake: FakeRegistry) -> None:
    registry = registry_of(
        {
            "schema.registry.url": fake.url,
            "schema.registry.basic.auth.user.info": "me:secret",
            "basic.auth.credentials.source": "USER_INFO",
            "schema.registry.timeout.ms": "500",
        }
    )
    registry.register("s", TEXT)
    assert fake.authorizations == ["Basic " + base64.b64encode(b"me:secret").decode()]


def test_the_registry_may_inherit_user_and_password_of_the_cluster(fake: FakeRegistry) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    registry = registry_of(
        {
            "schema.registry.url": fake.url,
            "basic.auth.credentials.source": "SASL_INHERIT",
            "sasl.jaas.config": f'{module} required username="me" password="secret";',
        }
    )
    registry.register("s", TEXT)
    assert fake.authorizations == ["Basic " + base64.b64encode(b"me:secret").decode()]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, r"schema\.registry\.url is missing"),
        ({"basic.auth.credentials.source": "VAULT"}, "is not one of URL"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "is missing; it looks like user:password"),
        ({"basic.auth.user.info": "me"}, "has no colon"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "use STATIC_TOKEN"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, r"bearer\.auth\.token is missing"),
        ({"schema.registry.timeout.ms": "soon"}, "is no whole number"),
    ],
)
def test_keys_of_the_registry_that_are_wrong_are_said(
    properties: dict[str, object], reason: str
) -> None:
    if properties:
        properties = {"schema.registry.url": "http://127.0.0.1:1", **properties}
    with pytest.raises(SerdeRefused, match=reason):
        registry_of(properties)


# -- subjects and frames


def test_subjects_are_named_as_confluent_does() -> None:
    package = "io.confluent.kafka.serializers.subject."
    assert subject_naming(f"{package}TopicNameStrategy") is by_topic
    assert subject_naming(f"{package}RecordNameStrategy") is by_record
    assert subject_naming("TopicRecordNameStrategy") is by_topic_and_record
    assert by_topic("t", True, None) == "t-key"
    assert by_topic("t", False, "n.R") == "t-value"
    assert by_record("t", False, "n.R") == "n.R"
    assert by_topic_and_record("t", False, "n.R") == "t-n.R"
    with pytest.raises(SerdeRefused, match="TopicNameStrategy"):
        subject_naming("com.example.Mine")
    with pytest.raises(ValueError, match="the schema has no name"):
        by_record("t", False, None)


def test_a_frame_is_a_zero_and_four_bytes_of_the_id() -> None:
    assert frame(0x01020304, b"xy") == b"\0\1\2\3\4xy"
    assert unframe(b"\0\xff\xff\xff\xff") == (0xFFFFFFFF, b"")


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\1\0\0\0\1x", b"{}   "])
def test_what_has_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="Was it written by a serializer with a registry"):
        unframe(data)
