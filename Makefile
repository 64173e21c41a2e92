# The targets for people: run, test, lint, test-system, install, lock, clean.
# `make run` and `make test` install what is missing; stamps make repeats quick.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One process: two of them collect some parametrized tests differently.
JOBS ?= 0
ARGS ?=
# ONCE=1: read what is in the inbox and stop.
ONCE ?=

.PHONY: help run setup setup-dev test lint format test-system install lock clean
.DELETE_ON_ERROR:

help:
	@echo "make run          read ./inbox (ONCE=1: once, then stop)"
	@echo "make test         lint, types and tests that need no GPU and no container"
	@echo "make lint         ruff and mypy"
	@echo "make test-system  the service in a booted Debian (root)"
	@echo "make install      as a service on this machine (ARGS=--gpu, ...)"
	@echo "make lock         pin the newest releases that pyproject.toml allows"
	@echo "make clean        remove what was built; the inbox and var/ stay"

# What a CPU installation needs: never torch.
setup: $(STAMPS)/runtime

setup-dev: $(STAMPS)/gpu-test

# The sample scan is drawn with the tests' tools.
run: $(STAMPS)/dev
	@mkdir -p inbox var/state var/cache
	$(BIN)/python -m tests.seed_inbox inbox/sample.pdf
	SCANMD_STATE_DIR=$(CURDIR)/var/state SCANMD_CACHE_DIR=$(CURDIR)/var/cache \
		$(BIN)/scanmd run --inbox inbox $(if $(ONCE),--once) $(ARGS)

test: setup-dev lint
	$(BIN)/python -m pytest -n $(JOBS) -m "not system and not gpu" $(ARGS)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-system: setup-dev
	$(BIN)/python -m pytest -m system $(ARGS)

install:
	systemd/install.sh $(ARGS)

# opencv-python goes out again: its cv2 would replace the headless one.
COMPILE = $(PYTHON) -m venv build/lock && build/lock/bin/pip install -q pip-tools && \
	build/lock/bin/pip-compile -q --upgrade --generate-hashes --allow-unsafe --strip-extras \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	--no-emit-options

lock:
	$(COMPILE) --all-build-deps -o requirements.lock pyproject.toml
	sed -i '/^opencv-python==/,/[^\\]$$/d' requirements.lock
	$(COMPILE) --group dev -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Debian's packages: installed by root, named to anybody else.
$(STAMPS)/venv:
	@missing=""; \
	command -v pdftoppm >/dev/null || missing="$$missing poppler-utils"; \
	[ -f /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing="$$missing fonts-dejavu-core"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -q && apt-get install -q -y --no-install-recommends $$missing; \
	else echo "Please install:$$missing (Debian: sudo apt-get install$$missing)" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# --no-deps: the recognisers ask for opencv-python, whose cv2 would replace the
# headless one; the lock files name everything.
$(STAMPS)/runtime: requirements.lock pyproject.toml | $(STAMPS)/venv
	$(PIP) install -q --no-deps -r requirements.lock
	$(PIP) install -q --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/dev: requirements-dev.lock $(STAMPS)/runtime
	$(PIP) install -q --no-deps -r requirements-dev.lock
	@touch $@

# torch and transformers, so that the DeepSeek engine's CPU tests run as well.
$(STAMPS)/gpu-test: requirements-gpu-test.lock $(STAMPS)/dev
	$(PIP) install -q --no-deps -r requirements-gpu-test.lock
	@touch $@
