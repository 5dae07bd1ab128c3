"""The loops over records and batches, for asyncio and for threads."""
