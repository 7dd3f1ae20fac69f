"""Facts -> findings: what of an environment works, what does not, and what to do about it. Nothing is asked here."""

from reconciler.diagnosing.clusters import cluster_findings
from reconciler.diagnosing.flows import flow_findings
from reconciler.diagnosing.machines import machine_findings
from reconciler.diagnosing.permissions import asks, permission_findings

__all__ = ["asks", "cluster_findings", "flow_findings", "machine_findings", "permission_findings"]
