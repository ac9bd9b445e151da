"""Every exception of the package. All derive from PairstreamError, so that a caller can tell them from its own."""

from __future__ import annotations


class PairstreamError(Exception):
    """The base of all exceptions of this package."""


class SettingError(PairstreamError, ValueError):
    """A setting has a value that cannot be used; the message names it, its value and what is wanted."""


class RecordError(PairstreamError, ValueError):
    """Bytes or values that are no record. A record of a topic that raises this belongs among the dead letters."""


class MalformedError(RecordError):
    """The bytes are not well-formed msgpack, or pass the limits on what is read."""


class InvalidError(RecordError):
    """A value of a record has the wrong type or lies out of its range."""


class UnknownSchemaError(RecordError):
    """The schema header names a type or a major version that this package does not know."""


class BrokerError(PairstreamError):
    """The brokers refused a request for good: no such topic, no permission, a failed log-in."""


class GapError(PairstreamError):
    """The log has lost records: a sequence number is skipped, or retention has removed what is wanted."""


class ReadTimeout(PairstreamError, TimeoutError):
    """No record arrived within the timeout: the lane is idle, or no broker can be reached."""


class DeliveryError(PairstreamError):
    """A record was not acknowledged by the brokers: refused, or not delivered within the timeout."""


class EndedError(PairstreamError):
    """The crawl of a lane has ended with a final seal, and nothing may follow it."""


class ImageError(PairstreamError):
    """An image cannot be had, and asking again gives the same answer: missing, cut short, other bytes, no image."""


class CheckpointError(PairstreamError):
    """A checkpoint is damaged, belongs to another run, or another job is using its folder."""


class NotFiniteError(PairstreamError, ArithmeticError):
    """A loss is no finite number; the weights are as they were before the step."""


class BucketError(PairstreamError):
    """A bucket could not be read within the timeout: a fault that may pass."""


class BoardError(PairstreamError):
    """MLflow or Weights & Biases took no reports: its client has failed, and says why."""
