"""What can be wrong with a topology; each text says what to write instead."""


class StreamsError(Exception):
    """Any problem of a Streams application."""


class TopologyError(StreamsError):
    """The topology does not hold together: a field that is not there, a name that is taken."""


class NotOffered(StreamsError):
    """Kafka Streams has it, Spark cannot do it: the text says what can be done instead."""


class TracingError(StreamsError):
    """A lambda did something with a stand-in that has no meaning for a column."""


class QueryFailed(StreamsError):
    """A running query stopped with an error."""


class RecordFailed(StreamsError):
    """A function of the application raised an error for a record, and bad records are fatal."""
