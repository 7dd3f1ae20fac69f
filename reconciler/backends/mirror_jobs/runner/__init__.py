"""Runs a mirror job as spark-submit under a supervisor process that outlives the CLI.

Belongs here: processes, run folders, command lines, replacing one application by another. Not here: reading status
(`status`).
"""
