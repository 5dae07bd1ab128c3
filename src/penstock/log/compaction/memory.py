"""The memory limit of a cleaning process: log.cleaner.dedupe.buffer.size plus 64 MB.

The limit holds for the peak of the resident set: interpreter, numpy, the compiler's library,
kernels, chunks in flight, and the map. If everything but the map exceeds PROCESS_BYTES_MAX, the map
shrinks, and a log with many keys takes more passes. The map never shrinks below half of its size,
where passes would cost more than memory; the limit ends there. Loading the compiled kernels peaks
at about 155 MiB. So a buffer, or a thread's share of one, below 94 MiB cannot keep the limit
either. A batch larger than a chunk, packed or unpacked, comes on top while it is read.
"""

# The process without the map.
PROCESS_BYTES_MAX = 64_000_000
# The part of that which is allocated after the map: two chunks, an unpacked batch, the output of a
# chunk, tables, the indexes of a segment, and reloaded library pages. Measured: 10 MiB with large
# batches, 14 with small ones, 19 with compressed ones in a warm process.
WORK_BYTES = 20 * 1024 * 1024
# The map never shrinks below this size.
MAP_BYTES_MIN = 1024 * 1024


def map_bytes(bytes_max: int, resident_bytes: int | None) -> int:
    """Return the share of `bytes_max` for the map, in a process with `resident_bytes` before the
    map exists (None: unknown)."""
    if resident_bytes is None:
        return bytes_max
    left = bytes_max + PROCESS_BYTES_MAX - WORK_BYTES - resident_bytes
    return min(bytes_max, max(left, bytes_max // 2, MAP_BYTES_MIN))
