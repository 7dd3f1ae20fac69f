"""Values that all parts of the job share: specs and reports of lanes, counters, and views of them.

Belongs here: frozen values and sums over them. Not here: changing them (`board`, `lane`), words (`conditions`).
"""
