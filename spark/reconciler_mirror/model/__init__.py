"""Values that all parts of the job share: what a lane is given and reports, counters, and the views made of them.

Belongs here: frozen values and sums over them. Not here: changing them (`board`, `lane`), words (`conditions`).
"""
