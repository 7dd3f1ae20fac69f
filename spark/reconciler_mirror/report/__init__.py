"""The job's reports to the outside: status record and metrics.

Belongs here: one frozen view in each format. Not here: conditions (`conditions`).
"""
