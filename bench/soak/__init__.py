"""``make soak``: the mirror under transactional load while faults come and go, on real brokers.

Belongs here: faults as values, the load, the comparison of both logs, what status said meanwhile. Not here: brokers
(`reconciler_sandbox`), processes and proxies (`bench.processes`).
"""
