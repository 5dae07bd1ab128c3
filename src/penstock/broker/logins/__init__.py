"""Logins by SASL on the listeners of a node: their settings, their counts, and their sessions."""
