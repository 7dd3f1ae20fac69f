"""Measures the mirror job beside MirrorMaker 2: same brokers, same data, one run.

Linux only, because CPU time is read from /proc. Knows the reconciler only as its users do, by its commands.
"""
