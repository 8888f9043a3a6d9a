# The targets of the project. `make` alone lists them. PYTHON=... chooses the Python; VENV=... the environment's place.

VENV ?= .venv
PYTHON ?=
WORKERS ?= auto
FUZZ_SECONDS ?= 600

BIN = $(VENV)/bin
SET_UP = VENV="$(VENV)" PYTHON="$(PYTHON)" sh .ci/set-up
OLDEST = $(VENV)-oldest

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest check bench prove mutate mutate-prover document fuzz set-up format clean readme differences

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: ## check the programs of the two seed pages
	@$(SET_UP) base
	@$(BIN)/shardproof check examples/seeds/*.jaxpr
	@printf '\nThe command is %s: call it so, or after `. %s`.\n' $(BIN)/shardproof $(BIN)/activate

test: ## run the tests
	@$(SET_UP) full
	@$(BIN)/python -m pytest -n $(WORKERS)

test-oldest: ## run the tests that compare with JAX on the oldest JAX we take, in an environment beside the other
	@VENV="$(OLDEST)" PYTHON="$(PYTHON)" sh .ci/set-up oldest
	@$(OLDEST)/bin/python -m pytest -n $(WORKERS) tests/verifier/with_jax tests/verifier/execution \
	  tests/verifier/test_evidence.py tests/spec/test_cases.py $(wildcard tests/laws/test_*_against_jax.py)

check: ## format, lint, types, tests
	@$(SET_UP) full
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(BIN)/python -m pytest -n $(WORKERS)

bench: ## microseconds per equation: readers, checker, and JAX's own checker
	@$(SET_UP) full
	@$(BIN)/python -m bench

prove: ## prove every rule and theorem anew
	@$(SET_UP) full
	@$(BIN)/shardproof prove --fresh

mutate: ## make every declaration wrong in every way, and see whether a law objects
	@$(SET_UP) full
	@$(BIN)/python -m tests.mutate

mutate-prover: ## make declarations, transposes and rows wrong, and see whether the prover or a law objects
	@$(SET_UP) full
	@$(BIN)/python -m tests.mutate_prover

document: ## write the one document to cite, build/calculus.md: definitions, rules, theorems, proofs, what is trusted
	@$(SET_UP) full
	@$(BIN)/python -m tests.document

fuzz: ## feed the readers and the command nonsense, for about FUZZ_SECONDS=600 in all (a minute at least)
	@$(SET_UP) full
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m fuzz

format: ## rewrite the sources in the one format
	@$(SET_UP) full
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

readme: ## write what the README's commands print into it
	@$(SET_UP) full
	@$(BIN)/python -m tests.test_readme

differences: ## write proofs/differences.md from the ledger
	@$(SET_UP) full
	@$(BIN)/python -m tests.verifier.test_ledger

set-up: ## only make the environment
	@$(SET_UP) full

clean: ## remove the environment and what the tools left behind
	rm -rf "$(VENV)" "$(OLDEST)" .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
