"""Delivery reports, and the records that were not delivered."""
