"""What a client is told becomes a serializer: objects, functions, types, names, Java's too."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from penstock import serde
from penstock.client.runtime.python_paths import NotThere, load
from penstock.serde import SerdeRefused, deserializer_of, serializer_of

JAVA = "org.apache.kafka.common.serialization."


@dataclass
class Order:
    id: int


class Model(pydantic.BaseModel):
    id: int


class Struct(msgspec.Struct):
    id: int


class Shouting:
    """A serde of a user's own."""

    configured: tuple[dict[str, object], bool] | None = None

    def configure(self, properties: dict[str, object], is_key: bool) -> None:
        self.configured = (properties, is_key)

    def serialize(
        self, topic: str, value: str, headers: list[tuple[str, bytes | None]], /
    ) -> bytes:
        headers.append(("shouted-in", topic.encode()))
        return value.upper().encode()

    def deserialize(self, _topic: str, data: bytes, _headers: object, /) -> str:
        return data.decode().lower()


class OnlyWrites:
    def serialize(self, _topic: str, value: str, _headers: object, /) -> bytes:
        return value.encode()


class NeedsArguments(Shouting):
    def __init__(self, volume: int) -> None:
        self.volume = volume


SHOUTING = Shouting()


def written(said: object, value: object, **more: Any) -> bytes | None:
    return serializer_of(said, is_key=False, **more).serialize("t", value, [])


def read(said: object, data: bytes, **more: Any) -> Any:
    return deserializer_of(said, is_key=False, **more).deserialize("t", data, ())


def test_nothing_said_means_bytes_as_they_are() -> None:
    assert serializer_of(None, is_key=True) is serde.AS_GIVEN
    assert deserializer_of(None, is_key=True) is serde.AS_GIVEN


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (bytes, b"x", b"x"),
        (str, "x", b"x"),
        (int, 7, b"\0\0\0\0\0\0\0\7"),
        (float, 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        (bool, True, b"\1"),
        (UUID, UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        (Order, Order(1), b'{"id":1}'),
        (Model, Model(id=1), b'{"id":1}'),
        (Struct, Struct(id=1), b'{"id":1}'),
        (list[int], [1, 2], b"[1,2]"),
        (dict[str, Order], {"a": Order(1)}, b'{"a":{"id":1}}'),
    ],
)
def test_a_type_is_written_and_read(kind: Any, value: Any, data: bytes) -> None:
    assert written(kind, value) == data
    assert read(kind, data) == value


def test_functions_are_taken() -> None:
    assert written(lambda value: value * 2, b"x") == b"xx"
    assert read(lambda data: data + b"!", b"x") == b"x!"


def test_an_object_may_add_headers() -> None:
    headers: list[tuple[str, bytes | None]] = []
    assert serializer_of(SHOUTING, is_key=False).serialize("t", "a", headers) == b"A"
    assert headers == [("shouted-in", b"t")]


def test_a_class_is_made_and_configured_as_in_java() -> None:
    made = serializer_of(Shouting, is_key=True, properties={"a": 1})
    assert isinstance(made, Shouting)
    assert made.configured == ({"a": 1}, True)


def test_a_class_that_needs_arguments_is_refused_with_the_way_out() -> None:
    with pytest.raises(SerdeRefused, match="give an object of it"):
        serializer_of(NeedsArguments, is_key=False)


def test_a_path_in_python_is_loaded() -> None:
    name = f"{__name__}:SHOUTING"
    assert serializer_of(name, is_key=False) is SHOUTING
    assert isinstance(deserializer_of(f"{__name__}.Shouting", is_key=False), Shouting)
    assert read(f"{__name__}:Order", b'{"id":3}') == Order(3)


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("ByteArray", b"x", b"x"),
        ("ByteBuffer", b"x", b"x"),
        ("Bytes", b"x", b"x"),
        ("String", "x", b"x"),
        ("Integer", 1, b"\0\0\0\1"),
        ("Long", 1, b"\0\0\0\0\0\0\0\1"),
        ("Short", 1, b"\0\1"),
        ("Float", 1.5, b"\x3f\xc0\0\0"),
        ("Double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("UUID", UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        ("Boolean", False, b"\0"),
    ],
)
def test_javas_names_are_understood(name: str, value: Any, data: bytes) -> None:
    assert written(f"{JAVA}{name}Serializer", value) == data
    assert read(f"{JAVA}{name}Deserializer", data) == value


def test_javas_encoding_keys_are_obeyed() -> None:
    properties = {"value.serializer.encoding": "ISO-8859-1", "serializer.encoding": "UTF-8"}
    assert written(f"{JAVA}StringSerializer", "ü", properties=properties) == b"\xfc"
    keys = serializer_of(f"{JAVA}StringSerializer", is_key=True, properties=properties)
    assert keys.serialize("t", "ü", []) == "ü".encode()


@pytest.mark.parametrize("name", ["string", "STR", "int", "json", "bytes", "uuid", "double"])
def test_short_names_are_understood(name: str) -> None:
    assert isinstance(serializer_of(name, is_key=False), serde.Plain)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (f"{JAVA}ListSerializer", "write lists as JSON"),
        (f"{JAVA}StringDeserializer", "is a deserializer, and a serializer is asked for"),
        ("com.example.MySerializer", "there is no module com.example"),
        ("json.nothing", "json has no nothing"),
        ("nonsense", "is no Python path"),
        (7, "has no method `serialize` and is no function"),
        ("io.confluent.kafka.serializers.KafkaAvroSerializer", "schema.registry.url is missing"),
        (
            "io.confluent.kafka.serializers.protobuf.KafkaProtobufSerializer",
            "value=Order.SerializeToString",
        ),
    ],
)
def test_what_is_no_serializer_is_refused_with_the_way_out(said: object, reason: str) -> None:
    with pytest.raises(SerdeRefused) as refused:
        serializer_of(said, is_key=False)
    assert reason in str(refused.value)


def test_an_object_that_only_writes_is_no_deserializer() -> None:
    with pytest.raises(SerdeRefused, match="no method `deserialize`"):
        deserializer_of(OnlyWrites(), is_key=False)


def test_protocols_are_what_objects_satisfy() -> None:
    assert isinstance(SHOUTING, serde.Serializer)
    assert isinstance(SHOUTING, serde.Deserializer)
    assert isinstance(serde.JSON, serde.Serde)
    assert not isinstance(OnlyWrites(), serde.Deserializer)


# -- paths in Python


@pytest.mark.parametrize("path", ["os.path:join", "os.path.join", "collections:OrderedDict.get"])
def test_a_path_leads_to_its_object(path: str) -> None:
    found: Callable[..., Any] = load(path)
    assert callable(found)


@pytest.mark.parametrize("path", ["", ":x", "x:", "a b:c", "os", "os.path:", "../x:y"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(NotThere, match="is no Python path"):
        load(path)


def test_what_a_module_itself_misses_is_its_own_problem(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_something.py").write_text("import surely_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_there"):
        load("needs_something:x")
