"""The public module of serializers; tests/guides runs the boxes of its guide."""

import pytest

import penstock.client.serde
import penstock.serde


@pytest.mark.parametrize("name", penstock.client.serde.__all__)
def test_every_public_name_of_the_serdes_is_in_the_public_module(name: str) -> None:
    assert getattr(penstock.serde, name) is getattr(penstock.client.serde, name)
    assert name in penstock.serde.__all__
