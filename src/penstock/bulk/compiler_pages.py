"""Gives back what the compiler's library keeps in memory, once every kernel is there.

LLVM's code and constants are some 80 MB of pages of a file, read in while kernels are loaded and
not needed to run them. The system would take them back when it is short of memory, and nobody is
harmed by them until then; but whoever looks at this process, or gives it a limit, sees them as its
own. They are dropped from here (MADV_DONTNEED), and come back from the file if they are used again.
Only pages that nobody can write to and that are as the file has them: of others something would be
lost. Where the system cannot tell which those are (it is not Linux), nothing happens.
"""

import ctypes
import functools
import mmap
import re

LIBRARY = "libllvmlite"
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s+(\S.*)")
_SMAPS = "/proc/self/smaps"


@functools.cache
def release_compiler_pages() -> int:
    """Once per process; how many bytes of its address space were given up."""
    advice = getattr(mmap, "MADV_DONTNEED", None)
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if advice is None or madvise is None:
        return 0
    released = 0
    for start, end in _unchanged():
        if madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice) == 0:
            released += end - start
    return released


def _unchanged() -> list[tuple[int, int]]:
    """The mappings of the library that are read or run only, and of which nothing was changed."""
    found: list[tuple[int, int]] = []
    place: tuple[int, int] | None = None
    try:
        with open(_SMAPS) as lines:
            for line in lines:
                if head := _MAPPING.match(line):
                    place = None
                    if LIBRARY in head[4] and "w" not in head[3]:
                        place = int(head[1], 16), int(head[2], 16)
                elif place is not None and line.startswith("Anonymous:"):
                    if line.split()[1] == "0":
                        found.append(place)
                    place = None
    except OSError:
        return []
    return found
