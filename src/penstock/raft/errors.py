"""Errors that keep the quorum from starting, with next steps in their texts."""


class QuorumError(Exception):
    """The metadata quorum cannot start or go on."""


class NotServedYet(QuorumError):
    """Legal in Kafka, and not offered here so far."""


class NotAVoter(QuorumError):
    """The metadata log names other voters than this node."""


class QuorumFilesCorrupt(QuorumError):
    """A file of the quorum is not what it should be."""


class CommittedTruncation(QuorumError):
    """A leader asked for a truncation of committed records."""
