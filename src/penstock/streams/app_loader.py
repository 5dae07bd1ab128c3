"""Finds the application in a script or module: `revenue.py`, `revenue.py:app`, `shop.main:app`."""

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

from penstock.streams.app import Streams, loading
from penstock.streams.errors import StreamsError


def load(target: str) -> Streams:
    """Return the application; `app.run()` at the end of the script does nothing meanwhile."""
    place, _, name = target.partition(":")
    with loading():
        names = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    if name:
        found = names.get(name)
        if not isinstance(found, Streams):
            raise StreamsError(f"{place} has no Streams application named {name}")
        return found
    found_apps = {id(each): (key, each) for key, each in names.items() if isinstance(each, Streams)}
    match list(found_apps.values()):
        case [(_, app)]:
            return app
        case []:
            raise StreamsError(f"{place} has no Streams application")
        case several:
            known = ", ".join(key for key, _ in several)
            raise StreamsError(f"{place} has several applications ({known}): say {place}:NAME")


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise StreamsError(f"there is no file {path}")
    # A script can import the modules beside it, as when Python runs it.
    sys.path.insert(0, str(path.parent.resolve()))
    return runpy.run_path(str(path), run_name=path.stem)


def _from_module(name: str) -> dict[str, Any]:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return vars(importlib.import_module(name))
    except ModuleNotFoundError as problem:
        # A missing import of the module itself is raised unchanged.
        if problem.name is None or not (name + ".").startswith(problem.name + "."):
            raise
        raise StreamsError(f"there is no module {name}: {problem}") from problem
