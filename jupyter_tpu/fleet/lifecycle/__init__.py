"""The life of a TPU: create, queue, connect, start, stop, delete; and attached machines.

What is asked for is stored before Google is called, and carried on by the next process.
"""
