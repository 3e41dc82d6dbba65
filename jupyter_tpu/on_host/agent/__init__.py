"""What runs on a host: the daemon, the keepers, and the journal protocol that both ends use.

It needs Python 3.8 and the standard library; a pod kernel's conductor also needs pyzmq, from its
environment. The sources travel to hosts as a bundle and import nothing else of jupyter_tpu.
"""
