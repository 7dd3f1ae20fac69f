"""Deploy mode cluster: a driver that Spark runs on a machine of its own choice, and the process that follows it.

Belongs here: the records of a run, the driver's side of them, submitting and following. Not here: copying (`lane`).
"""
