"""Logins of peers and the rights of principals, as pure decisions: no I/O, no clock."""
