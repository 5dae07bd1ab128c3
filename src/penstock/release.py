"""The version of this release, and the name of its nodes, in a module without imports."""

VERSION = "0.1.0"
NODE_SOFTWARE_NAME = "penstock-node"  # in ApiVersions: nodes serve each other more than clients
