"""Servers of models: jobs whose keepers look after their health, and the ports here that lead to
them.
"""
