"""Every failure of the clients, one class each, with the next step in its text.

kinds.py        the base, and the failures of these clients
local.py        the errors of librdkafka itself, one class per code
translate.py    librdkafka's errors as these classes, and questions about any of them
"""

from penstock.client.failures.kinds import *  # noqa: F403 - all names of the three are public
from penstock.client.failures.local import *  # noqa: F403
from penstock.client.failures.translate import *  # noqa: F403
from penstock.errors import KafkaError as KafkaError
from penstock.next_steps import NEXT_STEPS as NEXT_STEPS
