"""Returns memory to the system that was needed only to load libraries and to compile.

LLVM's code and constants are about 80 MB of file pages, read while kernels are loaded and not
needed to run them. Most pages of numpy's libraries and of Python are needed at the start only. The
system would take them back under memory pressure, but statistics and limits count them for this
process. MADV_DONTNEED drops them; they return from their file on use. Only read-only, unchanged
file pages are dropped, because others would lose data. The allocator's free memory goes back as
well. Without Linux's list of mappings nothing happens.
"""

import ctypes
import mmap
import re

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s+(/.*)")
_HEAD = re.compile(r"[0-9a-f]+-[0-9a-f]+ ")
_SMAPS = "/proc/self/smaps"


def release_unused_pages() -> int:
    """Drop unused pages; return the bytes of address space. Call it when everything is loaded, and
    after heavy work: it takes milliseconds."""
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
    """Return the read-only mappings of files without changed pages."""
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
