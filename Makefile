# Everything a newcomer or CI calls. `make install` is part of each target and quick when nothing changed.
PYTHON_IN_VENV := .venv/bin/python

.PHONY: install demo test test-fast test-hostile fuzz test-least-privilege test-clusters test-kubernetes test-pages test-deploy test-properties test-brokers test-spark pictures check bench soak down lock docs licences sbom advisories package test-package test-workflows test-image test-machine image-context freeze owner
.DEFAULT_GOAL := install
# Else each process compiles what it imports, and each run of the tests rewrites its assertions again.
unexport PYTHONDONTWRITEBYTECODE

install:
	@sh sandbox/reconciler_sandbox/install/install.sh

demo: install
	@$(PYTHON_IN_VENV) -m reconciler_sandbox.demo.main

test: install
	@sh tests/run.sh

# Without brokers and Spark, with fewer examples of each property: between two edits.
test-fast: install
	@HYPOTHESIS_PROFILE=fast $(PYTHON_IN_VENV) -m pytest -q -n 3 --dist worksteal --durations=10 \
		-m "not kafka and not spark and not slow and not long"

# Every property that needs no broker, with 1,000 examples that no run has tried: make test has the same 20 in each run.
SEED := $(or $(SEED),$(shell date +%s))
test-properties: install
	@echo "again: make test-properties SEED=$(SEED)"
	@HYPOTHESIS_PROFILE=thorough PYTHONHASHSEED=$$(($(SEED) % 4294967296)) $(PYTHON_IN_VENV) -m pytest -q -n 2 --dist worksteal \
		--timeout 7200 -m "hypothesis and not kafka and not spark" --hypothesis-seed=$(SEED)

# 10,000 environments that somebody made up to do harm; others each time. make test has a few.
HOSTILE_EXAMPLES ?= 10000
test-hostile: install
	@HOSTILE_EXAMPLES=$(HOSTILE_EXAMPLES) $(PYTHON_IN_VENV) -m pytest -q --timeout 7200 tests/e2e/hostile

# Looks for bytes that readers of the protocol, of batches and of state topics do not expect; minutes of CPU.
FUZZ_MINUTES ?= 2
fuzz: install
	@PYTHONPATH=.:spark $(PYTHON_IN_VENV) -m tests.fuzz.explore --minutes $(FUZZ_MINUTES)

check: install
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: install
	@$(PYTHON_IN_VENV) -m bench

SOAK_MINUTES ?= 60
soak: install
	@$(PYTHON_IN_VENV) -m bench.soak --minutes $(SOAK_MINUTES) --write

# Each rule of the documented roles taken away in turn; make test takes a few.
test-least-privilege: install
	@LEAST_PRIVILEGE=all $(PYTHON_IN_VENV) -m pytest -q -s --timeout 1800 tests/e2e/apply/test_least_privilege.py \
		tests/mirror/driver/test_least_privilege.py tests/e2e/mirror/test_failover_rights.py

# Every test marked long: Spark clusters and YARN that lose workers, mirror hosts of which one is lost, an upgrade and back, cut-overs,
# same offsets, the live page, a mirror in trouble with a Prometheus beside it, the tutorial, and tokens and tickets that live for a
# minute and are refused for 100 s (LOGIN_MINUTES=10 make test-clusters for a longer run).
test-clusters: install
	@$(PYTHON_IN_VENV) -m pytest -v -m long tests --ignore tests/e2e/spark/clusters/test_kubernetes.py \
		--ignore tests/e2e/spark/test_rolling_upgrade.py

# On a real API server of Kubernetes, which Go builds (some minutes, once), as helm and kustomize for the chart; as root: pods are
# isolated processes.
test-kubernetes: install
	@$(PYTHON_IN_VENV) -m pytest -v tests/interop/deploy/with_helm.py tests/e2e/spark/clusters/test_kubernetes.py

# Pages in a Chromium, which has to be installed, judged by axe-core from npm, too (PICTURES=FOLDER keeps screenshots), and the
# built site: its links, addresses, blocks and search.
test-pages: docs
	@$(PYTHON_IN_VENV) -m pytest -v tests/e2e/review/in_browser.py tests/e2e/review/built_site.py

# Alert rules and panels by Prometheus' promtool (apt-get install prometheus), the unit of a mirror host by systemd-analyze.
test-deploy: install
	@$(PYTHON_IN_VENV) -m pytest -v tests/mirror/report/with_promtool.py tests/interop/with_systemd.py

# docs/begin/pictures anew, in a Chromium; review what changed.
pictures: install
	@$(PYTHON_IN_VENV) -m tests.e2e.review.pictures

# The same cases against older brokers, fetched by Maven, a cluster that is upgraded under load, and kfake, built by Go: an hour.
test-brokers: install
	@sh tests/interop/brokers/run.sh

# The real job and verify on each release line of Spark from 3.5, fetched by pip. One alone: RELEASES=3.5.9 make test-spark
test-spark: install
	@$(PYTHON_IN_VENV) -m pytest -v tests/interop/spark_releases.py

# The mirror job stops first, so that it can commit and leave.
down:
	@if [ ! -x $(PYTHON_IN_VENV) ]; then echo "nothing is installed, so nothing runs"; exit 0; fi; \
	$(PYTHON_IN_VENV) -m reconciler_sandbox.demo.down; .venv/bin/reconciler sandbox down

# Renews the locked packages, the digests of the jars and their coordinates; review the difference. The locks name no package index.
UV_COMPILE := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock:
	$(UV_COMPILE) --extra mirror pyproject.toml -o requirements/runtime.lock
	$(UV_COMPILE) --all-extras pyproject.toml -o requirements/dev.lock
	printf 'hatchling>=1.27,<2\npip>=25.1,<27\nsetuptools>=80,<81\n' | $(UV_COMPILE) -c requirements/dev.lock - -o requirements/build.lock
	echo "mkdocs-material>=9.6,<10" | $(UV_COMPILE) - -o requirements/docs.lock
	printf 'twine>=6,<8\nhadolint-bin>=2.15,<3\nzizmor>=1.16,<2\n' | $(UV_COMPILE) - -o requirements/release.lock
	$(PYTHON_IN_VENV) -m reconciler_sandbox jars --lock
	$(PYTHON_IN_VENV) -m requirements.jars

# The pages as a site in site/, by mkdocs in an environment of its own; a link that leads nowhere is an error, and a page that
# lost a fence or a heading. Without --quiet: it would hide warnings from --strict, too.
docs: install
	@test build/docs-venv/built -nt requirements/docs.lock || { \
		.venv/bin/uv venv -q --allow-existing build/docs-venv && \
		VIRTUAL_ENV=build/docs-venv .venv/bin/uv pip install -q --require-hashes -r requirements/docs.lock && \
		touch build/docs-venv/built; }
	@NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --strict -f docs/site/mkdocs.yml && echo "site/index.html is written"

# Workflows and actions of this project, and those that `init --repository` writes, by actionlint (Go) and zizmor.
test-workflows: install
	@$(MAKE) -s build/release-venv/built
	@GOBIN=$(CURDIR)/build/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
	@$(PYTHON_IN_VENV) -m pytest -v tests/workflows/with_linters.py

build/release-venv/built: requirements/release.lock
	@.venv/bin/uv venv -q --allow-existing build/release-venv
	@VIRTUAL_ENV=build/release-venv .venv/bin/uv pip install -q --require-hashes -r requirements/release.lock
	@touch build/release-venv/built

# Wheels and source archives of the program and of the sandbox in dist/: the same bytes from the same commit. Every long
# description is checked as the package index does.
package: install
	@$(MAKE) -s build/release-venv/built
	@rm -rf dist
	@export SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}; \
		$(PYTHON_IN_VENV) -m hatchling build -d dist && cd sandbox && ../$(PYTHON_IN_VENV) -m hatchling build -d ../dist
	@build/release-venv/bin/twine check --strict dist/*

# build/image, from which docs/mirror/deploy/Containerfile makes the image.
image-context: package
	@rm -rf build/image && mkdir -p build/image && cp requirements/build.lock requirements/runtime.lock \
		docs/mirror/deploy/kubernetes/entrypoint.sh docs/mirror/deploy/kubernetes/init.py \
		dist/kafka_topology_reconciler-[0-9]*.whl build/image
	@cd build/image && for wheel in *.whl; do \
		echo "./$$wheel --hash=sha256:$$(sha256sum "$$wheel" | cut -d' ' -f1)"; done >program.lock

# Every step of the Containerfile on a Debian that a mount namespace keeps apart, and what it says is run; as root.
test-image: image-context
	@$(PYTHON_IN_VENV) -m pytest -v tests/interop/deploy/with_image_steps.py

# On a Debian without anything else, made by mmdebstrap: install, init --repository, plan, apply, the CI that it wrote, and an
# upgrade; as root.
test-machine: package
	@command -v mmdebstrap >/dev/null || { echo "NOT RUN: test-machine needs mmdebstrap (apt-get install mmdebstrap)"; exit 1; }
	@$(PYTHON_IN_VENV) -m pytest -v tests/interop/deploy/with_empty_machine.py

# What `make package` builds, installed by one command from a folder of wheels on a machine without Spark and Java.
test-package: package
	@$(PYTHON_IN_VENV) -m pytest -v tests/e2e/from_the_package.py

# Once, before the first release: the organization on GitHub that publishes this project, wherever a file names it.
NAMING_OWNER := .github/CODEOWNERS pyproject.toml sandbox/pyproject.toml docs/begin/install.md
owner:
	@test -n "$(OWNER)" || { echo "name the organization on GitHub: make owner OWNER=example"; exit 1; }
	@sed -i.old 's|OWNER/|$(OWNER)/|g' $(NAMING_OWNER) && rm -f $(NAMING_OWNER:=.old)

# tests/golden/release anew: what this commit, which gets the tag of a version, leaves for later ones to read.
freeze: install
	@PYTHONPATH=.:spark:sandbox $(PYTHON_IN_VENV) -m tests.golden.formats

# docs/licences.md anew, after `make lock` and `make install`.
licences: install
	@$(PYTHON_IN_VENV) -m requirements.licences

# The bill of materials, CycloneDX 1.6. SOURCE_DATE_EPOCH gives it a timestamp.
OUT ?= build/sbom.cdx.json
sbom: install
	@$(PYTHON_IN_VENV) -m requirements.sbom "$(OUT)"

# Asks OSV about the locked packages; needs nothing installed.
advisories:
	@python3 -m requirements.advisories
