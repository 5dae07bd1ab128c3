"""Compiles the kernels of a module in another process, to keep this one small.

A compiler does not give its memory back: a process that has compiled is half as large again as one
that loaded the code from the cache. Where the memory of a process is limited, the cache is filled
before it loads anything. The other process ends with this one. If the cache is unusable or the
other process fails, the module compiles at its import.
"""

import importlib
import logging
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

from penstock.bulk.compiler import OWNER_ONLY, cache_directory, numba

_log = logging.getLogger("penstock.bulk.compiling_apart")
# Usually ten seconds, and ten times that on a busy machine.
SECONDS_MAX = 120.0


def fill_cache(module: str) -> bool:
    """Fill the cache with the module's kernels before its import; return whether anything was
    compiled."""
    spec = None if module in sys.modules else find_spec(module)
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin)
    directory = cache_directory(source.parent)
    if directory is None:
        return False
    mark = Path(directory) / f"{module}.compiled"
    try:
        wanted = _stamp(source)
        if mark.exists() and mark.read_text() == wanted:
            return False
        # Before the work: without the mark the cache is unusable too.
        mark.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        mark.write_text("")
        if not _compile_apart(module):
            return False
        mark.write_text(wanted)
    except OSError as error:
        _log.warning("%s is compiled here, as the cache in %s failed: %s", module, directory, error)
        return False
    return True


def _stamp(source: Path) -> str:
    """Return the facts by which numba validates cached code; the cache directory's name covers the
    other sources."""
    llvm = importlib.import_module("llvmlite.binding")
    status = source.stat()
    return "\n".join(
        (
            f"python {sys.version}",
            f"numba {numba.__version__}",
            f"source {source} {status.st_mtime_ns} {status.st_size}",
            f"processor {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}",
        )
    )


def _compile_apart(module: str) -> bool:
    # The child finds modules where this process does: not in the current directory, unless this
    # process does.
    command = [sys.executable, "-P", "-m", __name__, module]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        # The input is a silent pipe, which closes with this process.
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=surroundings) as process:
            try:
                code = process.wait(SECONDS_MAX)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired:
        _log.warning("%s is compiled here: another process took too long", module)
        return False
    if code:
        _log.warning("%s is compiled here: another process failed to (%d)", module, code)
    return code == 0


def _end_with_parent() -> None:
    os.read(0, 1)  # past Python's buffers, whose lock would be held at exit
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    importlib.import_module(sys.argv[1])


if __name__ == "__main__":
    main()
