"""What `status` shows: clusters, mirrors, flows, lag, the lock, the rollout; once or live.

Belongs here: tables and words of the status. Not here: reading it (`backends.mirror_jobs.status`).
"""
