"""Which partition of an internal topic is responsible for a group or a transactional id."""

_SIGN = 0x80000000


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, with the overflow of a signed 32-bit number."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result - 0x1_0000_0000 if result & _SIGN else result


def partition_for(name: str, partitions: int) -> int:
    """As Kafka's clients and tools find it; the one number without a positive twin counts as 0."""
    hashed = java_hash(name)
    return (0 if hashed == -_SIGN else abs(hashed)) % partitions
