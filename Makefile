# Everything a newcomer or CI calls. `make install` is part of each target and quick when nothing changed.
PYTHON_IN_VENV := .venv/bin/python

.PHONY: install demo test check bench soak down lock
.DEFAULT_GOAL := install

install:
	@sh sandbox/install.sh

demo: install
	@$(PYTHON_IN_VENV) -m sandbox.demo

test: install
	@sh tests/run.sh

check: install
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: install
	@$(PYTHON_IN_VENV) -m bench

soak: install
	@$(PYTHON_IN_VENV) -m bench.soak

# The mirror job stops first, so that it can commit and leave.
down:
	@if [ ! -x $(PYTHON_IN_VENV) ]; then echo "nothing is installed, so nothing runs"; exit 0; fi; \
	$(PYTHON_IN_VENV) -m sandbox.demo_down; $(PYTHON_IN_VENV) -m sandbox down

# Renews the locked packages and the digests of the jars; review the difference. The locks name no package index.
UV_COMPILE := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock:
	$(UV_COMPILE) pyproject.toml -o requirements.lock
	$(UV_COMPILE) --all-extras pyproject.toml -o requirements-dev.lock
	echo "setuptools>=80,<81" | $(UV_COMPILE) - -o requirements-build.lock
	$(PYTHON_IN_VENV) -m sandbox jars --lock
