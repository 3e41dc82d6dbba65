"""What runs on a host: the daemon, the keepers, and the journal that both ends speak.

Standard library only, Python 3.8 or newer (a keeper also needs pyzmq, from its environment); the
sources travel to hosts as a bundle. Nothing here knows anything of the rest of jupyter_tpu.
"""
