"""Chooses brokers for replicas: racks first, then load, with as few moves as possible.

Belongs here: how replicas are placed. Not here: carrying out the moves (`reassign`).
"""
