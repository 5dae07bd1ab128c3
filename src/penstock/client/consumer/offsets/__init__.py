"""Offsets of a consumer: tracked while records are handled, looked up, committed."""
