"""Bootstrap addresses: all clients take the same forms, and reject the same mistakes."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import sync as blocking
from penstock.client.settings import SettingRefused

CLIENTS = [
    getattr(face, name)
    for face in (penstock, blocking)
    for name in ("Producer", "Consumer", "Admin")
]
ids = [f"{each.__module__.rpartition('.')[2]}.{each.__name__}" for each in CLIENTS]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=ids)


@each_client
@pytest.mark.parametrize(
    "bootstrap", [["127.0.0.1:9092", "127.0.0.1:9093"], ("127.0.0.1:9092", "127.0.0.1:9093")]
)
def test_every_client_takes_a_list_of_addresses(client: Callable[..., Any], bootstrap: Any) -> None:
    made = client(bootstrap=bootstrap)
    if not hasattr(made, "describe_cluster"):
        assert "127.0.0.1:9092,127.0.0.1:9093" in repr(made)


@each_client
@pytest.mark.parametrize("given", [{}, {"client.id": "c"}])
def test_every_client_rejects_a_missing_address(client: Callable[..., Any], given: Any) -> None:
    with pytest.raises(SettingRefused, match=r"bootstrap\.servers: is missing"):
        client(given or None)


@each_client
@pytest.mark.parametrize(
    "bootstrap", ["http://127.0.0.1:9092", ["127.0.0.1:9093", "https://127.0.0.1:9092/"]]
)
def test_every_client_rejects_a_url(client: Callable[..., Any], bootstrap: Any) -> None:
    with pytest.raises(
        SettingRefused, match=r"brokers do not speak https?, write 127\.0\.0\.1:9092$"
    ):
        client(bootstrap=bootstrap)


@each_client
@pytest.mark.parametrize("bootstrap", ["ann:secret@127.0.0.1:9092", "http://ann:secret@h:1"])
def test_every_client_rejects_a_user_in_the_address_and_hides_the_password(
    client: Callable[..., Any], bootstrap: str
) -> None:
    with pytest.raises(SettingRefused, match=r"give the user as sasl\.username") as refused:
        client(bootstrap=bootstrap)
    assert "secret" not in str(refused.value)


@each_client
@pytest.mark.parametrize("bootstrap", [9092, [9092]])
def test_every_client_rejects_an_address_that_is_no_text(
    client: Callable[..., Any], bootstrap: Any
) -> None:
    with pytest.raises(TypeError, match="bootstrap is text or a list of texts"):
        client(bootstrap=bootstrap)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_producer_takes_librdkafkas_protocol_before_an_address(protocol: str) -> None:
    blocking.Producer(bootstrap=f"{protocol}://127.0.0.1:9092")
