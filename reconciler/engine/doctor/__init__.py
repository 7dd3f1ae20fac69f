"""Judges facts about clusters, machines and permissions: what works, what does not, what to do about it.

Belongs here: findings as values. Not here: gathering the facts (`operations.clusters.doctor`, `backends`).
"""

from reconciler.engine.doctor.clusters import cluster_findings
from reconciler.engine.doctor.executors import executor_findings
from reconciler.engine.doctor.executors_of_tasks import task_findings
from reconciler.engine.doctor.flows import flow_findings, remote_findings
from reconciler.engine.doctor.machine import machine_findings, metrics_findings, spark_cluster_findings
from reconciler.engine.doctor.permissions import asks, permission_findings
from reconciler.engine.doctor.spark_master import master_findings

__all__ = [
    "asks",
    "cluster_findings",
    "executor_findings",
    "flow_findings",
    "machine_findings",
    "master_findings",
    "metrics_findings",
    "permission_findings",
    "remote_findings",
    "spark_cluster_findings",
    "task_findings",
]
