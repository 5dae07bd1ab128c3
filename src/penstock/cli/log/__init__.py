"""`penstock log`: log directories, background tasks of a node, and files of a data directory."""
