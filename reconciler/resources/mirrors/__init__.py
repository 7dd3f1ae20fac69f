"""Mirror jobs as a resource: the hand-over and its fingerprint, start, restart, stop, pause, seek.

Belongs here: when a job must restart and why. Not here: starting it (`backends.mirror_jobs`), the job
(`spark/reconciler_mirror`).
"""
