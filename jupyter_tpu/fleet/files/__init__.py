"""Files between this computer and hosts: copy, sync, browse, and shared folders of pods.

What is there already is not sent again, so either can be interrupted and repeated.
"""
