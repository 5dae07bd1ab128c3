"""`penstock produce`: lines, JSON or whole files become records."""
