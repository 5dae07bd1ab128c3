"""Gives back memory that loading libraries and compiling took and running does not need.

LLVM's code and constants are some 80 MB of pages of a file, read in while kernels are loaded and
not needed to run them; of numpy's libraries and Python's own most pages are needed at the start
only. The system would take them back when it is short of memory, and nobody is harmed by them until
then; but whoever looks at this process, or gives it a limit, sees them as its own. They are dropped
from here (MADV_DONTNEED), and come back from their file if they are used again. Only pages that
nobody can write to and that are as the file has them: of others something would be lost. What the
allocator holds free at that moment goes back as well.
Where the system cannot tell of its mappings (it is not Linux), nothing happens.
"""

import ctypes
import mmap
import re

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s+(/.*)")
_HEAD = re.compile(r"[0-9a-f]+-[0-9a-f]+ ")
_SMAPS = "/proc/self/smaps"


def release_unused_pages() -> int:
    """How many bytes of the address space were given up. To be called when everything is loaded,
    and again when much was done since: it takes milliseconds."""
    advice = getattr(mmap, "MADV_DONTNEED", None)
    here = ctypes.CDLL(None)
    madvise, trim = getattr(here, "madvise", None), getattr(here, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
    if advice is None or madvise is None:
        return 0
    released = 0
    for start, end in _unchanged():
        if madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice) == 0:
            released += end - start
    return released


def _unchanged() -> list[tuple[int, int]]:
    """The mappings of files that are read or run only, and of which nothing was changed."""
    found: list[tuple[int, int]] = []
    place: tuple[int, int] | None = None
    try:
        with open(_SMAPS) as lines:
            for line in lines:
                if _HEAD.match(line):
                    head = _MAPPING.match(line)
                    place = None
                    if head is not None and "w" not in head[3]:
                        place = int(head[1], 16), int(head[2], 16)
                elif place is not None and line.startswith("Anonymous:"):
                    if line.split()[1] == "0":
                        found.append(place)
                    place = None
    except OSError:
        return []
    return found
