# Each target sets itself up in .venv, from a clean clone, with Python 3.11 or newer and pip.
#   make demo    the jobs that exist, on real data, as one HTML page
#   make test    the test suite and the examples in the docstrings
#   make quick PKG=instruments   those of one package: nothing marked slow
#   make papers-test   the papers' experiments, in small, the whole demo, and pages in a real browser
#   make lint    ruff and mypy
#   make docs    the documentation, in docs/_build/html
#   make fuzz    odd files, tables, formulas and streams; EXAMPLES=100000 for an hour of them
#   make release-check   wheel and sdist: built, checked, installed, tested; PYTHON= says under which
#   make lowest  the same with the oldest versions of what is needed
#   make bench   every benchmark; `make bench QUICK=1` for the small sizes
PYTHON ?= python3
BIN := .venv/bin
QUICK ?=
PKG ?=
PACKAGES := $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/test_*.py))))

# The tests start Python some thirty times: none of these should compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick papers-test lint docs fuzz release-check lowest bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: .venv/.with-app,iv
	$(BIN)/kernelmean demo $(if $(QUICK),--quick)

# Two workers with one BLAS thread each: more threads than cores would only take turns. A worker
# starts with neighbouring tests, which share fits, and takes over what the other has not begun.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: .venv/.with-dev
	$(PYTEST) -m "not browser and not whole" --ignore=tests/papers

quick: .venv/.with-dev
	@test 1 = $(words $(filter $(PKG),$(PACKAGES))) || { echo "PKG is one of: $(PACKAGES)"; exit 2; }
	$(PYTEST) -m "not slow and not browser" tests/$(PKG) $(wildcard src/kernelmean/$(PKG))

papers-test: .venv/.with-dev
	$(PYTEST) tests/papers
	$(PYTEST) -m "browser or whole" tests

lint: .venv/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.with-docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -j 2 -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

EXAMPLES ?= 60
fuzz: .venv/.with-dev
	FUZZ_EXAMPLES=$(EXAMPLES) $(PYTEST) tests/house/test_fuzz.py

release-check:
	.ci/installed $(PYTHON)

lowest:
	.ci/installed $(PYTHON) lowest

bench: .venv/.with-bench
	@set -e; for script in benchmarks/bench_*.py; do \
	  echo "== $$script"; $(BIN)/python $$script $(if $(QUICK),--quick); \
	done

clean:
	rm -rf .venv docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf .release .hypothesis .pytest_cache .mypy_cache .ruff_cache

# The stamp is older than pyproject.toml exactly when the dependencies may have changed. What pip
# would compile on one core, half of its time, is compiled on all; as with pip, what fails may.
.venv/.with-%: pyproject.toml | .venv/bin/pip
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[$*]'
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' .venv/lib src || true
	@touch $@

# Debian ships Python without ensurepip unless python3-venv is there: then borrow the system's pip.
.venv/bin/pip:
	$(PYTHON) -m venv .venv || { $(PYTHON) -m venv --clear --without-pip .venv && \
	  $(PYTHON) -m pip --python .venv/bin/python install --quiet pip; }
