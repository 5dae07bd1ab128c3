"""The version of this release, in a module without imports."""

VERSION = "0.1.0"
