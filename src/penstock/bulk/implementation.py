"""Which implementation works here: the compiled one, or the plain one where numba is missing.

PENSTOCK_BULK=plain|numba in the environment decides; without it numba is taken if it can be
imported, and its absence is said once per process.
"""

import functools
import logging
import os
from enum import Enum

VARIABLE = "PENSTOCK_BULK"

_log = logging.getLogger(__name__)


class WrongChoice(ValueError):
    """The environment asks for an implementation that there is not."""


class Implementation(Enum):
    """The two ways to the same rows."""

    NUMBA = "numba"
    PLAIN = "plain"


def chosen_implementation() -> Implementation:
    """What decoders and encoders made from now on use."""
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
        # Not only ImportError: a numba that does not like this numpy raises what it pleases.
        _log.warning(
            "numba cannot be used (%s): records are unpacked with numpy and pyarrow and packed in"
            " plain Python, many times slower. Install numba, or set %s=plain to silence this.",
            error,
            VARIABLE,
        )
        return False
    return True
