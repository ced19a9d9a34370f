# Every target does its own set-up in .venv; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
PEER := .venv-pytagi
PEER_READY := $(PEER)/.ready
PYTAGI := pytagi==0.1.12
BBB_PEERS := .venv-peers
BBB_PEERS_READY := $(BBB_PEERS)/.ready
LAPLACE_PEER := .venv-laplace
LAPLACE_PEER_READY := $(LAPLACE_PEER)/.ready
LAPLACE_PACKAGES := laplace-torch==0.3 backpack-for-pytorch==1.7.1 curvlinops-for-pytorch==3.0.1 \
	asdfghjkl==0.1a4 asdl==0.1.5 einconv==0.1.0 einops==0.8.2 jaxtyping==0.3.11 \
	lightning-utilities==0.15.3 linear_operator==0.6.1 opt-einsum==3.4.0 torchmetrics==1.9.0 \
	unfoldNd==0.2.3 wadler_lindig==0.1.8
BBB_PACKAGES := bayesian-torch==0.5.0 torchbnn==1.2 blitz-bayesian-pytorch==0.2.8

# Extra arguments for pytest, for example: make test PYTEST="-n 0 -k data -x"
PYTEST ?= -n 2 --dist loadfile

.PHONY: help demo test docs figures bench sanitize format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

demo: $(READY) ## train a regressor and a classifier, print a table, write figures
	$(BIN)/python examples/demo.py

test: $(READY) ## lint, type check, dependency direction, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST)

docs: $(DOCS_READY) ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean

figures: $(READY) ## run the pages of the documentation and renew their figures
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.pages

bench: $(READY) $(PEER_READY) $(BBB_PEERS_READY) $(LAPLACE_PEER_READY) ## step times and memory against pytagi, plain PyTorch and peers
	$(BIN)/python -m benchmarks
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/peers_bbb.py
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.laplace

# A copy of the package with an instrumented kernel, beside the one in use.
sanitize: $(READY) ## the kernel's tests under the address and undefined-behaviour sanitisers
	rm -rf build/sanitize
	TRACTABLE_SANITIZE=1 $(BIN)/python -m pip install --quiet --no-deps --target build/sanitize .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	OMP_NUM_THREADS=1 PYTHONPATH=build/sanitize TRACTABLE_EXPECT=build/sanitize \
	$(BIN)/python -m pytest tests/native -m 'not slow'

format: $(READY) ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environments, caches and build products
	rm -rf $(VENV) $(PEER) $(BBB_PEERS) $(LAPLACE_PEER) build dist site src/*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone, so that no other package can choose its version.
$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/tractable/native/*.[chi]*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# What only the documentation needs comes on top.
$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

# The peer of the benchmarks lives apart. It needs numpy and does not say so.
$(PEER_READY): Makefile constraints.txt
	test -x $(PEER)/bin/python || $(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install --quiet --constraint constraints.txt '$(PYTAGI)' numpy
	touch $@

# Only their own files, without what they depend on, so that they cannot bring another torch.
$(BBB_PEERS_READY): Makefile
	rm -rf $(BBB_PEERS)
	$(BIN)/python -m pip install --quiet --no-deps --target $(BBB_PEERS) $(BBB_PACKAGES)
	touch $@

$(LAPLACE_PEER_READY): Makefile
	rm -rf $(LAPLACE_PEER)
	$(BIN)/python -m pip install --quiet --no-deps --target $(LAPLACE_PEER) $(LAPLACE_PACKAGES)
	touch $@
