# Two commands do everything: `make demo` and `make test`. Both create the environment first.
# Any Python from 3.11 to 3.14; where there is none, one that uv knows.
PYTHON ?= $(shell for one in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$one -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$one && exit; done; \
	uv python find --no-project '>=3.11,<3.15' 2>/dev/null)
VENV := .venv
PACKAGES := $(sort $(dir $(wildcard packages/*/pyproject.toml)))
BIN := $(VENV)/bin
DIST ?= $(CURDIR)/dist
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
# The locks are complete, so there is nothing to resolve; code is compiled when it is used, and most of it never is.
# Where only pip knows how to reach its packages (a mirror, a certificate), pip does what uv could not.
define install
@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(1) \
	|| { echo "uv could not install these; pip tries it, which takes longer"; $(PIP) $(1); }
endef

.PHONY: demo test proof twin coding-clis dist lint fmt lock clean help

help:  ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(VENV)/.runtime  ## Start coordinator, Slack twin and demo agents; print one address
	@exec $(BIN)/swarm demo

test: $(VENV)/.dev $(VENV)/.npm  ## The whole gate: format, lint, types, layers, migrations, tests
	@exec $(BIN)/python -m tests.gate

proof: $(VENV)/.dev $(VENV)/.npm  ## Every test on both databases, package by package, and the long proofs: killed and suspended coordinators, storms, load
	@exec $(BIN)/python -m tests.gate --proof

twin: $(VENV)/.dev  ## The twin's part of it: its whole tests; when they are green, the gate leaves them out
	@exec $(BIN)/python -m tests.gate --proof --package slack_twin

coding-clis:  ## Install claude, codex and opencode (1.7 GB) for the long tests that drive them: `make proof` finds them
	@cd tests/coding_clis && npm ci --silent && echo "They are in $$PWD/node_modules/.bin"

lint: $(VENV)/.dev  ## The quick part of the gate
	@exec $(BIN)/python -m tests.gate --quick

fmt: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

dist: $(VENV)/.runtime  ## Build all packages, as wheels and as sources, into dist/
	@rm -f "$(DIST)"/swarm-* "$(DIST)"/swarm_* "$(DIST)"/slack_twin-*
	@for one in . $(PACKAGES); do (cd $$one && "$(CURDIR)/$(BIN)/hatchling" build -d "$(DIST)") || exit 1; done

OURS := $(patsubst %,--no-emit-package %,swarm swarm-base swarm-runner swarm-agents swarm-lab slack-twin)
lock: COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --upgrade $(OURS)
lock: $(VENV)/.dev  ## Pin the dependencies anew, with hashes
	$(COMPILE) --group installer -o requirements-installer.lock
	$(COMPILE) pyproject.toml $(PACKAGES:%=%pyproject.toml) --group build -o requirements.lock
	$(COMPILE) pyproject.toml $(PACKAGES:%=%pyproject.toml) --group dev -c requirements.lock -o requirements-dev.lock

clean:  ## Remove the environment and the demo's state
	rm -rf $(VENV) .demo

$(VENV)/.installer: requirements-installer.lock
	@test -n "$(PYTHON)" || { echo "No Python from 3.11 to 3.14 is found. Install one, or name it: make PYTHON=/path/to/python3.12"; exit 1; }
	@echo "The environment is made with $(PYTHON): $$($(PYTHON) --version)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements-installer.lock
	@touch $@

$(VENV)/.runtime: $(VENV)/.installer requirements.lock pyproject.toml $(PACKAGES:%=%pyproject.toml)
	$(call install,--require-hashes -r requirements.lock)
	$(call install,--no-build-isolation -e . $(PACKAGES:%=-e %))
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(call install,--require-hashes -r requirements-dev.lock)
	@touch $@

# Clients on npm packages, for the tests; where these cannot be had, the tests that need them say so.
$(VENV)/.npm: tests/typescript/package-lock.json
	@cd tests/typescript && npm ci --silent && touch $(CURDIR)/$@ \
		|| echo "the packages of tests/typescript could not be installed: needs Node.js 18 or later, and npm"
