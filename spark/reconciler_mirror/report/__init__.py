"""What the job tells the outside: status record, metrics, latency, losses.

Belongs here: one frozen view in each format. Not here: conditions (`conditions`).
"""
