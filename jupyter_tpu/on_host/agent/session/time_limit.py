"""Gives up what runs too long in the main thread, where that can be interrupted."""

import contextlib
import signal
import threading


class TookTooLong(BaseException):
    """Not an `Exception`, which the interrupted code may expect and ignore."""


@contextlib.contextmanager
def time_limit(seconds):
    """Raises `TookTooLong` in the code inside after so many seconds; 0: never.

    Without effect in other threads than the main one. A timer of the user's own goes on after.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(number, frame):
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, give_up)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)
