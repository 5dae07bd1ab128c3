"""Errors of user code that a command imports.

The traceback begins with the first frame of the user's code.
"""

from traceback import format_exception
from types import FrameType

from penstock.cli.terminal.output import CommandFailed, WrongUsage

# SystemExit is included: a script that calls sys.exit() would end the command silently, or with
# exit code 0.
USER_FAILURES = (Exception, SystemExit)
# Packages between the command and the first frame of the user's code.
_LOADERS = ("penstock", "importlib", "runpy")


def import_failed(place: str, problem: BaseException) -> CommandFailed:
    return WrongUsage(f"{place} fails while it is imported:\n{traceback_text(problem)}")


def traceback_text(problem: BaseException) -> str:
    """Return the traceback without frames of the loaders; a SyntaxError has no other frames."""
    at = problem.__traceback__
    while at is not None and _loads(at.tb_frame):
        at = at.tb_next
    return "".join(format_exception(type(problem), problem, at)).rstrip()


def _loads(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LOADERS
