"""Access rules: roles expanded to ACLs, derived from flows, compared, ordered, explained.

Belongs here: what should be allowed. Not here: what a broker would answer (`authorizer`), looking afterwards (`probe`).
"""
