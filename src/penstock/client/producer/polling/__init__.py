"""Polling librdkafka for delivery reports, for asyncio and for threads."""
