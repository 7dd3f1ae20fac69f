#!/bin/sh
# All tests, in three shares at the same time, because much of a test is waiting for a broker. Each share has its own
# clusters.
set -u
cd "$(dirname "$0")/.."
python=.venv/bin/python
second="tests/wire tests/conformance tests/sandbox"
third="tests/spark tests/translation tests/interop tests/runner"
first=
for folder in tests/*/; do # a new folder of tests is never forgotten
    folder=${folder%/}
    case " $second $third tests/__pycache__ " in *" $folder "*) ;; *) first="$first $folder" ;; esac
done

logs=$(mktemp -d)
$python -m pytest --durations=25 $second >"$logs/second" 2>&1 &
second_run=$!
$python -m pytest --durations=25 $third >"$logs/third" 2>&1 &
third_run=$!
trap 'kill $second_run $third_run 2>/dev/null; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
$python -m pytest --durations=25 $first
failed=$?
wait $second_run || failed=1
cat "$logs/second"
wait $third_run || failed=1
cat "$logs/third"
[ $failed -eq 0 ]
