"""Ray on the hosts of a TPU: Ray's own programs, as a job that runs on all hosts.

Placing tasks, retrying them and their results are Ray's business; nothing of that is here.
"""
