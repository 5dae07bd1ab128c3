"""What holds for every test.

Property tests have no deadline: how long an example takes says how busy the machine is. The
timeout of pytest bounds them all.
"""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
