"""Broker processes: configuration, certificates, ports, start, stop, and cleaning up after a killed owner.

Belongs here: one cluster of processes. Not here: fetching jars (`install`).
"""
