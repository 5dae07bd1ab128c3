"""The group and transaction coordinators of this node, and the logs under them."""
