# Two commands do everything: `make demo` and `make test`. Both create the environment first.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# The locks are complete, so there is nothing to resolve; code is compiled when it is used, and most of it never is.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile

.PHONY: demo test proof lint fmt lock clean help

help:  ## Show what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(VENV)/.runtime  ## Start coordinator, Slack twin and demo agents; print one address
	@exec $(BIN)/swarm demo

test: $(VENV)/.dev  ## The whole gate: format, lint, types, floors, migrations, tests on both databases
	@exec $(BIN)/python -m tests.gate

proof: $(VENV)/.dev  ## The long proofs: several coordinators that are killed and suspended, storms, load
	@exec $(BIN)/pytest -q -m long

lint: $(VENV)/.dev  ## The quick part of the gate
	@exec $(BIN)/python -m tests.gate --quick

fmt: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lock: $(VENV)/.dev  ## Pin the dependencies anew, with hashes (needs uv)
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --upgrade \
		pyproject.toml --group build -o requirements.lock
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --upgrade \
		pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock

clean:  ## Remove the environment and the demo's state
	rm -rf $(VENV) .demo

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.python requirements.lock pyproject.toml
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@
