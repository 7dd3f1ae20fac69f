"""Mirror jobs as processes and as status records.

Belongs here: starting, stopping, observing Spark applications, pause records. Not here: the job itself
(`spark/reconciler_mirror`).
"""
