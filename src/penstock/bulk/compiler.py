"""Compiles a kernel with numba, once per machine if possible.

The machine code is kept in NUMBA_CACHE_DIR, else in the user's cache directory, else in a directory
of this user under the temporary one. A broken cache costs time, never a job. Signatures are given
in full, so a process compiles a kernel at most once, at the first import of its module.
"""

import functools
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

# Half of numba has types, and they describe Python functions, not compiled ones.
numba: Any = import_module("numba")
extending: Any = import_module("numba.extending")
types: Any = import_module("numba.types")
cgutils: Any = import_module("numba.core.cgutils")

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# In a kernel: a signed number (numba turns a signed with an unsigned one into a float), and an
# index known to be non-negative (else each access checks for an index from the end).
as_int = cast("Callable[[object], int]", np.int64)
as_index = cast("Callable[[int], int]", np.uintp)

_log = logging.getLogger("penstock.bulk.compiling")
OWNER_ONLY = 0o700
_WRITABLE_BY_OTHERS = 0o022
_FINGERPRINT_DIGITS = 16
_ROOM = Path(__file__).parent

# Read-only in a kernel: Arrow's buffers and the bytes of a response are not ours to change.
BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
INT32_IN = types.Array(types.int32, 1, "C", readonly=True)
INT64_IN = types.Array(types.int64, 1, "C", readonly=True)
BYTES_OUT = types.uint8[::1]
INT32_OUT = types.int32[::1]
INT64_OUT = types.int64[::1]
TABLE = types.int64[:, ::1]
INT = types.int64

# Division by zero does not occur, so it is not checked. Kernels touch no Python objects, so other
# threads run beside them. The caller owns all arrays: counting references per row would take five
# times as long as the rows.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}


def compiled(*arguments: object) -> Callable[[Kernel], Kernel]:
    """Return the function as machine code for these argument types, from the cache if possible."""
    signature = INT(*arguments)

    def compile_one(function: Kernel) -> Kernel:
        directory = cache_directory(Path(function.__code__.co_filename).parent)
        if directory is not None:
            before = numba.config.CACHE_DIR
            numba.config.CACHE_DIR = directory
            try:
                # numba would choose another directory, without fingerprints.
                Path(directory).mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=directory):
                    pass
                return cast("Kernel", numba.njit(signature, cache=True, **_OPTIONS)(function))
            except Exception as error:
                # A failure of the cache is no failure of the kernel; a fault of the kernel itself
                # appears again below.
                _log.warning("the cache of compiled code in %s failed: %s", directory, error)
            finally:
                numba.config.CACHE_DIR = before
        return cast("Kernel", numba.njit(signature, **_OPTIONS)(function))

    return compile_one


def inlined(function: Kernel) -> Kernel:
    """Mark a part of kernels, compiled into each caller."""
    return cast("Kernel", numba.njit(**_OPTIONS)(function))


def _intrinsic(function: Callable[..., Any]) -> Callable[..., None]:
    """Mark a function written in the compiler's own instructions."""
    return cast("Callable[..., None]", extending.intrinsic(function))


def came_from_cache(kernel: object) -> bool:
    return bool(kernel.stats.cache_hits)  # type: ignore[attr-defined]


def cache_directory(room: Path = _ROOM) -> str | None:
    """Return the directory for the compiled code of a room; None if only directories of other users
    are writable."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return str(Path(given) / f"penstock-{_fingerprint(room)}")
    for directory in (_user_cache() / "penstock" / "numba", _temporary()):
        if _is_ours(directory):
            return str(directory / _fingerprint(room))
    return None


@functools.cache
def _fingerprint(room: Path) -> str:
    """Return a hash of all sources of a room's kernels. numba checks only the file of the kernel
    itself, and would run old code after a change in another file."""
    digest = hashlib.sha256()
    for path in sorted({*_ROOM.glob("*.py"), *room.glob("*.py")}):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_FINGERPRINT_DIGITS]


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _temporary() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir()) / f"penstock-numba-{user}"


def _is_ours(directory: Path) -> bool:
    """Return whether only this user can write to the directory, because cached code is executed."""
    try:
        directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        status = directory.stat()
    except (OSError, RuntimeError):  # RuntimeError: no home directory is known
        return False
    if hasattr(os, "getuid") and (
        status.st_uid != os.getuid() or status.st_mode & _WRITABLE_BY_OTHERS
    ):
        return False
    return os.access(directory, os.W_OK | os.X_OK)


@_intrinsic
def copy_bytes(
    typing_context: Any, target: Any, target_start: Any, source: Any, source_start: Any, size: Any
) -> Any:
    """Copy between two byte arrays with memcpy: in a loop the compiler must assume that they
    overlap."""
    del typing_context, target_start, source_start, size
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        cgutils.raw_memcpy(
            builder,
            builder.gep(to.data, [arguments[1]]),
            builder.gep(origin.data, [arguments[3]]),
            arguments[4],
            1,
        )
        return context.get_dummy_value()

    return signature, generate


@_intrinsic
def copy_to(typing_context: Any, address: Any, source: Any, start: Any, size: Any) -> Any:
    """Copy from a byte array to an address with memcpy."""
    del typing_context, address, start, size
    signature = types.void(types.int64, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        origin = context.make_array(signature.args[1])(context, builder, arguments[1])
        cgutils.raw_memcpy(
            builder,
            builder.inttoptr(arguments[0], cgutils.voidptr_t),
            builder.gep(origin.data, [arguments[2]]),
            arguments[3],
            1,
        )
        return context.get_dummy_value()

    return signature, generate


@_intrinsic
def store_byte(typing_context: Any, address: Any, value: Any) -> Any:
    """Store the lowest 8 bits of a number at an address."""
    del typing_context, address, value
    signature = types.void(types.int64, types.int64)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = builder.trunc(arguments[1], cgutils.int8_t)
        builder.store(byte, builder.inttoptr(arguments[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return signature, generate
