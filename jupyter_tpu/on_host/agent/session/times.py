"""Times as a person reads them."""

import time


def local_time(seconds):
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
