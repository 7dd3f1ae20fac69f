"""Machines with mirror hosts, and releases of the program that run on them.

Belongs here: what tests start as hosts and commands. Not here: jobs without a host.
"""
