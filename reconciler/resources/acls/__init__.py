"""Access rules: roles expanded to ACLs, derived from flows, compared, ordered, explained.

Belongs here: desired rules. Not here: a broker's decisions by rules (`authorizer`), checks after a change (`probe`).
"""
