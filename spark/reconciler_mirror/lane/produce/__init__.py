"""Sends batches of a lane, throttled where asked, and reads the results partition by partition.

Belongs here: the target side of a lane. Not here: committing (`lane.transactional`).
"""
