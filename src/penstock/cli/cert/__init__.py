"""`penstock cert`: certificates of an authority of one's own, and of running nodes."""
