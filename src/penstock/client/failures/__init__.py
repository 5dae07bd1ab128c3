"""Every failure of the clients, one class each, with the next step in its text.

kinds.py        the base, and the failures of these clients
local.py        the errors of librdkafka itself, one class per code
translate.py    librdkafka's errors as these classes, and questions about any of them
reference.py    writes docs/reference/errors.md
"""

from penstock.client.failures import kinds, local
from penstock.client.failures.kinds import *  # noqa: F403 - each module lists its classes
from penstock.client.failures.local import *  # noqa: F403
from penstock.client.failures.translate import (
    from_rdkafka,
    is_fatal,
    is_refusal,
    is_retriable,
    next_step,
    refusal_about,
    requires_abort,
)
from penstock.errors import KafkaError
from penstock.next_steps import NEXT_STEPS

__all__ = [
    "NEXT_STEPS",
    "KafkaError",
    "from_rdkafka",
    "is_fatal",
    "is_refusal",
    "is_retriable",
    "next_step",
    "refusal_about",
    "requires_abort",
]
__all__ += kinds.__all__
__all__ += local.__all__
