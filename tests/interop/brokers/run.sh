#!/bin/sh
# What must hold with older brokers, release after release: `make test-brokers`. The clusters of these tests are of the
# release that SANDBOX_KAFKA names. docs/begin/kafka-versions.md says what came of it.
set -u
cd "$(dirname "$0")/../../.."
python=.venv/bin/python
code=0

run() { # SANDBOX_KAFKA TESTS
    echo "== Kafka $1"
    SANDBOX_KAFKA=$1
    export SANDBOX_KAFKA
    shift
    $python -m pytest -q -m "kafka or spark" -k "not fake" "$@" || code=1
}

# Reading and changing topics, access rules, quotas, users and factors; pauses and status; doctor.
reconciler="tests/conformance tests/e2e/test_doctor.py tests/reconciler/backends/state/test_lock.py
    tests/reconciler/replication/records/test_on_brokers.py
    tests/reconciler/backends/clusters/test_marker_rights.py tests/reconciler/backends/clusters/test_copy_facts.py"
# Exactly once with killed lanes and brokers, equal bytes, offsets of groups; then the real job with awkward records.
mirror="tests/mirror/lane/produce/test_exactly_once.py tests/mirror/lane/test_byte_equality.py tests/mirror/groups"
job="tests/e2e/spark/test_mirror_job.py::test_awkward_records_are_equal_on_both_sides"
# Markers that the mirror writes itself, holders that compete, brokers that are killed, restarted, elected uncleanly.
# The plan refuses targets before 3.0.
same="tests/mirror/lane/same_offsets/test_on_brokers.py tests/mirror/lane/same_offsets/test_restarted_brokers.py
    tests/mirror/lane/same_offsets/test_unclean_elections.py tests/mirror/clients/test_secure.py"

for release in ${RELEASES:-4.3.0 3.9.1 3.3.2 2.8.2}; do
    # shellcheck disable=SC2086 # each is a list
    run "$release" $reconciler $mirror $job
    # shellcheck disable=SC2086
    case $release in 2.*) ;; *) run "$release" $same ;; esac
    run "east=$release" $job
    run "west=$release" $job
done
run "" tests/e2e/spark/test_rolling_upgrade.py
echo "== kfake"
$python -m pytest -q tests/interop/brokers/kfake/with_kfake.py || code=1
exit $code
