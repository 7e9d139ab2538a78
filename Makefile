# `make help` lists the targets.
PYTHON ?= python3
# Installed before everything else, so that no requirement chooses another torch. Which build the
# pin is (CPU or CUDA) depends on the package index that pip asks; TORCH=... chooses another.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
SCALE ?= paper

.PHONY: help install demo test lint clean

help: ## List the targets
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]*):.*## (.*)/  make \1	\2/' | expand -t 28

$(BIN)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[dev]" "$(TORCH)"
	touch $@

install: $(BIN)/installed ## Create .venv and install cory with everything it needs

demo: install ## Run the quickstart: CORY on movie reviews, minutes on a laptop CPU
	$(BIN)/python -m cory.train

test: install ## Run the tests
	$(BIN)/python -m pytest

lint: install ## Style and types
	$(BIN)/ruff check cory scripts tests
	$(BIN)/ruff format --check cory scripts tests
	$(BIN)/mypy

reproduce-%: install ## Run a sweep and write its table: make reproduce-cory-fig3 SCALE=small
	$(BIN)/python -m cory.train sweep=$(subst -,/,$*) scale=$(SCALE)
	$(BIN)/python scripts/table.py $(subst -, ,$*) --scale $(SCALE)

clean: ## Remove the virtual environment
	rm -rf $(VENV)
