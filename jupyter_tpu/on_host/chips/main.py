"""The calls about a machine's chips."""

from ..calls.processes import serve
from . import holders
from .machine import describe_machine

CALLS: dict = {**holders.CALLS, "describe_machine": describe_machine}


def main():
    serve(CALLS)
