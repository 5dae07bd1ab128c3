"""The largest numbers that Kafka's protocol has room for."""

INT16_MAX = 2**15 - 1  # factors of replication, epochs of producers
INT32_MAX = 2**31 - 1  # partitions, brokers, epochs of leaders and coordinators
INT64_MAX = 2**63 - 1  # offsets, times, producers
# int() refuses texts of thousands of digits; none of these needs as many.
DIGITS_MAX = len(str(INT64_MAX))
