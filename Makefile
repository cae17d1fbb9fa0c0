# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SDL    ?=
KEEP   ?=
DENOM  ?=
KUBECONFIG_FILE ?=
CONTEXT ?=
NODE   ?=
YES    ?=
# where it is set, every one of hundreds of started processes would compile the project again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup tools test suite test-node test-node-beside test-long sim kill-matrix lint demo docs site lock wheel clean

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml hatch_build.py $(shell find proto -name '*.proto' -o -name '*.py')
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

tools: setup
	$(BIN)/lessor doctor --build

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Lint and the real node's tests run beside the suite, which often waits for processes that it started.
test: setup tools
	$(MAKE) --no-print-directory --jobs 3 lint suite test-node-beside

# The tests' files lie in memory where it has 4 GB for them: a test of the store waits for the disk ten times as long as
# it computes. A folder from which nothing may be executed is of no use.
MEMORY := $(shell findmnt --noheadings --output OPTIONS --target /dev/shm 2>/dev/null | grep --quiet --word-regexp noexec || df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 4000000 {print "/dev/shm"}')
ON_MEMORY := $(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY))

# Four processes on two cores: half of the time each of them waits for a daemon, a pod, a block or a socket.
suite: tools
	$(ON_MEMORY) $(BIN)/pytest -n 4 --dist loadgroup -m "not long and not node" --durations 15

# The real node's tests run inside an enclosure of namespaces. It needs root and some Debian packages; without them the
# tests are skipped with the reason.
test-node: setup
	$(BIN)/python -m tests.whole.node.run

# The same, printed at its end: the suite prints its progress meanwhile.
test-node-beside: setup
	mkdir -p build
	$(BIN)/python -m tests.whole.node.run > build/test-node.log 2>&1; code=$$?; cat build/test-node.log; exit $$code

test-long: tools
	$(ON_MEMORY) $(BIN)/pytest -n 2 --dist loadgroup -m "not node" --durations 30
	$(BIN)/python -m tests.whole.node.run --long

# `make sim SEED=17` runs one seed again and shortens it if it fails, `make sim SEEDS=1000` many on two cores.
sim: setup
	$(BIN)/python -m tests.laws.simulation.run $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200))

# Goes on where it was stopped; `make kill-matrix FRESH=1` begins anew, AGAIN=1 also plays what failed; PROGRAM=sdk is
# the other way of the resident engine. About an hour.
kill-matrix: tools
	$(BIN)/python -m tests.laws.killmatrix.run --engine $(or $(PROGRAM),list) $(if $(FRESH),--fresh) $(if $(AGAIN),--again)

# `make demo KUBECONFIG_FILE=~/.kube/config` (and CONTEXT=name, YES=1) uses that cluster and builds nothing.
demo: $(if $(KUBECONFIG_FILE),setup,tools)
	$(BIN)/lessor demo $(if $(KUBECONFIG_FILE),--kubeconfig "$(KUBECONFIG_FILE)") $(if $(CONTEXT),--context "$(CONTEXT)") $(if $(YES),--yes) $(if $(SDL),--sdl "$(SDL)") $(if $(KEEP),--keep) $(if $(DENOM),--denom "$(DENOM)") $(if $(NODE),--node "$(NODE)")

# What is generated among the documents: the reference of settings. A test fails when it is out of date.
docs: setup
	$(BIN)/lessor settings --markdown > docs/settings.md
	$(BIN)/python -c 'from provider.observe.operating import markdown; print(markdown(), end="")' > docs/operating.md
	$(BIN)/python -c 'from provider.observe.scrape import markdown; print(markdown(), end="")' > docs/metrics.md
	$(BIN)/python tools/docs/grafana.py > examples/prometheus/dashboard.json

# The documents as pages, in build/site. `.venv/bin/mkdocs serve` shows them while one writes.
site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Needs `uv` on PATH; the result names no index.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock

wheel: setup
	$(BIN)/python -m hatchling build -t wheel

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
