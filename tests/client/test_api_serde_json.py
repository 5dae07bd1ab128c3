"""JSON of Python's own values, of dataclasses, of pydantic models and of msgspec Structs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.serde.json_types import Misfit
from penstock.serde import JSON, SerdeRefused, json_of

UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Size(StrEnum):
    SMALL = "s"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float


class Tag(TypedDict):
    name: str
    weight: NotRequired[float]


@dataclass
class Item:
    name: str
    price: Decimal
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Order:
    id: UUID
    user: UserId
    at: datetime
    items: tuple[Item, ...]
    colour: Colour
    size: Size
    level: Level
    payload: bytes
    day: date
    clock: time
    lasted: timedelta
    where: Point
    tag: Tag
    kind: Literal["new", 7]
    counts: dict[str, int]
    by_number: Mapping[int, str]
    unique: frozenset[int]
    pair: tuple[int, str]
    score: float
    note: str | None = None
    either: int | str | Item = 0
    anything: Any = None
    checked: Annotated[bool, "told"] = False
    series: Sequence[int] = ()
    derived: int = field(default=5, init=False)


@dataclass
class Tree:
    value: int
    left: Optional["Tree"] = None
    right: Optional["Tree"] = None


class Model(pydantic.BaseModel):
    id: int
    at: datetime
    tags: list[str] = []


class Struct(msgspec.Struct):
    id: int
    at: datetime
    tags: list[str] = []


@dataclass
class Mixed:
    model: Model
    struct: Struct
    models: list[Model]


AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
ITEMS = st.builds(
    Item, st.text(), st.decimals(allow_nan=False, allow_infinity=False), st.lists(st.text())
)
ORDERS = st.builds(
    Order,
    id=st.uuids(),
    user=st.integers().map(UserId),
    at=st.datetimes(timezones=st.just(UTC)),
    items=st.lists(ITEMS).map(tuple),
    colour=st.sampled_from(Colour),
    size=st.just(Size.SMALL),
    level=st.just(Level.LOW),
    payload=st.binary(),
    day=st.dates(),
    clock=st.times(),
    lasted=st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
    where=st.builds(Point, st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    tag=st.just(Tag(name="a")) | st.just(Tag(name="b", weight=1.5)),
    kind=st.sampled_from(["new", 7]),
    counts=st.dictionaries(st.text(), st.integers()),
    by_number=st.dictionaries(st.integers(), st.text()),
    unique=st.frozensets(st.integers()),
    pair=st.tuples(st.integers(), st.text()),
    score=st.floats(allow_nan=False, allow_infinity=False),
    note=st.none() | st.text(),
    either=st.integers() | st.text() | ITEMS,
    anything=st.none() | st.integers() | st.lists(st.text()),
    checked=st.booleans(),
    series=st.lists(st.integers()),
)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
def test_what_json_knows_comes_back(value: Any) -> None:
    assert JSON.decode(JSON.encode(value) or b"") == value


def test_json_is_written_without_blanks_in_utf_8() -> None:
    assert JSON.encode({"a": [1, 2], "b": "grüße"}) == '{"a":[1,2],"b":"grüße"}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_nan_is_no_json_to_write(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        JSON.encode(value)


@pytest.mark.parametrize("data", [b"NaN", b"[Infinity]", b"", b"{", b"\xff", b'{"a":1} x'])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        JSON.decode(data)


@given(ORDERS)
def test_a_dataclass_comes_back_with_all_that_is_in_it(order: Order) -> None:
    serde = json_of(Order)
    assert serde.decode(serde.encode(order) or b"") == order


def test_a_class_that_contains_itself_comes_back() -> None:
    tree = Tree(1, Tree(2), Tree(3, None, Tree(4)))
    serde = json_of(Tree)
    assert serde.decode(serde.encode(tree) or b"") == tree


@given(st.integers(), st.datetimes(timezones=st.just(UTC)), st.lists(st.text()))
def test_a_pydantic_model_comes_back(number: int, at: datetime, tags: list[str]) -> None:
    serde = json_of(Model)
    model = Model(id=number, at=at, tags=tags)
    assert serde.decode(serde.encode(model) or b"") == model


class Aliased(pydantic.BaseModel):
    customer: str = pydantic.Field(alias="customerName")


@dataclass(frozen=True)
class WithAliased:
    model: Aliased


def test_a_pydantic_model_is_written_by_the_names_that_it_reads() -> None:
    serde, outer = json_of(Aliased), json_of(WithAliased)
    model = Aliased(customerName="ada")
    assert serde.encode(model) == b'{"customerName":"ada"}'
    assert serde.decode(serde.encode(model) or b"") == model
    assert outer.decode(outer.encode(WithAliased(model)) or b"") == WithAliased(model)


@given(st.integers(-(2**63), 2**63 - 1), st.datetimes(timezones=st.just(UTC)), st.lists(st.text()))
def test_a_msgspec_struct_comes_back(number: int, at: datetime, tags: list[str]) -> None:
    serde = json_of(Struct)
    struct = Struct(id=number, at=at, tags=tags)
    assert serde.decode(serde.encode(struct) or b"") == struct


def test_models_and_structs_inside_a_dataclass_come_back() -> None:
    mixed = Mixed(Model(id=1, at=AT), Struct(id=2, at=AT), [Model(id=3, at=AT, tags=["x"])])
    serde = json_of(Mixed)
    assert serde.decode(serde.encode(mixed) or b"") == mixed


def test_a_pydantic_dataclass_is_validated_by_pydantic() -> None:
    @pydantic.dataclasses.dataclass
    class Priced:
        price: int = pydantic.Field(gt=0)

    serde = json_of(Priced)
    assert serde.decode(serde.encode(Priced(price=3)) or b"") == Priced(price=3)
    with pytest.raises(ValueError, match="greater than 0"):
        serde.decode(b'{"price":0}')


def test_plain_json_writes_objects_by_their_fields() -> None:
    item = Item("a", Decimal("1.10"), ["x"])
    assert json.loads(JSON.encode({"item": item, "model": Model(id=1, at=AT)}) or b"") == {
        "item": {"name": "a", "price": "1.10", "tags": ["x"]},
        "model": {"id": 1, "at": "2026-01-02T03:04:05.000678Z", "tags": []},
    }


def test_a_list_of_a_type_is_a_type() -> None:
    serde = json_of(list[Item])
    items = [Item("a", Decimal(1)), Item("b", Decimal(2))]
    assert serde.decode(serde.encode(items) or b"") == items


def test_a_typed_dictionary_is_a_type() -> None:
    serde = json_of(Tag)
    assert serde.decode(serde.encode({"name": "a"}) or b"") == {"name": "a"}
    with pytest.raises(Misfit, match="the field name of Tag is missing"):
        serde.decode(b"{}")


@pytest.mark.parametrize("kind", [Item, Model, Struct])
def test_a_value_of_another_type_is_not_written(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"expected {kind.__name__}, not dict"):
        json_of(kind).encode({"name": "a"})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "expected the fields of Item, not []"),
        (b"{}", "the field name of Item is missing"),
        (b'{"name":1,"price":"1"}', "name: expected text, not 1"),
        (b'{"name":"a","price":1}', "price: expected a decimal number in quotes, not 1"),
        (b'{"name":"a","price":"x"}', "price: expected a decimal number in quotes, not 'x'"),
        (b'{"name":"a","price":"1","tags":["x",2]}', "tags[1]: expected text, not 2"),
    ],
)
def test_what_does_not_fit_is_said_with_its_path(data: bytes, reason: str) -> None:
    with pytest.raises(Misfit) as refused:
        json_of(Item).decode(data)
    assert str(refused.value) == reason


def test_a_deep_path_is_said_whole() -> None:
    @dataclass
    class Basket:
        items: list[Item]

    with pytest.raises(Misfit, match=r"^items\[0\]\.name: expected text"):
        json_of(Basket).decode(b'{"items":[{"name":1,"price":"1"}]}')


def test_truth_values_are_no_numbers() -> None:
    @dataclass
    class Counted:
        count: int

    with pytest.raises(Misfit, match="count: expected a whole number, not True"):
        json_of(Counted).decode(b'{"count":true}')


def test_fields_that_are_not_known_are_passed_over() -> None:
    assert json_of(Item).decode(b'{"name":"a","price":"1","later":true}') == Item("a", Decimal(1))


def test_what_a_class_itself_refuses_is_said() -> None:
    @dataclass
    class Positive:
        value: int

        def __post_init__(self) -> None:
            if self.value <= 0:
                raise ValueError("it has to be above 0")

    with pytest.raises(Misfit, match="Positive refuses them: it has to be above 0"):
        json_of(Positive).decode(b'{"value":0}')


@pytest.mark.parametrize("kind", [object(), complex, dict[float, int], list[complex], range])
def test_a_type_that_json_cannot_tell_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(SerdeRefused):
        json_of(kind)


def test_a_union_takes_the_member_of_the_exact_type_first() -> None:
    @dataclass
    class Either:
        value: float | int | str

    read = json_of(Either).decode(b'{"value":1}')
    assert type(read.value) is int
    with pytest.raises(Misfit, match="expected float or int or str"):
        json_of(Either).decode(b'{"value":null}')


# -- secrets


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Account(pydantic.BaseModel):
    logins: list[Login]


class Revealed(Login):
    @pydantic.field_serializer("password", when_used="json")
    def reveal(self, value: pydantic.SecretStr) -> str:
        return value.get_secret_value()


class Masked(pydantic.BaseModel):
    card: str


class Flagged(pydantic.BaseModel):
    flag: pydantic.Secret[bool]
    key: pydantic.SecretBytes = pydantic.SecretBytes(b"")


@dataclass
class Holder:
    login: Login


LOGIN = Login(user="ada", password=pydantic.SecretStr("opensesame"))


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        (Login, LOGIN, "password of Login"),
        (Account, Account(logins=[LOGIN]), r"logins\[0\]\.password of Account"),
        (Holder, Holder(LOGIN), "password of Login"),
        (Flagged, Flagged(flag=pydantic.Secret(False)), "flag of Flagged"),
        (
            Flagged,
            Flagged(flag=pydantic.Secret(True), key=pydantic.SecretBytes(b"x")),
            "flag of Flagged",
        ),
    ],
)
def test_a_secret_that_would_be_written_as_stars_is_refused(
    kind: Any, value: Any, field: str
) -> None:
    with pytest.raises(ValueError, match=rf"{field} is a secret.*field_serializer"):
        json_of(kind).encode(value)
    with pytest.raises(ValueError, match=r"is a secret.*field_serializer"):
        JSON.encode({"value": value})


def test_a_secret_is_written_where_its_class_says_how() -> None:
    value = Revealed(user="ada", password=pydantic.SecretStr("opensesame"))
    serde = json_of(Revealed)
    assert serde.encode(value) == b'{"user":"ada","password":"opensesame"}'
    assert serde.decode(serde.encode(value) or b"") == value
    assert json_of(Login).encode(value) == serde.encode(value), "by the value's own class"


def test_an_empty_secret_loses_nothing_and_stars_of_ones_own_are_text() -> None:
    empty = Login(user="ada", password=pydantic.SecretStr(""))
    assert json_of(Login).encode(empty) == b'{"user":"ada","password":""}'
    assert json_of(Masked).encode(Masked(card="*" * 10)) == b'{"card":"**********"}'
