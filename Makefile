# One command for each thing. `make help` lists them; CI runs `make test`.
#
# Everything is installed from the hashed lists in requirements/ into .venv (to work on the
# project) or .venvs/runtime (to run it). Set PYTHON to choose the interpreter, ARGS to pass
# arguments on: make quick ARGS='-k arbitration'.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

py := .venv/bin/python
runtime := .venvs/runtime/bin/deepline
ARGS ?=
# Directories that hold Python; those not there yet are left out.
python_dirs := $(wildcard src tests examples benchmarks)

.PHONY: help demo test quick lint format types imports bench soak soak-fleet soak-tests lock clean
.PHONY: venv venv-runtime

help: ## list the commands
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

demo: venv-runtime ## set everything up and run the example play, its worker killed half-way
	@$(runtime) demo $(ARGS)

test: lint ## all checks and the whole suite, as CI runs them
	@DEEPLINE_FAULTS_SEED="$${DEEPLINE_FAULTS_SEED:-$$(git rev-parse HEAD 2>/dev/null || echo 1)}" \
	    scripts/run-suite $(ARGS)

quick: venv ## the checks and tests that take less than a minute together
	@$(py) -m ruff check --quiet .
	@$(py) -m ruff format --check --quiet .
	@$(MAKE) --no-print-directory imports
	@$(py) -m pytest --quiet -m 'not slow and not processes' $(ARGS)

lint: venv types imports ## style, types, async rules and who imports whom
	@$(py) -m ruff check --quiet .
	@$(py) -m ruff format --check --quiet .
	@$(py) -m flake8 $(python_dirs)

types: venv ## mypy over all, basedpyright over the public API
	@$(py) -m basedpyright & beside=$$!; \
	    failed=0; $(py) -m mypy $(python_dirs) || failed=1; wait $$beside && exit $$failed

imports: venv ## the import contracts of pyproject.toml
	@.venv/bin/lint-imports --no-logo

format: venv ## let ruff lay out the code and mend what it can
	@$(py) -m ruff format .
	@$(py) -m ruff check --fix .

bench: venv ## measure against the reference in the same run
	@$(py) -m benchmarks $(ARGS)

soak: venv ## 5,000 runs while all that may die does, in ten minutes (SOAK_RUNS, SOAK_MINUTES)
	@$(py) -m tests.soak --runs $${SOAK_RUNS:-5000} --minutes $${SOAK_MINUTES:-10} $(ARGS)

soak-fleet: venv ## the same for seven roles, which are also stopped, behind PgBouncer if there is one
	@$(py) -m tests.soak --fleet --runs $${SOAK_RUNS:-2000} --minutes $${SOAK_MINUTES:-10} $(ARGS)

soak-tests: venv ## a death at every store call, and the long tests at other moments
	@DEEPLINE_SOAK=1 $(py) -m pytest --quiet tests/faults
	@DEEPLINE_CHAOS_SEED=$$RANDOM DEEPLINE_DAY_RUNS=2000 $(py) -m pytest --quiet -m 'slow or processes' \
	    --hypothesis-seed=$$RANDOM $(ARGS)

lock: ## resolve requirements/ again from pyproject.toml (needs uv)
	@scripts/lock $(ARGS)

clean: ## remove what the other commands made
	@rm -rf .venv .venv.lock .venvs .coverage .coverage.* htmlcov dist build .deepline
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/ensure-venv .venv requirements/dev.txt

venv-runtime:
	@scripts/ensure-venv .venvs/runtime requirements/runtime.txt requirements/build.txt
