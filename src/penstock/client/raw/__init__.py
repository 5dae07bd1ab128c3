"""Record batches as bytes, read and written at the leaders of their partitions.

For pipelines on Spark and the test kit; librdkafka is not needed.

range_reader.py    reads ranges of offsets
fetch_requests.py  the Fetch requests of a reader
range_progress.py  the progress of one range, and its limits
batch_writer.py    sends ready batches until they are acknowledged
partition_queue.py the batches of one partition, in order
produce_parts.py   a Produce request around batches, without copying them
transactions.py    producer ids and transactions
leaders.py         the leader of each partition, and whether its topic was recreated
outcomes.py        one exception per way to fail
"""
