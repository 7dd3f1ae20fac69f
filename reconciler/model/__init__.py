"""Frozen values that the whole program shares: what git declares, what clusters have, what a plan holds.

Belongs here: data and the ports of backends. Not here: decisions (`engine`, `resources`).
"""
