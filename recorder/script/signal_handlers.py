"""Exceptions that a handler of a signal raised while the recorder happened to be running: they are the script's own.

torch's DataLoader, for one, tells of a dead worker by raising from its handler of SIGCHLD, wherever the process stands.
"""

import signal


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether a Python handler of a signal is among the frames that the exception came through."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    where = error.__traceback__
    while where is not None:
        if where.tb_frame.f_code in handlers:
            return True
        where = where.tb_next
    return False
