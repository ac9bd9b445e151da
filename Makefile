# pairstream: build, test, run. `make help` lists the targets.

DATA ?=
BIN  := bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-kafka lint fmt readme clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing from Debian's packages
	@deploy/setup.sh

build: setup ## build every binary into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./services/...

demo: build ## run the whole pipeline and show the result; DATA=folder-of-tars for your own pairs
	@$(BIN)/pairstream demo $(if $(DATA),--data $(DATA)) $(ARGS)

test: setup ## run all tests that need no external server
	go test ./...

test-kafka: setup ## run the log's tests on a real cluster: Apache Kafka, three brokers, on Java 17 and Maven; SOAK=1 for longer
	go test -tags kafka -count=1 -timeout 60m ./internal/kafkatest/ ./internal/stream/

lint: setup ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out" >&2; exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@2026.1 ./...

fmt: ## format the sources
	gofmt -w $$(git ls-files '*.go')

readme: build ## write the README's settings table anew from the env structs
	$(BIN)/pairstream settings --write README.md

clean: ## remove what was built and the demo's data
	rm -rf $(BIN) data
