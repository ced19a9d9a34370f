# Every target sets up .venv if necessary; `make help` lists the targets.
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

# Duration of `make soak`.
SOAK_SECONDS ?= 600
# Versions of torch for `make torch-versions`, and the versions of numpy and safetensors that older
# ones need, for example: make torch-versions TORCH=2.4.0 WITH="numpy==1.26.4 safetensors==0.4.5"
TORCH ?= 2.13.0
WITH ?= numpy safetensors
VERSIONED_TESTS := tests/gaussian tests/moments tests/rules tests/likelihoods tests/predictive tests/priors \
	tests/posterior tests/training tests/learners tests/infer
# Tests that `make quick` runs.
QUICK_TESTS ?= tests/gaussian tests/moments tests/priors tests/posterior tests/predictive tests/likelihoods/test_truth.py
# Tests that `make coverage` runs. All tests take long: make coverage COVERED=tests
COVERED ?= tests/gaussian tests/moments tests/rules tests/likelihoods tests/predictive tests/priors \
	tests/posterior tests/training tests/learners tests/infer tests/packaging

.PHONY: help demo test quick soak docs browser figures bench coverage wheel release torch-versions sanitize format hooks clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

demo: $(READY) ## train a regressor and a classifier, print a table, write figures
	$(BIN)/python examples/demo.py

test: $(READY) ## run ruff, mypy, import-linter and the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST)

# For changes of the core: what is fastest and notices most.
quick: $(READY) ## run ruff, mypy, import-linter and the tests of the core, in less than 90 seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(QUICK_TESTS)

soak: $(READY) ## random histories, kills, bit flips, crafted files, races, fuzz, mutants; SOAK_SECONDS=600
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS)

docs: $(DOCS_READY) ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean

browser: docs $(READY) ## test reports and documentation in headless Chromium, wide and narrow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/browser

figures: $(READY) ## run the code of the documentation and update its figures
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.pages

bench: $(READY) $(PEER_READY) $(BBB_PEERS_READY) $(LAPLACE_PEER_READY) ## compare step times and memory with pytagi, plain PyTorch and other libraries
	$(BIN)/python -m benchmarks
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/peers_bbb.py
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.laplace

# In one process, because the tracer does not follow the processes of pytest-xdist.
coverage: $(READY) ## measure the line coverage of the tests; the report is in htmlcov/
	$(BIN)/python -m pip install --quiet --constraint constraints.txt coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -q $(COVERED)
	$(BIN)/python -m coverage html --quiet
	$(BIN)/python -m coverage report --skip-covered

# The wheel is built from the sdist, so that both are complete, and used in an environment that holds
# torch, numpy and safetensors only.
wheel: constraints.txt ## build sdist and wheel, install the wheel without extras and use it
	rm -rf dist build/wheel
	$(PYTHON) -m venv build/wheel/build && $(PYTHON) -m venv build/wheel/use
	build/wheel/build/bin/python -m pip install --quiet build
	build/wheel/build/bin/python -m build --outdir dist .
	build/wheel/use/bin/python -m pip install --quiet --constraint constraints.txt torch numpy safetensors
	build/wheel/use/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	cd build/wheel && use/bin/python ../../tests/packaging/core_alone.py
	(build/wheel/use/bin/tractable --help 2>&1 || true) | grep -F "pip install 'tractable[cli]'"

# The wheels are built from the sdist by cibuildwheel, which needs Docker or Podman on Linux. It is
# configured in pyproject.toml, and tests each wheel in an environment without extras.
release: constraints.txt ## build and check the sdist and the wheels of this platform in dist/
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet build cibuildwheel twine
	build/release/bin/python -m build --sdist --outdir dist .
	build/release/bin/python -m cibuildwheel --output-dir dist dist/*.tar.gz
	build/release/bin/python -m twine check --strict dist/*

# The tests of the core with other versions of torch, each in a separate environment.
torch-versions: ## run the tests of the core with TORCH="2.4.0 2.15.0" (large downloads without CPU builds)
	for version in $(TORCH); do \
	  folder=.venv-torch-$$version; \
	  test -x $$folder/bin/python || $(PYTHON) -m venv $$folder; \
	  $$folder/bin/python -m pip install --quiet torch==$$version $(WITH) pytest hypothesis scipy scikit-learn; \
	  $$folder/bin/python -m pip install --quiet torch==$$version $(WITH) . ; \
	  (cd $$folder && OMP_NUM_THREADS=1 bin/python ../tests/packaging/core_alone.py --block); \
	  OMP_NUM_THREADS=1 $$folder/bin/python -m pytest -q -W ignore::FutureWarning $(VERSIONED_TESTS); \
	done

# A copy of the package with an instrumented kernel, separate from the installed one.
sanitize: $(READY) ## run the tests of the kernel under the address and undefined-behavior sanitizers
	rm -rf build/sanitize
	TRACTABLE_SANITIZE=1 $(BIN)/python -m pip install --quiet --no-deps --target build/sanitize .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	OMP_NUM_THREADS=1 PYTHONPATH=build/sanitize TRACTABLE_EXPECT=build/sanitize \
	$(BIN)/python -m pytest tests/native -m 'not slow'

format: $(READY) ## format the code and apply the automatic fixes of ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: $(READY) ## run ruff and mypy before every commit (pre-commit)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pre-commit
	$(BIN)/pre-commit install

clean: ## remove the environments, caches and build products
	rm -rf $(VENV) $(PEER) $(BBB_PEERS) $(LAPLACE_PEER) .venv-torch-* .coverage htmlcov
	rm -rf build dist site src/*.egg-info studies/*.egg-info studies/build
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src studies tests -name __pycache__ -type d -prune -exec rm -rf {} +

# torch is installed first, so that no other package determines its version.
$(READY): pyproject.toml studies/pyproject.toml constraints.txt setup.py $(wildcard src/tractable/native/*.[chi]*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable ./studies
	touch $@

# Packages that only the documentation needs are added to .venv.
$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

# pytagi has a separate environment. It needs numpy but does not declare it.
$(PEER_READY): Makefile constraints.txt
	test -x $(PEER)/bin/python || $(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install --quiet --constraint constraints.txt '$(PYTAGI)' numpy
	touch $@

# Installed without dependencies, so that they cannot install another version of torch.
$(BBB_PEERS_READY): Makefile
	rm -rf $(BBB_PEERS)
	$(BIN)/python -m pip install --quiet --no-deps --target $(BBB_PEERS) $(BBB_PACKAGES)
	touch $@

$(LAPLACE_PEER_READY): Makefile
	rm -rf $(LAPLACE_PEER)
	$(BIN)/python -m pip install --quiet --no-deps --target $(LAPLACE_PEER) $(LAPLACE_PACKAGES)
	touch $@
