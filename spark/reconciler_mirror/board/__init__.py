"""What the driver knows of its flows: partitions, progress, conditions, shares of rates, lanes without a task.

Belongs here: state that several threads of the driver share. Not here: acting on it (`driver`, `leases`).
"""
