"""`penstock topic`: topics, their settings, and where their logs begin and end."""
