"""`penstock start --nodes N`: the nodes of a cluster as processes of one command."""
