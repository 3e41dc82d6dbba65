"""What all subjects of the fleet stand on: what is stored, what is observed, how operations run.

Desired state is kept in SQLite by one writer; observed state comes from Google and the hosts.
"""
