# `make train` and `make test` do all the set-up that they need; `make help` lists what else there is.
.DEFAULT_GOAL := build
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# Cargo features: `make build FEATURES=` leaves out the trainer, and with it PyTorch.
FEATURES ?= train
# Passes over the training set, and further options of `forebay train`.
EPOCHS ?= 1
TRAIN ?=
# Kills of `make test-kill`, and options of `make compare-python` and `make bench-peers`.
KILLS ?= 10
COMPARE ?=
PEERS ?=
# A word of the names of benchmarks, where only some of `make bench` are meant.
BENCH ?=
# A folder of JPEGs for `make test-jpeg`.
JPEGS ?=
# Seconds of `make fuzz` over all targets, and a word of their names where only some are meant.
FUZZ_SECONDS ?= 60
FUZZ ?=
# Lines of the lists of `make bench-scale`, where not those of 1e3 to 1e7.
SCALE ?=
# Random graphs of `make test-ptx`.
PTX_GRAPHS ?= 200
# The folder with the binary version of CIFAR-10, where it is there already.
export CIFAR10 ?=

# Outside the tree and keyed by version, so that a second clone finds it made.
export FOREBAY_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/forebay
PYTHON := $(FOREBAY_CACHE)/python-2.11.0
PEERS_PYTHON := $(FOREBAY_CACHE)/peers-dali-2.4.0
# Benchmarks of pieces are files; those in folders need a GPU or data, and scale some gigabytes.
PIECES := $(filter-out scale,$(basename $(notdir $(wildcard benches/*.rs))))
COMPARISONS = $(wildcard tests/python/test_*.py)
# Where the data folder is, with it the interpreter of compiled kernels; elsewhere their test is skipped.
INTERPRETER = $(wildcard $(or $(FOREBAY_SHARED),../shared)/tools/ptxrun.py)

CARGO_FLAGS := --release --features "$(FEATURES)"

.PHONY: help setup build train test test-python test-ptx test-sanitize test-gpu lint bench clean
.PHONY: gpu-bundle bench-peers bench-scale device-coverage compare-python test-kill test-odd test-soak test-jpeg fuzz deny

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## cmake, nasm, PyTorch: what is missing of them
	@build/setup.sh build $(if $(filter train,$(FEATURES)),torch)

build: setup ## target/release/forebay and forebay-train (the default)
	cargo build $(CARGO_FLAGS)

train: build ## a ResNet-18 on CIFAR-10 (CIFAR10=DIR, else data/, else downloaded); EPOCHS=1 TRAIN=options
	@data=$$(build/data.sh) && target/release/forebay train --data "$$data" --epochs $(EPOCHS) $(TRAIN)

test: setup ## all tests; the Python comparisons too once test-python has made their environment
	@$(if $(INTERPRETER),build/setup.sh ptx)
	cargo build --release -p softgpu
	cargo test --release -p softgpu
	cargo test $(CARGO_FLAGS) --no-fail-fast
	@if [ -e $(PYTHON)/complete ]; then $(MAKE) test-python; \
	else echo "skipped: $(or $(COMPARISONS),tests/python) (type make test-python once to have them)"; fi

test-python: build ## the comparisons with torchvision, Pillow and NumPy, in an environment of their own
	@build/setup.sh python
	@if [ -n "$(COMPARISONS)" ]; then $(PYTHON)/bin/python -m pytest -q tests/python; \
	else echo "*** tests/python holds no test_*.py: nothing was compared"; fi

test-ptx: setup ## the compiled PTX in an interpreter, over more random graphs than test has: PTX_GRAPHS=200
	@$(if $(INTERPRETER),build/setup.sh ptx)
	@FOREBAY_PTX_GRAPHS=$(PTX_GRAPHS) cargo test $(CARGO_FLAGS) --test ptx -- --nocapture

test-soak: setup ## 200 epochs over 2,000 files of which 5% are damaged: memory and open files stay flat
	@FOREBAY_SOAK=1 cargo test $(CARGO_FLAGS) --test soak -- --nocapture

test-odd: setup ## odd images and label lists of the data folder, file by file: verdict, time, peak memory
	@cargo test $(CARGO_FLAGS) --test odd -- --nocapture

test-jpeg: setup ## our JPEG decoder beside libjpeg-turbo: 20,000 random pictures and parts, 200,000 mutated files, JPEGS=folder
	@FOREBAY_JPEGS="$(JPEGS)" cargo test $(CARGO_FLAGS) --test decoder -- own:: gpu:: --include-ignored --nocapture

test-sanitize: setup ## kernels over random plans and decoder over damaged files, under ASan and UBSan
	@cargo test $(CARGO_FLAGS) --test kernels sanitize -- --nocapture
	@cargo test $(CARGO_FLAGS) --test sanitize -- --ignored --nocapture

fuzz: setup ## hostile input for each parser: FUZZ_SECONDS=60, FUZZ=name
	@python3 -B build/coverage/fuzz.py $(FUZZ_SECONDS) "$(FUZZ)" $(CARGO_FLAGS)

deny: ## licences, sources and known faults of what Cargo.lock names
	@build/deny.sh

test-gpu: setup ## the tests that need a GPU, on this machine's; fails where there is none
	FOREBAY_REQUIRE_GPU=1 cargo test $(CARGO_FLAGS) --no-fail-fast --test device --test train

gpu-bundle: setup ## target/gpu-bundle.tar.gz: tests and programs for a machine with a GPU, without cargo
	@python3 -B build/bundle.py $(CARGO_FLAGS)

device-coverage: setup ## lines of the kernels and of the CUDA side that no test runs, one by one
	@$(if $(INTERPRETER),build/setup.sh ptx)
	@python3 -B build/coverage/main.py --release

lint: setup ## formatting, clippy without, with default and with all features, documentation
	cargo fmt --all --check
	cargo clippy --release --all-targets --no-default-features -- -D warnings
	cargo clippy --release --all-targets -- -D warnings
	cargo clippy --release --all-targets --all-features -- -D warnings
	cargo clippy --release --all-targets -p softgpu -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --all-features

compare-python: build ## a ResNet-18 trained here and in Python, in turn: 3 epochs, 3 seeds, about an hour on 2 cores
	@build/setup.sh python
	@data=$$(build/data.sh) && $(PYTHON)/bin/python benches/train/compare.py "$$data" \
		"benches/results/$$(date +%F)-train" $(COMPARE)

test-kill: setup ## a run killed without warning, also within a checkpoint, and resumed: KILLS=10
	@FOREBAY_KILLS=$(KILLS) cargo test $(CARGO_FLAGS) --test train a_run_killed -- --nocapture

bench: build ## each piece by itself, then an epoch beside a plain CPU pipeline; BENCH=word: some pieces alone
	cargo bench --features "$(FEATURES)" $(addprefix --bench ,$(PIECES)) -- $(BENCH)
	@[ -n "$(BENCH)" ] || { data=$$(build/data.sh) && target/release/forebay bench --data "$$data" --baseline; }

bench-peers: build ## beside DALI, albumentations and torchvision, in turn: half an hour on 2 cores; PEERS=options
	@build/setup.sh peers
	@data=$$(build/data.sh) && $(PEERS_PYTHON)/bin/python -B benches/peers "$$data" \
		--features "$(FEATURES)" $(PEERS)

bench-scale: setup ## what lists of 1e3 to 1e7 samples cost; SCALE="100000000" for others
	@cargo bench $(CARGO_FLAGS:--release=) --bench scale -- $(SCALE)

clean: ## removes target/; what setup brought stays in the user's cache
	@cargo clean
