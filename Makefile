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
ROOMS   = $(wildcard tests/unit tests/fuzz tests/simulation tests/process)
# Several tests at once (ARGS=-n0: one). A crashed worker ends the run: its successor may hang.
WORKERS = --no-loadscope-reorder --max-worker-restart 0
PAGES   = $(wildcard man/*.[1-9])

# A source distribution would fetch a build backend that no lock pins.
PIP     = -m pip --quiet --disable-pip-version-check
FETCH   = $(PIP) install --require-hashes --only-binary :all:
FAILED  = { >&2 echo 'error: could not install what .requirements/ names: the first time needs a package index'; exit 1; }

# Two makes at once set up one after the other: the lock is the kernel's, on this file, and ends with its holder.
ALONE   = $(PYTHON) -c 'import fcntl, os, sys; me = os.open("Makefile", os.O_RDONLY); os.set_inheritable(me, True); \
	fcntl.flock(me, fcntl.LOCK_EX); os.execvp(sys.argv[1], sys.argv[1:])' $(MAKE) --silent

.PHONY: help demo test test-cluster fuzz mutants prove bench lint install clean lock check-python environment control-plane put-in-place anew

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'All need Python >= 3.10 with its venv module, and a package index the first time.'
	@echo 'PYTHON=$(PYTHON) is what .venv is made from (make clean, to change it).'
	@echo 'ARGS= takes more arguments for pytest, tests.mutation, tests.demo, tests.prove or tests.bench.'

demo: environment ## three candidates for one lock, the leader killed; LOCK=lease: on a cluster (Go, as test-cluster)
	$(BIN)/python -m tests.demo --lock $(LOCK) $(ARGS)

test: environment ## the tests that need no cluster
	$(BIN)/python -m pytest $(ROOMS) --numprocesses logical $(WORKERS) $(ARGS)

test-cluster: control-plane ## the tests against a real kube-apiserver; needs Go >= 1.26, minutes to build it the first time
	$(BIN)/python -m pytest tests/cluster --numprocesses auto $(WORKERS) --durations=15 $(ARGS)

fuzz: environment ## odd bytes for all that reads what others wrote, for MINUTES=30, from a fresh SEED= unless one is given
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: control-plane ## takes away each guard of the promise, and wants the test that must fail; ARGS=PATTERN for some
	$(BIN)/python -m tests.mutation $(ARGS)

prove: control-plane ## real faults and simulated schedules for MINUTES=30, from a fresh SEED= unless one is given
	$(BIN)/python -m tests.prove --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: environment ## handover times beside client-go's; needs what test-cluster needs
	$(BIN)/python -m tests.bench $(ARGS)

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

install: check-python ## into PREFIX/lib/kleader, PREFIX/bin, PREFIX/share (man, completion); PREFIX=/usr/local, DESTDIR=
	@case '$(DESTDIR)$(PREFIX)' in /*) ;; *) >&2 echo 'error: PREFIX must be an absolute path: $(PREFIX)'; exit 1 ;; esac
	+@umask 022 && $(ALONE) put-in-place

clean: ## removes .venv, caches and what was built in this tree
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find kleader tests -name __pycache__ -prune -exec rm -rf {} +

lock: check-python ## writes .requirements/ anew; ARGS=--upgrade for newer versions
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python $(FETCH) -r .requirements/lock.txt || $(FAILED)
	$(COMPILE) pyproject.toml --group build -o .requirements/run.txt
	$(COMPILE) pyproject.toml --group dev -c .requirements/run.txt -o .requirements/dev.txt
	$(COMPILE) --group lock -o .requirements/lock.txt
COMPILE = build/lock/bin/uv --quiet pip compile --universal --python-version 3.10 --generate-hashes \
	--custom-compile-command 'make lock' $(ARGS)

check-python:
	@command -v $(PYTHON) >/dev/null || \
		{ >&2 echo 'error: no $(PYTHON): install Python >= 3.10, or name one: make PYTHON=/path/to/python3'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ >&2 echo "error: Python >= 3.10 is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1)," \
			'name another: make PYTHON=/path/to/python3'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, fcntl, venv' 2>/dev/null || \
		{ >&2 echo 'error: $(PYTHON) has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv),' \
			'or name another: make PYTHON=/path/to/python3'; exit 1; }

environment: check-python
	+@$(ALONE) $(VENV)/installed

# A virtual environment whose Python has gone is made anew.
$(VENV)/fetched: .requirements/dev.txt $(shell [ -x $(BIN)/python ] || echo anew)
	@echo 'making $(VENV) from .requirements/dev.txt'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python $(FETCH) -r .requirements/dev.txt || $(FAILED)
	@touch $@

$(VENV)/installed: $(VENV)/fetched pyproject.toml
	@$(BIN)/python $(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@

# Built before any test's clock runs; a control plane that is named is not built. Says itself what it misses.
control-plane: environment
	@[ "$$KLEADER_TEST_KUBECONFIG" ] || $(BIN)/python -m tests.support.controlplane build
	@$(BIN)/python -m tests.support.clientgo build

# Made beside the old one and moved there, so that a kleader that runs meanwhile finds its files; hence the rewriting of
# paths, which DESTDIR needs too. A virtual environment wants this very Python, at this path, where it will run.
ROOT    = $(DESTDIR)$(PREFIX)
PLACE   = $(PREFIX)/lib/kleader
NEW     = $(ROOT)/lib/.kleader.new
OLD     = $(ROOT)/lib/.kleader.old
put-in-place:
	@mkdir -p $(ROOT)/bin $(ROOT)/lib $(ROOT)/share/man 2>/dev/null && [ -w $(ROOT)/bin ] && [ -w $(ROOT)/lib ] || \
		{ >&2 echo "error: cannot write to $(ROOT): sudo make install, or make install PREFIX=$$HOME/.local"; exit 1; }
	@echo 'installing into $(ROOT)'
	@$(PYTHON) -m venv --clear $(NEW)
	@$(NEW)/bin/python $(FETCH) --no-compile -r .requirements/run.txt || $(FAILED)
	@$(NEW)/bin/python $(PIP) wheel --no-index --no-deps --no-build-isolation --wheel-dir $(NEW)/wheel .
	@$(NEW)/bin/python $(PIP) install --no-index --find-links $(NEW)/wheel --no-deps --no-compile kleader
	@for shell in bash zsh fish; do \
		PYTHONDONTWRITEBYTECODE=1 $(NEW)/bin/kleader completion $$shell > $(NEW)/completion.$$shell || exit 1; \
	done
	@$(NEW)/bin/python $(PIP) uninstall --yes flit-core setuptools pip 2>/dev/null
	@rm -rf $(NEW)/wheel $(NEW)/bin/[Aa]ctivate*
	@grep -lIF '$(NEW)' $(NEW)/pyvenv.cfg $(NEW)/bin/* | xargs sed -i.old 's|$(NEW)|$(PLACE)|g'
	@rm -f $(NEW)/pyvenv.cfg.old $(NEW)/bin/*.old
	@$(NEW)/bin/python -m compileall -q -j 0 -s $(NEW) -p $(PLACE) $(NEW)/lib
	@rm -rf $(OLD)
	@[ ! -e $(ROOT)/lib/kleader ] || mv $(ROOT)/lib/kleader $(OLD)
	@mv $(NEW) $(ROOT)/lib/kleader
	@rm -rf $(OLD)
	@for program in kleader kubectl-leader kubectl_complete-leader; do \
		ln -sfn ../lib/kleader/bin/$$program $(ROOT)/bin/$$program || exit 1; \
	done
	@for page in $(PAGES); do \
		section=$(ROOT)/share/man/man$${page##*.}; \
		install -d $$section && install -m 644 $$page $$section || exit 1; \
	done
	@cd $(ROOT)/share && install -d bash-completion/completions zsh/site-functions fish/vendor_completions.d && \
		install -m 644 $(ROOT)/lib/kleader/completion.bash bash-completion/completions/kleader && \
		install -m 644 $(ROOT)/lib/kleader/completion.zsh zsh/site-functions/_kleader && \
		install -m 644 $(ROOT)/lib/kleader/completion.fish fish/vendor_completions.d/kleader.fish
