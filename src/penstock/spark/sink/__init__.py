"""The exactly-once sink: Spark's micro-batches written to a cluster in transactions.

Pure: `takeover.py` (a driver takes over), `batch_commit.py` (a batch is decided and ended),
`admission.py` (new or repeated batch), `task.py` (one task's rows). `cluster.py` has their requests
to a cluster. `driver.py` and `writer.py` are the shell. Comments cite these rules by number:

1  A sink has an id, which is part of every name that belongs to it.
2  A transactional id belongs to one worker process, and is used again only for a newer plan. If its
   InitProducerId was not answered, the id is never used again.
3  A driver takes over before it plans, fences older drivers, finishes the last decision and aborts
   transactions that no decision names. Before the abort, a record stored after their listing
   proves that no newer driver had begun.
4  Decision, then ends, then done; only transactions of the tasks' reports are committed.
5  A decided batch is never aborted.
6  A decided batch is skipped only if it is that very batch.
7  If rows of an unfinished decision are gone, the query stops, provided that its driver can still
   store a record: a fenced driver cannot know.
8  In a foreachBatch every write has a sink id of its own.
9  The transactions of a killed job can be recovered by its id; without an id they have a timeout.
10 Decisions live in one compacted topic, one key per sink.
11 If transactions have a timeout, a batch older than half of it is not decided.
"""
