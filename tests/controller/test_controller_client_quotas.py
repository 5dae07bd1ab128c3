"""Quotas in the metadata: legal entities and values, changes as records, filters."""

import math

import pytest

from penstock.controller.client_quotas import ANY, DEFAULT, EXACT, ClientQuotaRequests, describe
from penstock.controller.delta import ImageBuilder
from penstock.controller.image import Image
from penstock.errors import InvalidRequest, UnsupportedVersion
from penstock.wire.messages import k48_describe_client_quotas as k48
from penstock.wire.messages import k49_alter_client_quotas as k49
from penstock.wire.structures import EntityData

Names = dict[str, str | None]
INVALID_REQUEST = InvalidRequest.code
PRODUCE = "producer_byte_rate"


def parts(names: Names) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()]


def entry(names: Names, **values: float | None) -> k49.RequestEntryData:
    operations = [
        k49.OpData(key=key, value=value or 0.0, remove=value is None)
        for key, value in values.items()
    ]
    return k49.RequestEntryData(entity=parts(names), ops=operations)


def altered(
    image: Image, *entries: k49.RequestEntryData, validate_only: bool = False
) -> tuple[Image, list[k49.ResponseEntryData]]:
    request = k49.AlterClientQuotasRequest(entries=[*entries], validate_only=validate_only)
    outcome = ClientQuotaRequests(image).alter(request)
    assert outcome.reply is not None
    builder = ImageBuilder(image)
    for record in outcome.records:
        builder.apply(record)
    return builder.build(image.offset + 1, 1, 1)[0], outcome.reply.entries


def shown(
    image: Image, *components: k48.ComponentData, strict: bool = False
) -> list[tuple[Names, dict[str, float]]]:
    request = k48.DescribeClientQuotasRequest(components=[*components], strict=strict)
    return [
        (
            {each.entity_type: each.entity_name for each in found.entity},
            {each.key: each.value for each in found.values},
        )
        for found in describe(image, request).entries or []
    ]


def component(kind: str, how: int, name: str | None = None) -> k48.ComponentData:
    return k48.ComponentData(entity_type=kind, match_type=how, match=name)


ALICE: Names = {"user": "alice"}
ALICES_APP: Names = {"user": "alice", "client-id": "app"}
EVERYBODY: Names = {"user": None}


@pytest.fixture
def three() -> Image:
    entries = [entry(names, producer_byte_rate=1024.0) for names in (ALICE, ALICES_APP, EVERYBODY)]
    return altered(Image(), *entries)[0]


def test_a_quota_is_stored_and_described() -> None:
    image, answers = altered(
        Image(), entry(ALICE, producer_byte_rate=1024.0, request_percentage=12.5)
    )
    assert [each.error_code for each in answers] == [0]
    assert shown(image) == [(ALICE, {PRODUCE: 1024.0, "request_percentage": 12.5})]


def test_a_removed_quota_is_gone(three: Image) -> None:
    image, _ = altered(three, entry(ALICE, producer_byte_rate=None))
    assert ALICE not in [names for names, _ in shown(image)]


def test_a_quota_that_stays_as_it_is_writes_nothing(three: Image) -> None:
    request = k49.AlterClientQuotasRequest(entries=[entry(ALICE, producer_byte_rate=1024.0)])
    assert not ClientQuotaRequests(three).alter(request).records


def test_a_request_that_only_validates_changes_nothing() -> None:
    image, answers = altered(Image(), entry(ALICE, producer_byte_rate=1.0), validate_only=True)
    assert (shown(image), answers[0].error_code) == ([], 0)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (entry({}, producer_byte_rate=1.0), "Invalid empty client quota entity"),
        (
            entry({"group": "g"}, producer_byte_rate=1.0),
            "Unhandled client quota entity type: group",
        ),
        (entry({"user": ""}, producer_byte_rate=1.0), "Empty user not supported"),
        (entry({"ip": "10.0.0.7", "user": "a"}, connection_creation_rate=1.0), "IP entity should"),
        (entry({"ip": "no address"}, connection_creation_rate=1.0), "no address is not a valid IP"),
        (
            entry(ALICE, connection_creation_rate=1.0),
            "Invalid configuration key connection_creation",
        ),
        (
            entry({"ip": None}, producer_byte_rate=1.0),
            "Invalid configuration key producer_byte_rate",
        ),
        (entry(ALICE, producer_byte_rate=0.0), "must be greater than 0"),
        (entry(ALICE, producer_byte_rate=math.nan), "must be greater than 0"),
        (entry(ALICE, producer_byte_rate=1.5), "cannot be a fractional value"),
        (entry(ALICE, producer_byte_rate=1e19), "too large for a LONG"),
        (entry({"ip": None}, connection_creation_rate=2.0**31), "too large for an INT"),
    ],
)
def test_an_illegal_entry_is_rejected_and_the_others_are_stored(
    wrong: k49.RequestEntryData, text: str
) -> None:
    bob: Names = {"user": "bob"}
    image, answers = altered(Image(), wrong, entry(bob, consumer_byte_rate=1.0))
    assert [each.error_code for each in answers] == [INVALID_REQUEST, 0]
    assert text in (answers[0].error_message or "")
    assert shown(image) == [(bob, {"consumer_byte_rate": 1.0})]


def test_the_second_entry_of_an_entity_is_rejected() -> None:
    _, answers = altered(
        Image(), entry(ALICE, producer_byte_rate=1.0), entry(ALICE, consumer_byte_rate=1.0)
    )
    assert [each.error_code for each in answers] == [INVALID_REQUEST]


def test_a_key_twice_in_an_entry_is_rejected() -> None:
    twice = entry(ALICE, producer_byte_rate=1.0)
    twice.ops *= 2
    image, answers = altered(Image(), twice)
    assert (answers[0].error_code, shown(image)) == (INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [ALICE, ALICES_APP, EVERYBODY]),
        ([component("user", EXACT, "alice")], False, [ALICE, ALICES_APP]),
        ([component("user", EXACT, "alice")], True, [ALICE]),
        ([component("user", DEFAULT)], False, [EVERYBODY]),
        ([component("user", ANY)], True, [ALICE, EVERYBODY]),
        ([component("client-id", ANY)], False, [ALICES_APP]),
        ([component("user", EXACT, "bob")], False, []),
    ],
)
def test_a_filter_finds_the_entities_that_match(
    three: Image, components: list[k48.ComponentData], strict: bool, expected: list[Names]
) -> None:
    found = [names for names, _ in shown(three, *components, strict=strict)]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    "components",
    [
        [component("", ANY)],
        [component("user", ANY), component("user", DEFAULT)],
        [component("user", 3)],
        [component("user", EXACT)],
        [component("user", DEFAULT, "alice")],
        [component("user", ANY), component("ip", ANY)],
    ],
)
def test_an_illegal_filter_is_rejected(components: list[k48.ComponentData]) -> None:
    with pytest.raises(InvalidRequest):
        shown(Image(), *components)


def test_a_filter_of_an_unknown_type_is_not_supported() -> None:
    with pytest.raises(UnsupportedVersion):
        shown(Image(), component("group", ANY))
