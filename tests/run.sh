#!/bin/sh
# All tests, in two halves at the same time, because much of a test is waiting for a broker. Each half has its own clusters.
set -u
cd "$(dirname "$0")/.."
python=.venv/bin/python
second="tests/wire tests/conformance tests/runner tests/sandbox tests/translation tests/interop tests/authorizing"
first=
for folder in tests/*/; do # a new folder of tests is never forgotten
    folder=${folder%/}
    case " $second tests/__pycache__ " in *" $folder "*) ;; *) first="$first $folder" ;; esac
done

log=$(mktemp)
$python -m pytest --durations=25 $second >"$log" 2>&1 &
half=$!
trap 'kill $half 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
$python -m pytest --durations=25 $first
failed=$?
wait $half || failed=1
cat "$log"
[ $failed -eq 0 ]
