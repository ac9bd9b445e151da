# pairstream: build, test, run. `make help` lists the targets.

DATA ?=
BIN  := bin
TOOLS := $(CURDIR)/$(BIN)/tools
ARGS ?=
TORCH ?=
FIGURES := $(CURDIR)/$(BIN)/figures.txt

# ./... leaves folders named testdata out.
PACKAGES := ./... ./testdata/scenes
# What computes with tensors, and the flags of deploy/Dockerfile.cuda for a libtorch that is not the system's.
TENSORS := ./internal/torch ./internal/tiled ./internal/model ./internal/match ./encoder ./discriminator ./trainer
TORCH_LIB = $(abspath $(TORCH))/lib
TORCH_FLAGS = CGO_CXXFLAGS="-O3 -std=c++17 -I$(abspath $(TORCH))/include -I$(abspath $(TORCH))/include/torch/csrc/api/include" \
	CGO_LDFLAGS="-L$(TORCH_LIB) -Wl,-rpath,$(TORCH_LIB)$(if $(wildcard $(TORCH_LIB)/libtorch_cuda.so), -Wl$(comma)--no-as-needed -ltorch_cuda -lc10_cuda -Wl$(comma)--as-needed)"
comma := ,

.DEFAULT_GOAL := help
.PHONY: help setup build demo experiments test test-torch test-log test-kafka test-python test-compose test-helm helm-readme bench bench-gpu bench-short lint fmt readme clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing from Debian's packages
	@deploy/setup.sh

build: setup ## build every binary into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./services/...

demo: build ## run the whole pipeline and show the result; DATA=folder-of-tars for your own pairs
	@$(BIN)/pairstream demo $(if $(DATA),--data $(DATA)) $(ARGS)

experiments: build ## repeat two claims of the papers on generated scenes, three seeds, about ten minutes; results in data/experiments.json
	@$(BIN)/pairstream experiments $(ARGS)

test: setup ## run all tests that need no external server
	go test $(PACKAGES)

test-torch: setup ## run the tests of what computes with tensors on another libtorch: TORCH=folder with its include and lib, such as torch in a PyTorch wheel
	@[ -f "$(TORCH_LIB)/libtorch_cpu.so" ] || { echo "no $(TORCH_LIB)/libtorch_cpu.so: want TORCH=folder with include and lib; pip install --target DIR torch makes DIR/torch" >&2; exit 2; }
	$(TORCH_FLAGS) LD_LIBRARY_PATH="$(TORCH_LIB)" go test $(TENSORS)

test-log: setup ## run the log's scenarios on the embedded broker and print what they survived; SOAK=1 for many more faults
	@mkdir -p $(BIN) && rm -f $(FIGURES)
	PAIRSTREAM_FIGURES=$(FIGURES) go test -p 1 -count=1 -timeout 120m -run 'TestSuite|TestCrash|TestTwoOwners|TestBrokerKilled|TestEveryStageKilled|TestTrainerOnAFullDisk' ./internal/stream ./services/pairstream
	@cat $(FIGURES)

test-kafka: setup ## run the same scenarios on a real cluster: Apache Kafka, three brokers, on Java 17 and Maven; SOAK=1 for longer
	@mkdir -p $(BIN) && rm -f $(FIGURES)
	go test -tags kafka -count=1 -timeout 20m ./internal/kafkatest/
	PAIRSTREAM_FIGURES=$(FIGURES) go test -tags kafka -p 1 -count=1 -timeout 120m -run Kafka ./internal/stream ./services/pairstream
	@cat $(FIGURES)

test-python: setup ## test the Python clients in a virtual environment, but for what needs torch; skipped with a message where pip cannot install its packages
	@if python3 -m venv $(BIN)/venv && $(BIN)/venv/bin/pip install -q --disable-pip-version-check -r clients/python/requirements.txt; \
		then PAIRSTREAM_PYTHON=$(CURDIR)/$(BIN)/venv/bin/python go test -count=1 -skip Convert ./clients/python; \
		else echo "skipped: python3 with venv and pip could not install clients/python/requirements.txt"; fi

test-compose: setup ## build the images, bring the compose stack up, kill containers and account for every pair; needs root or a Docker engine
	@trap '$(CURDIR)/deploy/test/prepare-images.sh stop' EXIT; trap 'exit 130' INT TERM; \
	deploy/test/prepare-images.sh && cd deploy/test && go test -tags compose -count=1 -timeout 30m -v ./compose

test-helm: $(TOOLS)/helm $(TOOLS)/kubeconform ## lint and render the Helm chart, check every object; check alerts and dashboard
	cd deploy/test && PATH="$(TOOLS):$$PATH" go test -count=1 ./chart ./rules ./gocache

helm-readme: ## write the chart's README anew from its values
	cd deploy/test && go test -count=1 ./chart -run TestReadmeIsMadeFromValues -rewrite

$(TOOLS)/helm:
	GOBIN=$(TOOLS) go install helm.sh/helm/v3/cmd/helm@v3.19.0

$(TOOLS)/kubeconform:
	GOBIN=$(TOOLS) go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

bench: build ## measure everything beside its peers, half an hour on two cores; installs Debian's python3-torch, python3-faiss, python3-pil; ARGS=--only=row,row
	@deploy/setup.sh peers
	go build -o $(BIN)/bench ./bench
	$(BIN)/bench $(ARGS)
	$(BIN)/bench --write README.md,docs/scaling.md

bench-gpu: build ## measure on a GPU what GPUs are for, up to groups of five million pairs, and write bench/gpu.md; DEVICE=cuda:N, ARGS=--only=row,row
	go build -o $(BIN)/bench ./bench
	$(BIN)/bench --device $(or $(DEVICE),cuda) $(ARGS)

bench-short: setup ## run every measurement once at a small size, for its results alone
	@deploy/setup.sh peers
	@mkdir -p $(BIN)
	go build -o $(BIN)/bench ./bench
	$(BIN)/bench --short $(ARGS)
	$(BIN)/bench --short --device cpu

lint: setup $(TOOLS)/golangci-lint ## gofmt, go vet and the linters of .golangci.yml
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out" >&2; exit 1; }
	go vet $(PACKAGES)
	$(TOOLS)/golangci-lint run $(PACKAGES)

fmt: $(TOOLS)/golangci-lint ## format the sources
	$(TOOLS)/golangci-lint fmt $(PACKAGES)

readme: build ## write the README's settings table anew from the env structs
	$(BIN)/pairstream settings --write README.md

clean: ## remove what was built and the demo's data
	rm -rf $(BIN) data
