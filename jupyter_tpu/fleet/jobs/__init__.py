"""Commands on hosts: runs, jobs that continue without a link, guards, and profiles.

Their output is kept on the hosts until somebody reads it.
"""
