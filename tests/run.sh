#!/bin/sh
# All tests, in shares at the same time, because much of a test is waiting for a broker. Each share has its own
# clusters, and none of the clusters is started for what needs no broker. Conformance leaves users and quotas on them, which
# commands that read whole clusters (adopt, the workflows) would find: so they are in different shares.
set -u
# A run on the same commit tries the same things: docs/decisions/tests/0220-the-same-examples-each-time.md
export HYPOTHESIS_PROFILE="${HYPOTHESIS_PROFILE:-repeatable}" PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
echo "HYPOTHESIS_PROFILE=$HYPOTHESIS_PROFILE PYTHONHASHSEED=$PYTHONHASHSEED"
unset PYTHONDONTWRITEBYTECODE # each of some thousand processes would compile all that it imports
cd "$(dirname "$0")/.."
python=.venv/bin/python
brokers="kafka or spark"
logs=$(mktemp -d)
mkdir "$logs/tmp"
shares=

share() { # NAME PROCESSES ARGUMENTS: a process that crashes (librdkafka can) is replaced, and its test named
    name=$1 processes=$2
    shift 2
    (
        exec $command -m pytest -n "$processes" --durations=25 -o cache_dir="$logs/cache/$name" \
            --basetemp "$logs/tmp/$name" "$@" # of its own: sessions that share one remove each other's folders
    ) >"$logs/$name" 2>&1 &
    shares="$shares $name:$!"
}

trap 'for each in $shares; do kill "${each#*:}" 2>/dev/null; done; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
# Tests that only compute fill the time in which others wait for brokers. They crash nothing, so that no second process
# has to hand out tests and take outcomes.
command="nice -n 5 $python"
share reconciler 0 -m "not ($brokers) and not long" tests/reconciler
share others 0 -m "not ($brokers) and not long" tests --ignore tests/reconciler
command=$python
$python -m tests.support.jobs.class_archive
long_ones_out="($brokers) and not long" # make test-clusters runs those
# The clusters with users are started in two shares alone, "spark" and "brokers"; what starts Spark ends both of the first.
spark="tests/conformance tests/interop tests/reconciler tests/e2e/test_wheel.py tests/e2e/mirror/test_failover_rights.py
    tests/mirror/clients/test_mechanisms.py tests/mirror/driver/test_rights.py tests/mirror/groups/test_rights.py
    tests/e2e/spark/test_cutover.py tests/e2e/spark/test_mirror_job.py"
mirror="tests/mirror/conditions tests/mirror/driver tests/mirror/verify tests/e2e/mirror/test_killed_failover.py tests/e2e/spark"
lanes="tests/mirror/lane tests/mirror/record_work tests/mirror/groups tests/mirror/report tests/mirror/cluster_mode
    tests/mirror/leases tests/workflows"
without() { printf -- ' --ignore %s' "$@"; } # what another share has
share spark 1 -m "$long_ones_out" $spark
share mirror 1 -m "$long_ones_out" $mirror $(without $spark)
share lanes 1 -m "$long_ones_out" $lanes $(without $spark)
share brokers 1 -m "$long_ones_out" tests $(without $spark $mirror $lanes)

failed=
unfit=
for each in $shares; do
    name=${each%%:*}
    wait "${each#*:}"
    code=$? # 5: nothing was collected, which is no success either
    cat "$logs/$name"
    echo "share $name ended with $code"
    [ $code -eq 0 ] || failed="$failed $name"
    [ $code -le 1 ] || unfit="$unfit $name" # no test failed here: the run itself did
done
shares=
[ -n "$failed" ] || exit 0
echo "failed:$failed" >&2

# What failed beside the others runs once more, alone, and is named either way: docs/decisions/tests/0106-failed-tests-again.md
[ -z "$unfit" ] && $python -m tests.support.failed_tests "$logs/cache" >"$logs/again" || exit 1
code=0
$python -m pytest @"$logs/again" || code=1
echo "Failed beside the others (see above), and alone $([ $code -eq 0 ] && echo passed || echo "failed, all or some"):" >&2
cat "$logs/again" >&2
exit $code
