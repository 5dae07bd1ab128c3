"""Record batches as bytes, read and written at the leaders of their partitions.

What pipelines on Spark and the test kit stand on; librdkafka is not needed.

reading.py      ranges of offsets; fetching.py: its requests; course.py: how far each has come
writing.py      ready batches until they are acknowledged; lane.py: in order, per partition
produce_parts.py  a Produce request around batches, which stay where they are
transacting.py  producer ids and transactions
leaders.py      who leads each partition, and whether a topic is still the one it was
outcomes.py     how all of it can end other than well
"""
