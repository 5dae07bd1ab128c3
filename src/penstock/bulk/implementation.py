"""Chooses the implementation: compiled, or plain where numba is missing.

PENSTOCK_BULK=plain|numba in the environment decides. Without it numba is used if importable; a
failed import is logged once per process.
"""

import functools
import logging
import os
from enum import Enum

VARIABLE = "PENSTOCK_BULK"

_log = logging.getLogger(__name__)


class WrongChoice(ValueError):
    """The environment names an unknown implementation."""


class Implementation(Enum):
    """The two implementations, which give the same rows."""

    NUMBA = "numba"
    PLAIN = "plain"


def chosen_implementation() -> Implementation:
    """Return the implementation for new decoders and encoders."""
    asked = os.environ.get(VARIABLE, "").strip().lower()
    if asked:
        try:
            return Implementation(asked)
        except ValueError:
            raise WrongChoice(f"{VARIABLE} is {asked!r}; it may be 'plain' or 'numba'") from None
    return Implementation.NUMBA if numba_works() else Implementation.PLAIN


@functools.cache
def numba_works() -> bool:
    try:
        import numba  # noqa: F401
    except Exception as error:
        # Not only ImportError: a numba that does not match this numpy raises other errors.
        _log.warning(
            "numba cannot be used (%s): records are unpacked with numpy and pyarrow and packed in"
            " plain Python, many times slower. Install numba, or set %s=plain to silence this.",
            error,
            VARIABLE,
        )
        return False
    return True
