"""Regular expressions that others wrote: read, judged, and matched by RE2 with names and with values of records; texts
of headers with placeholders.

Belongs here: every use of an expression that is no constant of the program. Not here: what one means as a set of names
(`resources.flows.names`).
"""
