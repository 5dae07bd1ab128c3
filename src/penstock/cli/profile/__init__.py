"""`penstock profile`: clusters by name, in a file of the user's."""
