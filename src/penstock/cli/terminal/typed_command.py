"""The name of this command, as a user types it."""

import os
import shlex
import shutil
import sys


def typed_command() -> str:
    """Return how to type this command: its name if the shell finds it, else its path."""
    if shutil.which("penstock") is not None:
        return "penstock"
    started, module = sys.argv[0], ""
    if os.path.basename(started) != "penstock":
        started, module = sys.executable, " -m penstock"
    near = os.path.relpath(started)
    if not os.path.dirname(near):  # a shell searches bare names on PATH only
        near = os.path.join(os.path.curdir, near)
    return shlex.quote(min(near, os.path.abspath(started), key=len)) + module
