"""What ``jupyter tpu`` and ``%tpu`` share: a session with the fleet, tables and wording."""
