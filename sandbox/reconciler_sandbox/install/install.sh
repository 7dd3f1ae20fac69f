#!/bin/sh
# Makes .venv with the locked packages and the project in it, and fetches Kafka's jars. Quick when nothing changed.
set -eu
cd "$(dirname "$0")/../../.."

suits() { # a Python that the locked packages are for
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
}

python=
without_venv=
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 && suits "$candidate"; then
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            python=$candidate
            break
        fi
        without_venv=${without_venv:-$candidate}
    fi
done

if [ -z "$python" ]; then
    if [ -n "$without_venv" ]; then
        echo "Python's venv module is missing for $without_venv" >&2
        echo "Install it: apt-get install python3-venv" >&2
    else
        echo "Python 3.11 to 3.14 is missing; python3 is $(python3 -V 2>/dev/null || echo 'not there')" >&2
        echo "Install it: apt-get install python3 python3-venv | dnf install python3.12 | brew install python@3.13" >&2
    fi
    command -v java >/dev/null 2>&1 || echo "Java 17 or newer is missing too: package openjdk-17-jre-headless" >&2
    command -v mvn >/dev/null 2>&1 || echo "Maven is missing too: package maven" >&2
    exit 1
fi

PYTHONPATH=sandbox "$python" -m reconciler_sandbox.install.prerequisites

# A virtual environment does not survive a move of its folder.
if ! { [ -x .venv/bin/python ] && suits .venv/bin/python && head -1 .venv/bin/pip | grep -qF "$PWD/.venv/"; }; then
    rm -rf .venv
    "$python" -m venv .venv
fi

wanted=$(cat requirements/build.lock requirements/dev.lock sandbox/reconciler_sandbox/demo/flights.lock pyproject.toml sandbox/pyproject.toml | cksum)
if [ "$(cat .venv/.installed 2>/dev/null)" != "$wanted" ]; then
    echo "installing the locked packages into .venv, and Kafka's jars"
    # Maven fetches the jars meanwhile; whatever hinders it, the last command says.
    PYTHONPATH=.:sandbox "$python" -c 'from reconciler_sandbox.install import jars; jars.ensure()' 2>/dev/null &
    jars=$!
    # Without compiling: Python does it for what is imported, a tenth of it.
    install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
    install --require-hashes -r requirements/build.lock # a new pip first: that of Python 3.11 takes three times as long
    # No build isolation: what builds pyspark and this project is locked, too. pyspark's wheel of 400 MB is unpacked at
    # once, so it is not compressed for that.
    install --require-hashes --no-build-isolation --config-settings=--build-option=--compression=stored \
        -r requirements/dev.lock
    install --require-hashes --no-deps --no-build-isolation -r sandbox/reconciler_sandbox/demo/flights.lock
    install --no-deps --no-build-isolation --editable . --editable ./sandbox
    echo "$wanted" >.venv/.installed
    wait "$jars" || true
fi

.venv/bin/python -m reconciler_sandbox jars
