# pairstream: build, test, run. `make help` lists the targets.

DATA ?=
BIN  := bin
TOOLS := $(CURDIR)/$(BIN)/tools
ARGS ?=
TORCH ?=
VERSION ?=
BEFORE ?=
PYTHON ?= /usr/bin/python3
TORCH_PIP ?=
DEMO ?=
PIP_FLOORS ?=
ARCH ?=
VENV = $(CURDIR)/$(BIN)/venv$(if $(TORCH_PIP),-$(subst =,,$(TORCH_PIP)))$(if $(PIP_FLOORS),-floors)
# The oldest packages that clients/python/pyproject.toml allows, as far as there are wheels for Debian's Python. Debian's
# PyTorch and Pillow are the oldest, too; transformers wants newer ones than these.
FLOORS := confluent-kafka==2.5.3 msgpack==1.0.0 numpy==1.23.2 safetensors==0.4.0 fsspec==2022.11.0 pyarrow==14.0.1
# The latest open_clip for Debian's PyTorch, and what its training script imports. pip knows no torchvision for that PyTorch;
# the one here lacks its operators, which nothing uses.
OPEN_CLIP := open_clip_torch==2.24.0 timm==0.9.16 torchvision==0.15.2 webdataset==0.2.86 braceexpand ftfy wcwidth regex 'pandas<2.3' pytz tzdata python-dateutil six
# Jars of an Apache Kafka server, where the tests on a real cluster look for them.
KAFKA_JARS := $(BIN)/kafka/$(shell sha256sum deploy/kafka/pom.xml | cut -c 1-16)
BENCH_PAGES := README.md,docs/benchmarks.md,docs/scaling.md
FIGURES = $(CURDIR)/$(BIN)/figures-$@.txt

# Tests run through a program that lists the skipped ones at the end; in CI it fails on one that .ci/skips does not name.
# Where files outside the repository decide, the test cache would not see that they have changed.
GO_TEST := .ci/gotest $(if $(PAIRSTREAM_GOLDEN)$(PAIRSTREAM_FLICKR),-count=1)
# Packages without tensors: they build without cgo, and their tests run with the race detector. The second list is the lab's.
MODULE := github.com/pairstream/pairstream
NATIVE := $(MODULE)/internal/\(model/torch\|model/ranks/nccl\|neighbors/faiss\|neighbors/knn/cpu\)
TENSORLESS = $(call tensorless,.)
TENSORLESS_LAB = $(call tensorless,lab)
tensorless = $(shell go -C $(1) list -f '{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | grep -v '$(NATIVE)' | cut -d ' ' -f 1)
FUZZ ?= 3000x
# What kills processes and brokers under load.
SCENARIOS := TestSuite|TestCrash|TestTwoOwners|TestBrokerKilled|TestEveryStageKilled|TestProducerKilled|TestIngestKilled|TestWatchersKilled|TestFetcherKilled|TestFilterKilled|TestTrainerOnAFullDisk|TestBatchesOnAFullDisk

# pairstream itself is static, and small enough to start in milliseconds: no symbols, and no gRPC to Cloud Storage, which
# nothing asks for. Under the name of a stage it is that stage. Without cgo in net and os/user, pairstream-tensors is made
# of the same compiled packages.
GO_TAGS := disable_grpc_modules,netgo,osusergo
STATIC := CGO_ENABLED=0 go build -tags $(GO_TAGS) -ldflags "-s -w"
STAGES := encoder indexer grouper discriminator trainer

# What computes with tensors, and the flags of deploy/Dockerfile.cuda for a libtorch that is not the system's.
TENSORS := ./internal/model/torch ./internal/neighbors/knn/device ./internal/model/model ./internal/model/ranks/nccl ./encoder ./discriminator ./trainer
TORCH_LIB = $(abspath $(TORCH))/lib
TORCH_FLAGS = CGO_CXXFLAGS="-O3 -std=c++17 -ffile-prefix-map=$(abspath $(TORCH))=/torch -I$(abspath $(TORCH))/include -I$(abspath $(TORCH))/include/torch/csrc/api/include" \
	CGO_LDFLAGS="-L$(TORCH_LIB) -Wl,-rpath,$(TORCH_LIB) -Wl,--allow-shlib-undefined -Wl,--as-needed"

.DEFAULT_GOAL := help
.PHONY: help setup build build-lab languages wheel test-wheel test-arm64 release test-release test-install site test-site demo experiments first-models test test-lab test-quick test-towers test-race test-commands torture test-torch test-device test-log test-s3 test-operator test-kafka test-python test-compose test-console test-helm helm-readme pack-gpu test-pack-gpu fuzz mutants asan vulncheck bench bench-gpu bench-short simulate lint lint-static fmt docs check-generated clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing from Debian's packages
	@deploy/setup.sh

build: ## build pairstream and pairstream-tensors into bin/, with a link of each stage's name
	@mkdir -p $(BIN)
	@# The static program needs none of Debian's packages: it is compiled while they are installed.
	@deploy/setup.sh & setup=$$!; echo '$(STATIC) -o $(BIN)/pairstream ./services/pairstream'; \
	$(STATIC) -o $(BIN)/pairstream ./services/pairstream; built=$$?; wait $$setup && exit $$built
	@# The linker's file lies in the page cache in larger pieces than a copy, and its processes would take 5 MB more.
	@cp $(BIN)/pairstream $(BIN)/pairstream.$$$$ && mv $(BIN)/pairstream.$$$$ $(BIN)/pairstream
	go build -tags $(GO_TAGS) -o $(BIN)/pairstream-tensors ./services/pairstream
	@for stage in $(STAGES); do ln -sf pairstream $(BIN)/$$stage; done

build-lab: setup ## build the programs of the lab into bin/lab/: bench, simulate, experiments and what makes their pages
	@mkdir -p $(BIN)/lab
	go -C lab build -o $(CURDIR)/$(BIN)/lab/ ./...

languages: ## write bin/languages.zip, the models that tell the language of captions, from the Go module that brings them
	@mkdir -p $(BIN)
	go run ./internal/content/language/pack $(BIN)/languages.zip

wheel: setup $(BIN)/venv-release ## build the wheels and the source distribution into bin/dist, with bindings for PyPI's PyTorch; ARCH=arm64 for another machine
	@[ -z "$(ARCH)" ] || deploy/setup.sh cross
	ARCH="$(ARCH)" PYTHON=$(CURDIR)/$(BIN)/venv-release/bin/python deploy/wheel/build.sh $(patsubst v%,%,$(or $(VERSION),0.1.0)) $(BIN)/dist

test-wheel: wheel ## install the wheels in a fresh virtual environment, run them on each PyTorch, remove them; TORCH_PIP="torch==2.15.0" for the whole of one, PYTHON= for another Python, DEMO="--short --check" for a longer demo
	PYTHON=$(PYTHON) TORCH_PIP="$(TORCH_PIP)" DEMO="$(DEMO)" deploy/wheel/test.sh $(BIN)/dist $(BIN)/test-wheel

test-arm64: ## build the wheel for arm64, and let it train two steps and measure here, under qemu
	$(MAKE) wheel ARCH=arm64
	deploy/wheel/emulate.sh arm64 $(BIN)/dist $(BIN)/test-arm64

release: setup $(BIN)/venv-release $(TOOLS)/helm $(TOOLS)/cyclonedx-gomod ## build a release into dist/: VERSION=v0.1.0; ARCH=arm64 adds a wheel, a tar and an image for arm64, CUDA=1 an image for NVIDIA GPUs; RELEASE_KEY= names minisign's secret key, to sign the sums
	@deploy/setup.sh release
	@[ -z "$(ARCH)" ] || deploy/setup.sh cross
	ARCH="$(ARCH)" CUDA="$(CUDA)" PYTHON=$(CURDIR)/$(BIN)/venv-release/bin/python TOOLS=$(TOOLS) deploy/release/build.sh "$(VERSION)" dist

test-release: setup $(BIN)/venv-release $(TOOLS)/helm $(TOOLS)/cyclonedx-gomod ## build a release twice, from two clones, and compare the bytes; CACHED=1 takes compiled packages from the cache
	deploy/release/test.sh $(BIN)/test-release

test-install: ## install dist/ in clean roots of Debian 12 and 13, run it, upgrade to it, remove it; needs root; BEFORE=package of the release before
	@[ -n "$$(ls dist/*.deb 2>/dev/null)" ] || { echo "dist/ has no release: make release VERSION=v0.1.0 first" >&2; exit 2; }
	BEFORE="$(BEFORE)" deploy/release/install.sh dist

$(BIN)/venv-release: deploy/wheel/requirements.txt
	@deploy/setup.sh python
	@rm -rf $@ && $(PYTHON) -m venv $@
	@$@/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

site: $(BIN)/venv-site ## build the documentation as a site, bin/site/VERSION or bin/site/main, and check its links
	VERSION="$(VERSION)" NO_MKDOCS_2_WARNING=1 $(BIN)/venv-site/bin/mkdocs build -f deploy/site/mkdocs.yml -d $(CURDIR)/$(BIN)/site/$(or $(VERSION),main)

test-site: site $(TOOLS)/axe/axe.min.js ## open every page of the site in a headless Chromium: three widths, accessibility, requests to other hosts; ARGS="-shots DIR" for screenshots
	@deploy/setup.sh console
	PAIRSTREAM_SITE=$(CURDIR)/$(BIN)/site/$(or $(VERSION),main) PAIRSTREAM_AXE=$(TOOLS)/axe/axe.min.js $(GO_TEST) -tags console -count=1 -timeout 10m ./internal/testing/site $(ARGS)

$(BIN)/venv-site: deploy/site/requirements.txt
	@deploy/setup.sh python
	@rm -rf $@ && $(PYTHON) -m venv $@
	@$@/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

demo: build ## run the whole pipeline and show the result; DATA=folder-of-tars for your own pairs
	@$(BIN)/pairstream demo $(if $(DATA),--data $(DATA)) $(ARGS)

experiments: build-lab ## repeat findings of the papers where the truth is known, and write docs/experiments.md; ARGS=--only=x1 for one, ARGS=--short for the way alone
	@case '$(ARGS)' in *--photographs*) deploy/setup.sh python ;; esac
	@$(BIN)/lab/lab experiments --out lab/experiments/results $(ARGS)
	@$(BIN)/lab/page

first-models: build-lab ## make anew the first models that the demo and the experiments X2 and X14 begin with; two hours of one core
	@TORCH_THREADS=1 $(BIN)/lab/lab experiments --first-models internal/demo/models

test: setup ## run all tests of the product that need no external server; test-lab runs the lab's
	@# The scenarios take longest, and mostly wait: they begin first, beside everything else and one package more than cores. So do what takes long on one core.
	$(GO_TEST) -p $$(($$(nproc) + 1)) -timeout 30m ./services/pairstream ./internal/log/stream ./...

test-lab: setup ## run the tests of the lab: the experiments' plans, small, the bench and the simulations
	cd lab && ../$(GO_TEST) -p $$(($$(nproc) + 1)) -timeout 30m ./experiments ./...

test-quick: setup ## run the tests of packages without tensors, but for scenarios and simulations: after every change
	$(GO_TEST) -p $$(($$(nproc) + 1)) -skip '$(SCENARIOS)' ./internal/log/stream $(TENSORLESS)

test-towers: setup ## install the towers of experiment X9, 100 MB of PyPI, and compare them with their authors' code
	@deploy/setup.sh python
	cd lab && PAIRSTREAM_TOWERS=$(CURDIR)/data/experiments ../$(GO_TEST) -count=1 -run 'TestArchive' ./experiments/towers

test-race: setup ## run the tests of packages without tensors with the race detector
	$(GO_TEST) -race ./internal/log/stream $(filter-out %/internal/lint %/internal/demo/scenes,$(TENSORLESS))
	cd lab && ../$(GO_TEST) -race $(TENSORLESS_LAB)

test-commands: build build-lab ## run the commands that train, fine-tune and measure, small, on generated scenes
	deploy/test/commands.sh $(CURDIR)/$(BIN)/pairstream $(CURDIR)/$(BIN)/lab/lab

fuzz: setup ## run every fuzz target for a moment; FUZZ=500000x for longer
	@mkdir -p $(BIN); for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$target"; \
			go -C $$(dirname $$file) test . -run xxx -fuzz "^$$target$$" -fuzztime $(FUZZ) -fuzzminimizetime 200x >$(BIN)/fuzz.txt 2>&1 || { cat $(BIN)/fuzz.txt; exit 1; }; \
		done; done

mutants: setup ## break the code in every way that internal/testing/mutants lists, and see that tests notice; ONLY=REGEXP for some
	go test -tags mutants -count=1 -timeout 180m -v -run 'TestMutants$$' ./internal/testing/mutants $(if $(ONLY),-only="$(ONLY)")

asan: setup ## run the tests of what calls C and C++ with the address sanitizer
	@# go test -asan instruments C; the flags do the same for C++.
	CGO_CXXFLAGS="-O2 -g -fsanitize=address" ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0 go test -asan -count=1 ./internal/content/jpeg ./internal/content/imaging ./internal/neighbors/knn/cpu ./internal/neighbors/faiss ./internal/model/torch

vulncheck: setup $(TOOLS)/govulncheck ## look for known vulnerabilities in what is called; needs vuln.go.dev
	@{ $(TOOLS)/govulncheck ./... && $(TOOLS)/govulncheck -C lab ./...; } >$(BIN)/vulncheck.txt 2>&1; code=$$?; cat $(BIN)/vulncheck.txt; \
	if [ $$code != 0 ] && grep -q 'vuln\.go\.dev' $(BIN)/vulncheck.txt && ! grep -q '^Vulnerability' $(BIN)/vulncheck.txt; \
		then echo "NOT CHECKED for vulnerabilities: vuln.go.dev cannot be reached from here"; else exit $$code; fi

torture: setup ## send the pipeline everything that strangers may send, and print what it cost
	@mkdir -p $(BIN) && rm -f $(FIGURES)
	PAIRSTREAM_FIGURES=$(FIGURES) $(GO_TEST) -tags torture -p 1 -count=1 -timeout 30m -run TestTorture ./internal/testing/torture ./internal/crawl/fetch ./internal/crawl/ingest ./services/pairstream
	@cat $(FIGURES)

test-torch: setup ## run the tests of what computes with tensors on another libtorch: TORCH=folder with its include and lib, such as torch in a PyTorch wheel; PAIRSTREAM_TEST_DEVICE=cuda on a GPU
	@[ -f "$(TORCH_LIB)/libtorch_cpu.so" ] || { echo "no $(TORCH_LIB)/libtorch_cpu.so: want TORCH=folder with include and lib; pip install --target DIR torch makes DIR/torch" >&2; exit 2; }
	$(TORCH_FLAGS) LD_LIBRARY_PATH="$(TORCH_LIB)" go test $(TENSORS)

test-device: setup ## run the tests of what computes with tensors on a device that has a GPU's rules, and fails where a GPU would
	PAIRSTREAM_TEST_DEVICE=testdevice $(GO_TEST) -tags testdevice $(TENSORS)

pack-gpu: setup ## pack the bench, the tests of what computes with tensors, and pairstream for a machine with a GPU: bin/gpu; TORCH=folder of an installed PyTorch 2.11
	TORCH="$(if $(TORCH),$(abspath $(TORCH)))" deploy/gpu/pack.sh $(CURDIR)/$(BIN)/gpu

test-pack-gpu: ## pack for a GPU, and run here from the archive what needs none
	PRESET=0 $(MAKE) -s pack-gpu
	@torch="$(if $(TORCH),$(abspath $(TORCH)),$${XDG_CACHE_HOME:-$$HOME/.cache}/pairstream/torch-2.11.0/torch)"; \
	cd $(BIN)/gpu && TORCH_LIB="$$torch/lib" DEVICE=cpu OUT=out LIMIT=800 sh run.sh check+cpu

test-log: setup ## run the log's scenarios on the embedded broker and print what they survived; SOAK=1 for many more faults
	@mkdir -p $(BIN) && rm -f $(FIGURES)
	PAIRSTREAM_FIGURES=$(FIGURES) $(GO_TEST) -p 1 -count=1 -timeout 120m -run '$(SCENARIOS)' ./internal/log/stream ./services/pairstream
	@cat $(FIGURES)

test-operator: setup ## play 200 random sequences of operators' actions on the embedded broker; SOAK=1 for an hour
	@mkdir -p $(BIN) && rm -f $(FIGURES)
	@# Four runs of 50. Their seeds are as far apart as those of the long form: seedStep in operator_test.go.
	for seed in $(or $(SOAK_SEED),$(if $(SOAK),1,1 1048577 2097153 3145729)); do \
		SOAK_SEED=$$seed PAIRSTREAM_FIGURES=$(FIGURES) $(GO_TEST) -count=1 -timeout 70m -run 'TestOperator$$' ./services/pairstream || exit 1; \
	done
	@cat $(FIGURES)

test-s3: setup $(TOOLS)/versitygw $(TOOLS)/fake-gcs-server ## run what reads, watches and fills buckets on a real S3 server, versitygw, and what reads them on an emulator of Google's
	PAIRSTREAM_VERSITYGW=$(TOOLS)/versitygw PAIRSTREAM_FAKE_GCS=$(TOOLS)/fake-gcs-server $(GO_TEST) -tags s3 -count=1 -timeout 10m -run 'S3|GCS' ./internal/crawl/shard/cloud ./internal/crawl/producer ./internal/neighbors/segment/store ./internal/crawl/repack ./indexer/service ./trainer/service ./services/pairstream

test-kafka: setup $(TOOLS)/versitygw ## run the same scenarios on a real cluster: Apache Kafka, three brokers, on Java 17 and Maven, beside an S3 server; SOAK=1 for longer
	@deploy/setup.sh kafka
	@mkdir -p $(BIN) && rm -f $(FIGURES)
	$(GO_TEST) -tags kafka -count=1 -timeout 20m ./internal/testing/kafkatest/
	PAIRSTREAM_FIGURES=$(FIGURES) PAIRSTREAM_VERSITYGW=$(TOOLS)/versitygw $(GO_TEST) -tags kafka,s3 -p 1 -count=1 -timeout 120m -run Kafka ./internal/log/stream ./services/pairstream
	@cat $(FIGURES)

test-python: build ## test the Python package in a virtual environment: linters, types, coverage, against this build; PYTHON=, TORCH_PIP="torch==2.11.0" for another PyTorch than Debian's, PIP_FLOORS=1 for the oldest packages that are allowed
	@deploy/setup.sh python
	@mkdir -p $(BIN) && rm -rf $(VENV) && $(PYTHON) -m venv $(if $(TORCH_PIP),,--system-site-packages) $(VENV)
	@$(VENV)/bin/pip install -q --disable-pip-version-check -e 'clients/python[test]' safetensors fsspec pillow $(if $(PIP_FLOORS),$(FLOORS),$(if $(TORCH_PIP),$(TORCH_PIP) torchdata 'transformers>=5' accelerate sentencepiece 'open_clip_torch[training]' mlflow-skinny wandb,'transformers<4.40' 'accelerate<0.30' sentencepiece 'pyarrow<20'))
	$(if $(PIP_FLOORS)$(TORCH_PIP),,@$(VENV)/bin/pip install -q --disable-pip-version-check --no-deps $(OPEN_CLIP))
	cd clients/python && $(VENV)/bin/ruff check . && $(VENV)/bin/mypy
	cd clients/python && TMPDIR=$$(../../.ci/tmpdir) OMP_NUM_THREADS=1 PAIRSTREAM_BIN=$(CURDIR)/$(BIN)/pairstream $(VENV)/bin/python -m pytest -q --cov --cov-fail-under=90
	PAIRSTREAM_PYTHON=$(VENV)/bin/python $(GO_TEST) -count=1 ./clients/python

test-compose: setup ## build the images, bring the compose stack up, kill containers and account for every pair; needs root or a Docker engine
	@trap '$(CURDIR)/deploy/test/prepare-images.sh stop' EXIT; trap 'exit 130' INT TERM; \
	deploy/test/prepare-images.sh && cd deploy/test && go test -tags compose -count=1 -timeout 30m -v ./compose

test-console: setup $(TOOLS)/axe/axe.min.js ## open every page of the console in a real headless Chromium; ARGS=-rewrite stores the screenshots anew
	@deploy/setup.sh console
	PAIRSTREAM_AXE=$(TOOLS)/axe/axe.min.js $(GO_TEST) -tags console -count=1 -timeout 5m -run 'TestBrowser' ./internal/operate/console $(ARGS)

$(TOOLS)/axe/axe.min.js:
	@command -v npm >/dev/null || deploy/setup.sh npm
	@mkdir -p $(@D) && cd $(@D) && npm pack --silent axe-core@4.14.1 >/dev/null && tar xzf axe-core-4.14.1.tgz --strip-components=1 package/axe.min.js package/LICENSE && touch axe.min.js

test-helm: $(TOOLS)/helm $(TOOLS)/kubeconform ## lint and render the Helm chart, check every object; check alerts and dashboard
	cd deploy/test && PATH="$(TOOLS):$$PATH" go test -count=1 ./chart ./rules ./gocache ./compose

helm-readme: ## write the chart's README anew from its values
	cd deploy/test && go test -count=1 ./chart -run TestReadmeIsMadeFromValues -rewrite

$(TOOLS)/helm:
	GOBIN=$(TOOLS) go install helm.sh/helm/v4/cmd/helm@v4.3.2

$(TOOLS)/kubeconform:
	GOBIN=$(TOOLS) go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0

$(TOOLS)/cyclonedx-gomod:
	GOBIN=$(TOOLS) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

$(TOOLS)/versitygw:
	GOBIN=$(TOOLS) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

$(TOOLS)/fake-gcs-server:
	GOBIN=$(TOOLS) go install github.com/fsouza/fake-gcs-server@v1.56.1

$(TOOLS)/govulncheck:
	GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@v1.9.0

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The peers' current wheels, 5 GB with the CUDA libraries that PyPI's PyTorch brings. MosaicML Streaming's own list of packages
# has the clients of every cloud: it gets what it imports.
$(BIN)/venv-peers: lab/bench/peers/requirements.txt clients/python/pyproject.toml
	@deploy/setup.sh python
	@rm -rf $@ && $(PYTHON) -m venv $@
	@$@/bin/pip install -q --disable-pip-version-check -e "clients/python[kafka]" -r lab/bench/peers/requirements.txt
	@$@/bin/pip install -q --disable-pip-version-check --no-deps mosaicml-streaming==0.13.0
	@touch $@

$(BIN)/venv-fetch:
	@deploy/setup.sh python
	@rm -rf $@ && $(PYTHON) -m venv $@
	@$@/bin/pip install -q --disable-pip-version-check img2dataset==1.47.0
	@touch $@

$(KAFKA_JARS): deploy/kafka/pom.xml
	@deploy/setup.sh kafka
	@mkdir -p $(BIN)/kafka && rm -rf $@ $@.partial
	@mvn -q -B -Dstyle.color=never -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$@.partial && mv $@.partial $@ && touch $@

bench: build build-lab $(BIN)/venv-peers $(BIN)/venv-fetch $(TOOLS)/versitygw $(KAFKA_JARS) ## measure everything beside the best of today's peers, an hour on two cores; installs Debian's python3-torch, python3-faiss, python3-pil, Java and Maven, and current wheels of PyPI, 3 GB; ARGS=--only=row,row
	@deploy/setup.sh peers
	$(BIN)/lab/bench $(ARGS)
	$(BIN)/lab/bench --write $(BENCH_PAGES)

bench-gpu: build build-lab ## measure on a GPU what GPUs are for, up to groups of five million pairs, and write lab/bench/gpu.md; DEVICE=cuda:N, ARGS=--only=row,row
	$(BIN)/lab/bench --device $(or $(DEVICE),cuda) $(ARGS)

simulate: build-lab ## play a cluster of 40 lanes on one machine, and write what docs/scaling.md shows; ARGS="--only idle,kills,reads,bytes,plan,ranks,overlap"
	$(BIN)/lab/simulate $(ARGS)
	$(BIN)/lab/simulate --write docs/scaling.md

bench-short: build-lab ## run every measurement once at a small size, for its results alone; the peers are Debian's, and current wheels where `make bench` has installed them
	@deploy/setup.sh peers
	$(BIN)/lab/bench --short $(ARGS)
	$(BIN)/lab/bench --short --device cpu

# Under -trimpath Go caches what cgo writes with the paths of the checkout that compiled it first, and go vet and
# golangci-lint open those paths: they fail once that checkout is gone.
lint: export GOFLAGS += -trimpath=false
lint: setup $(TOOLS)/golangci-lint ## gofmt, go vet and the linters of .golangci.yml, with every build tag
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out" >&2; exit 1; }
	go vet ./...
	go vet -tags kafka,compose,torture,console,mutants,s3 ./...
	$(TOOLS)/golangci-lint run ./...
	go mod tidy -diff
	cd lab && go mod tidy -diff && go vet ./... && $(TOOLS)/golangci-lint run ./...
	cd deploy/test && go mod tidy -diff && go vet -tags compose ./... && $(TOOLS)/golangci-lint run ./...

lint-static: setup ## build and vet without cgo what needs no tensors
	$(STATIC) -o /dev/null ./services/pairstream
	CGO_ENABLED=0 go vet $(TENSORLESS)
	cd lab && CGO_ENABLED=0 go vet $(TENSORLESS_LAB)

fmt: $(TOOLS)/golangci-lint ## format the sources
	$(TOOLS)/golangci-lint fmt ./...
	cd lab && $(TOOLS)/golangci-lint fmt ./...

docs: build build-lab ## write the generated parts of docs/ anew: settings from the env structs, commands from their help, recipes from internal/process/recipe, benchmarks from lab/bench/results.json, experiments from lab/experiments/results; and from the record types asyncapi.yaml and Python's records
	$(BIN)/pairstream settings --write docs/settings.md --write-names internal/process/config/settings.tsv
	$(BIN)/pairstream settings --write-recipes docs/papers.md --write-python clients/python/src/pairstream/torch/recipes.json
	$(BIN)/pairstream settings --write-commands docs/commands
	$(BIN)/lab/bench --write $(BENCH_PAGES)
	$(BIN)/lab/page
	$(BIN)/lab/simulate --write docs/scaling.md
	@go test -count=1 ./schemas -rewrite

check-generated: build ## write everything anew that is made from code, and fail when that changes a file
	@git diff >$(BIN)/before.diff
	@$(MAKE) -s docs helm-readme
	@git diff >$(BIN)/after.diff
	@cmp -s $(BIN)/before.diff $(BIN)/after.diff || { git diff --stat; echo "what is made from code was not up to date; it is now" >&2; exit 1; }

clean: ## remove what was built
	rm -rf $(BIN)
