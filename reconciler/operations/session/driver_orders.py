"""Orders to a driver in deploy mode cluster, from a machine that does not follow it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from reconciler.backends.mirror_jobs.pause_records import write_records
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.model.environment.topology import Principal
from reconciler.model.live import LiveMirror
from reconciler.replication.names import status_key
from reconciler.replication.runs.driver_records import ORDERS, RunOrders, run_key


def order_stop(records: Mapping[str, StatusRecords], principal: Principal, reported: LiveMirror) -> None:
    """On the cluster that has its status record. What follows it keeps the order with its own. Raises ClusterError."""
    for each in records.values():
        newest = each.read_all(int(time.time() * 1000)).get(reported.name)
        if isinstance(newest, LiveMirror) and newest.run == reported.run:
            key = run_key(status_key(each.environment, reported.name), reported.run, "orders")
            write_records(each.cluster, principal, {key: ORDERS.dumps(RunOrders(stop=True))})
