"""Users' regular expressions: parsed, checked, and matched by RE2 with names and values of records; and header texts
with placeholders.

Belongs here: every use of an expression that is no constant of the program. Not here: expressions as sets of names
(`resources.flows.names`).
"""
