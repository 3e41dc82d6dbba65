"""Files between this computer and hosts: copy, sync, browse, and shared folders of pods."""
