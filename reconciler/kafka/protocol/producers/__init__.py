"""Active producers of a partition, and transaction markers, by requests to its leader.

Belongs here: requests about producers to leaders. Not here: a producer's own transactions (`protocol.transactions`).
"""
