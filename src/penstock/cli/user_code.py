"""Code of the user's that a command imports, to find an application in it.

What goes wrong there is told as his, with the traceback from his first frame on.
"""

from traceback import format_exception
from types import FrameType

from penstock.cli.output import CommandFailed, ExitCode

# Whatever user code may end with: a script that calls sys.exit() would end the command without a
# word, or with the code of one that went well.
USER_FAILURES = (Exception, SystemExit)
# Who stands between the command and the first line of the user's.
_LOADERS = ("penstock", "importlib", "runpy")


def import_failed(place: str, problem: BaseException) -> CommandFailed:
    return CommandFailed(
        f"{place} fails while it is imported:\n{traceback_text(problem)}", ExitCode.USAGE
    )


def traceback_text(problem: BaseException) -> str:
    """Without our frames. A SyntaxError has no others: it names its place by itself."""
    at = problem.__traceback__
    while at is not None and _loads(at.tb_frame):
        at = at.tb_next
    return "".join(format_exception(type(problem), problem, at)).rstrip()


def _loads(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LOADERS
