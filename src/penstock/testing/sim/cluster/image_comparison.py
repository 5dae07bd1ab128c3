"""Compares the images of several nodes part by part.

An image has the unchanged parts of its predecessor, so each pair of parts is compared once.
"""

from dataclasses import fields
from types import MappingProxyType
from typing import Any

from penstock.controller.image import Image, Topic

TABLES = (dict, MappingProxyType)
PARTS_IN = {each: tuple(field.name for field in fields(each)) for each in (Image, Topic)}


class ImageComparison:
    """The pairs of parts that have been found equal."""

    def __init__(self) -> None:
        # By identity. The parts are kept, so that no other object gets the identity of one.
        self._equal: dict[tuple[int, int], tuple[object, object]] = {}

    def are_equal(self, one: Any, other: Any) -> bool:
        """Return whether two images, or parts of images, are equal."""
        if one is other:
            return True
        names = PARTS_IN.get(type(one))
        if names is None and not isinstance(one, TABLES):
            return bool(one == other)
        key = id(one), id(other)
        if key in self._equal:
            return True
        if names is not None:
            is_equal = all(self.are_equal(getattr(one, n), getattr(other, n)) for n in names)
        else:
            is_equal = one.keys() == other.keys() and all(
                self.are_equal(part, other[name]) for name, part in one.items()
            )
        if is_equal:
            self._equal[key] = one, other
        return is_equal
