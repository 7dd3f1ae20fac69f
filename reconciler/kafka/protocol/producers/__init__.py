"""Who writes to a partition, and transaction markers written to it, as its leader is asked.

Belongs here: requests about producers to leaders. Not here: a producer's own transactions (`protocol.transactions`).
"""
