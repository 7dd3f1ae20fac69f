"""A Kubernetes of this machine for tests: a real API server, and in place of nodes what runs pods as processes.

Belongs here: what starts and asks the server, and what runs pods. Not here: what is run in them.
"""
