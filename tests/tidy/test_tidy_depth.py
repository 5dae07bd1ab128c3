"""The samples of `make test`: what tests/depth.py leaves out, and what it never leaves out."""

from itertools import product

from depth import thinned

NINE, THREE = [str(number) for number in range(9)], ["a", "b", "c"]


def test_a_thinned_product_is_as_long_as_its_longest_side() -> None:
    cases = list(product(THREE, NINE))
    kept = [cases[place] for place in thinned(cases)]
    assert len(kept) == len(NINE)
    assert {each[0] for each in kept} == set(THREE)
    assert {each[1] for each in kept} == set(NINE)


def test_of_one_parameter_every_value_stays() -> None:
    assert thinned([(each,) for each in NINE]) == list(range(9))
    assert thinned([("same",), ("same",)]) == [0]
    assert thinned([]) == []
