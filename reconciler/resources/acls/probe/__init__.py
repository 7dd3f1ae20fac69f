"""After each batch of ACL changes: what the cluster shows, who may do what by it, and whether we still may.

Belongs here: judging a batch (the rules of one stage on one cluster, a thousand at most) and undoing one that fails.
Not here: which changes there are and in which order (`resources.acls.kind`).
"""
