"""The largest numbers of Kafka's protocol."""

INT16_MAX = 2**15 - 1  # factors of replication, epochs of producers
INT32_MAX = 2**31 - 1  # partitions, brokers, epochs of leaders and coordinators
INT64_MAX = 2**63 - 1  # offsets, times, producers
# int() rejects texts of thousands of digits; no valid number is that long.
DIGITS_MAX = len(str(INT64_MAX))
