"""Signals during a call of librdkafka: the binding may lose the exception of the handler.

A call then fails with SystemError "returned NULL without setting an exception". Python runs the
handlers of signals in the main thread only, so there the error means a signal and nothing else.
"""

import threading

_LOST = "without setting an exception"


def raise_if_interrupted(error: BaseException) -> None:
    """Raise KeyboardInterrupt if the error stands for a signal of this thread."""
    if not isinstance(error, SystemError) or _LOST not in str(error):
        return
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt from error
