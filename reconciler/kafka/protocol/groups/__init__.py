"""Requests to the coordinators of groups: which there are, their members, their offsets.

Belongs here: ListGroups, DescribeGroups, OffsetFetch, OffsetCommit and what share groups have instead. Not here: what
is committed within a transaction (`protocol.transactions`).
"""
