"""Topics and configs: desired values from layers and flows, compared with the live ones.

Belongs here: creation, partitions, configs, deletion. Not here: replicas of existing topics (`resources.replicas`).
"""
