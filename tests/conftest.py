"""What holds for every test.

Property tests have no deadline: how long an example takes says how busy the machine is. The
timeout of pytest bounds them all. Signals that this process was started to ignore (nohup) are
ignored by it alone: a process that a test starts has them as any other.
"""

import signal

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

for _number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)
