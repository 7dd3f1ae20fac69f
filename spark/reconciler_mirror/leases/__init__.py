"""Hands lanes to Spark tasks and renews them over the control channel; moves them when a task is lost.

Belongs here: assignment, renewal, reports between task and driver. Not here: copying (`lane`).
"""
