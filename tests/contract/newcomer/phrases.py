"""Fifty tasks in the words a maintainer would use, each with the modules where the work begins."""

PHRASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    # What git declares.
    ("fields of a topic in YAML", ("environment/declarations/topics.py", "model/environment/topology.py")),
    ("line numbers in validation errors", ("environment/yaml/locations.py", "environment/yaml/nodes.py")),
    ("secrets from environment variables", ("replication/secret_references.py", "backends/connections/credentials.py")),
    ("adopt an existing cluster into YAML", ("operations/adopt/run.py", "environment/adopt/write.py")),
    ("import MirrorMaker 2 properties", ("environment/importers/mirrormaker/properties_file.py",)),
    # The plan.
    ("order in which changes are applied", ("engine/plan/order.py",)),
    ("format of the saved plan file", ("engine/plan/file.py",)),
    ("a cluster that does not answer becomes unknown", ("engine/observe/read_all.py", "model/live.py")),
    ("what drift calls edited outside", ("engine/drift/causes.py",)),
    ("unmanaged topics and the prune list", ("resources/prune.py",)),
    ("soak time between rollout waves", ("engine/rollout/run.py",)),
    ("doctor checks the permissions of a principal", ("engine/doctor/permissions.py",)),
    ("how the HTML plan shows risk", ("render/plan/html.py", "resources/topics/kind.py")),
    ("add a command to the CLI", ("cli/main.py", "cli/commands/__init__.py")),
    # Kinds of resources.
    ("how replicas are placed", ("resources/replicas/placement.py",)),
    ("rotate a SCRAM password", ("resources/users/diff.py", "backends/clusters/users.py")),
    ("quota of a client id", ("resources/quotas/diff.py", "model/principals.py")),
    ("which ACLs a consumer role needs", ("resources/acls/roles.py",)),
    ("undo a failed ACL batch", ("resources/acls/probe/verdict.py",)),
    ("topic config sync from source to target", ("resources/topics/expected.py",)),
    ("loops between flows", ("resources/flows/loops.py",)),
    ("when a config change restarts the mirror job", ("resources/mirrors/diff.py", "resources/mirrors/handover.py")),
    # Clusters and machines.
    ("change the lock lease", ("model/state/lock.py", "backends/state/lock.py")),
    ("audit log topic", ("backends/state/audit.py",)),
    ("create topics in batches", ("backends/clusters/topics/write.py", "backends/clusters/topics/batches.py")),
    ("spark-submit command line", ("backends/mirror_jobs/runner/command_line.py",)),
    (
        "start the sandbox brokers",
        ("reconciler_sandbox/brokers/up_down.py", "reconciler_sandbox/brokers/start_stop.py"),
    ),
    # Kafka's protocol.
    ("a new SASL mechanism", ("kafka/client/auth/sasl.py",)),
    ("fencing of a transactional id", ("kafka/client/transactions.py", "reconciler_mirror/driver/takeover.py")),
    ("decode a record batch", ("kafka/records/batches.py", "kafka/records/records.py")),
    # What both programs agree on.
    ("name of the remote topic", ("replication/policy.py",)),
    ("filter records by a header", ("replication/expressions/record_filter.py",)),
    (
        "a bug in group offset translation",
        ("replication/offsets/translate.py", "operations/failover/survey.py"),
    ),
    ("move consumer groups at failover", ("operations/failover/steps.py", "operations/failover/run.py")),
    (
        "pause a flow",
        ("resources/mirrors/pause_and_seek.py", "operations/mirror/pause.py", "replication/records/pauses.py"),
    ),
    # The mirror job.
    ("retry of a lane's commit", ("reconciler_mirror/lane/transactional.py", "reconciler_mirror/lane/run.py")),
    ("add a metric of a flow", ("reconciler_mirror/report/metrics.py",)),
    ("assign lanes to Spark tasks", ("reconciler_mirror/leases/lanes.py",)),
    ("discover new partitions of a source topic", ("reconciler_mirror/driver/discovery.py",)),
    (
        "compare records of source and target",
        ("reconciler_mirror/verify/dataframes.py", "reconciler_mirror/verify/in_order/walk.py"),
    ),
    # A mirror, from its start to its lag.
    ("where a job is started", ("mirror_jobs/runner/spark_submit.py", "mirror_jobs/host/jobs.py")),
    ("who owns this mirror", ("mirror_jobs/host/keeper.py", "operations/session/mirror_runners.py")),
    ("which host runs a mirror", ("operations/session/mirror_runners.py",)),
    ("restart a mirror by takeover", ("reconciler_mirror/driver/takeover.py",)),
    ("create remote topics for new source topics", ("reconciler_mirror/driver/discovery.py",)),
    (
        "position of a flow in its source topic",
        ("reconciler_mirror/lane/positions.py", "reconciler_mirror/lane/start.py"),
    ),
    ("sync group offsets while mirroring", ("reconciler_mirror/groups/sync.py",)),
    (
        "why a partition is stalled",
        ("reconciler_mirror/conditions/lane.py", "reconciler_mirror/conditions/positions.py"),
    ),
    ("lag of a flow", ("reconciler_mirror/board/flow_state.py",)),
    ("oldest unread record of a flow", ("reconciler_mirror/board/flow_state.py",)),
)
