"""Which signals the supervisor takes, and how it waits for them.

They are blocked, not handled: blocked signals wait in the kernel until sigwaitinfo takes them, with the word on who
sent them.
"""

import os
import signal

FORWARDED = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT})
"""Meant for the script. A terminal sends SIGINT, SIGQUIT and SIGHUP to the script itself: these are not sent twice."""

WATCHED = FORWARDED | {signal.SIGCHLD, signal.SIGWINCH}

SI_USER = 0
"""si_code of a signal that a process sent has this value or a lower one (sigaction(2)); the kernel's own are above."""


def block() -> set[signal.Signals]:
    """Block WATCHED in this thread, and in every thread it starts; returns the mask of before, for the script.

    Call it before importing pyarrow and numpy: they start threads, and a thread that does not block a signal takes
    it with its default action, which would end the supervisor in front of its script.
    """
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # a parent that ignores it would take our script's status away from us
    return {signal.Signals(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED) if s in set(signal.Signals)}


def to_us_alone(info: signal.struct_siginfo) -> bool:
    """Whether the script has not got it too.

    The terminal's signals go to its whole foreground group, and the script is in ours; only its hangup goes to the
    leader of the session alone. What somebody sends with kill is for us to hand on.
    """
    if info.si_code <= SI_USER:
        return True
    return info.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
