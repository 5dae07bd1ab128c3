"""What a cleaning takes of memory: log.cleaner.dedupe.buffer.size and 64 MB, its whole process.

That is the promise, and it is meant as the system counts it, at the peak of the resident set: the
interpreter, numpy, the compiler's library, the kernels, the chunks under way, and the map. Where
all but the map takes more than PROCESS_BYTES_MAX, the map gets what is left, and a log with more
keys than it holds takes more passes. Half of its size the map always gets: below that the passes
would cost more than the memory is worth, and the promise ends there. It cannot hold either where
less is allowed than loading the compiled kernels takes, some 155 MiB at their peak: with a buffer,
or a thread's share of it, below 94 MiB.
A batch that is larger than a chunk, or unpacks to more, comes on top for as long as it is read.
"""

# All of the process that is not the map.
PROCESS_BYTES_MAX = 64_000_000
# Of it what is not there yet when the map is made: two chunks, what a compressed batch unpacks to,
# what is written of a chunk, the tables about it, the indexes of a segment, and pages of libraries
# that come back. 10 MiB were seen with large batches, 14 with small ones, 19 with compressed ones
# in a process that had cleaned before.
WORK_BYTES = 20 * 1024 * 1024
# A map is not made smaller than this for the sake of the rest.
MAP_BYTES_MIN = 1024 * 1024


def map_bytes(bytes_max: int, resident_bytes: int | None) -> int:
    """What the map may take of the `bytes_max` that the order allows, in a process that has
    `resident_bytes` before it makes one (None: the system does not tell)."""
    if resident_bytes is None:
        return bytes_max
    left = bytes_max + PROCESS_BYTES_MAX - WORK_BYTES - resident_bytes
    return min(bytes_max, max(left, bytes_max // 2, MAP_BYTES_MIN))
