# Two commands on a bare machine do everything: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FAULT ?= fully-masked-attention-row
DEMO_OUT ?= demo-run
INSTALLED_FROM := pyproject.toml setup.py constraints.txt recorder/tensors/moments.c analyzer/importers/trace_scan.c

# modules are compiled once, not by each of the hundreds of processes that tests start
export PYTHONDONTWRITEBYTECODE :=

# one more than two cores: tests wait for processes and browsers a sixth of their time
WORKERS ?= 3

# $(call beside_checks,COMMAND): every check of `make lint` runs beside COMMAND, also after one that failed
define beside_checks
$(MAKE) --no-print-directory --keep-going --output-sync=target lint & lint=$$!; $(1); tests=$$?; \
	  wait $$lint || { echo "lint, types or layers have failed: see above" >&2; exit 1; }; exit $$tests
endef

.PHONY: help demo test quick suite gpu pictures docs dist matrix lint clean

help:
	@echo "make demo    record a training with a real fault, diagnose it, write the report (FAULT=$(FAULT))"
	@echo "make test    everything CI does: lint, types, layers, tests; installs Debian's chromium if there is none"
	@echo "make quick   lint, types, layers, and the tests that take less than a tenth of a second each"
	@echo "make suite   all tests: every fault script, every odd healthy run, every variant (\`make test\` runs a slice of these)"
	@echo "make gpu     what only a CUDA device can show, in one table, in less than eight minutes"
	@echo "make pictures  docs/tutorial.md and its pictures, from commands that are run"
	@echo "make docs    the pages of docs/ as a site in site/; fails on a dead link"
	@echo "make dist    wheel and sdist in dist/, the same bytes each time from the same commit"
	@echo "make matrix  the promised versions of Python and torch, as far as they can be installed here; says what is untested"
	@echo "make clean   remove $(VENV), $(DEMO_OUT) and the tools' caches"

demo: $(VENV)/.installed-record
	rm -rf $(DEMO_OUT)
	$(BIN)/firstfault demo $(FAULT) --out $(DEMO_OUT)

test: $(VENV)/.installed-dev chromium
	@$(call beside_checks,$(MAKE) --no-print-directory pytest PYTEST_ARGS="$(PYTEST_ARGS)")

quick: $(VENV)/.installed-dev
	@$(call beside_checks,$(MAKE) --no-print-directory pytest PYTEST_ARGS="-m 'not longer and not slow and not suite' $(PYTEST_ARGS)")

suite: $(VENV)/.installed-frameworks chromium
	FIRSTFAULT_KILLS=$${FIRSTFAULT_KILLS:-4} FIRSTFAULT_FUZZ_CASES=$${FIRSTFAULT_FUZZ_CASES:-300} \
	  $(BIN)/python -m pytest -n 2 tests -m "suite or not suite" $(PYTEST_ARGS)

gpu: $(VENV)/.installed-dev
	@$(BIN)/python tests/gpu/verify.py $(GPU_ARGS)

pictures: $(VENV)/.installed-dev chromium
	$(BIN)/python tests/pictures/make_tutorial.py

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

dist: $(VENV)/.installed-dev
	$(BIN)/python tests/house/dist.py dist

matrix: $(BIN)/python
	$(BIN)/python tests/matrix/matrix.py $(MATRIX_ARGS)

.PHONY: ruff-check ruff-format basedpyright lint-imports rule-sizes pytest chromium
lint: ruff-check ruff-format basedpyright lint-imports rule-sizes

ruff-check: $(VENV)/.installed-dev
	$(BIN)/ruff check .

ruff-format: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .

basedpyright: $(VENV)/.installed-dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

lint-imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

rule-sizes: $(VENV)/.installed-dev
	$(BIN)/python tests/house/rule_sizes.py

pytest: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

chromium:
	@command -v chromium >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  echo "installing Debian's chromium: a test opens reports in a real browser"; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends chromium; }

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "firstfault needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || \
	  { echo "this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed-record: $(BIN)/python $(INSTALLED_FROM)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[record]'
	@touch $@

$(VENV)/.installed-docs: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'mkdocs-material>=9.6'
	@touch $@

$(VENV)/.installed-dev: $(BIN)/python $(INSTALLED_FROM)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[record,dev]'
	@touch $@ $(VENV)/.installed-record

$(VENV)/.installed-frameworks: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[record,dev,frameworks,libraries,ray,remote,object-store]'
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO_OUT) $(DEMO_OUT)-report.html build dist site *.egg-info recorder/tensors/*.so .pytest_cache .ruff_cache .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
