"""Interruptions of a client's `with` block, and the time that the end of the block gets."""

# An interrupted program wants to end: flush, abort, commit and leave have this time together.
INTERRUPTED_SECONDS_MAX = 2.0


def is_interruption(error: BaseException | None) -> bool:
    """Return whether a `with` block ends by a cancellation, Ctrl-C or an exit of the program."""
    return error is not None and not isinstance(error, Exception)
