"""Rollouts over several regions: waves in order, health gates, soak times, and resuming an interrupted one.

Belongs here: when a wave may begin and when it is done. Not here: carrying out its changes (`engine.apply`).
"""
