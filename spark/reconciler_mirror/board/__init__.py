"""What the driver knows of its flows: partitions, progress, conditions, shares of rates, lanes without a task.

Belongs here: state that several threads of the driver share. Not here: what is done about it (`driver`, `leases`).
"""
