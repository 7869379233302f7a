# Two commands do everything: `make up` runs fusebox, `make test` checks it.

GO         ?= go
ARGS       ?=
FUZZTIME   ?= 10s
TIMEOUT    ?= 10m
PLATFORMS  := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
STATICCHECK := $(GO) tool -modfile=$(CURDIR)/tools/go.mod staticcheck
NESTED     := bench examples/queue

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: build ## build, then run the gateway and the admin listener: make up ARGS="--demo"
	@exec bin/fusebox up $(ARGS)

.PHONY: build
build: ## build bin/fusebox, with its version from git
	$(GO) build -trimpath -buildvcs=auto -o bin/ ./cmd/fusebox

.PHONY: test
test: test-deps lint cross ## install what the tests need, then check everything
	$(GO) test -race -timeout $(TIMEOUT) ./...
	@for module in $(NESTED); do (cd $$module && $(GO) test -timeout $(TIMEOUT) ./...) || exit 1; done

.PHONY: test-deps
test-deps: ## install what the tests need beyond Go, where that is possible
	scripts/install-test-deps.sh

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, go mod tidy
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || \
		{ echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...
	$(GO) mod tidy -diff
	@for module in $(NESTED); do \
		echo "lint $$module"; \
		(cd $$module && $(GO) vet ./... && $(STATICCHECK) ./... && $(GO) mod tidy -diff) || exit 1; \
	done

.PHONY: cross
cross: ## compile for every platform that is released
	@for platform in $(PLATFORMS); do \
		echo "build $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build ./... || exit 1; \
	done

.PHONY: model
model: ## check the model of the probe protocol, and that its mutants fail: docs/model
	scripts/model.sh

.PHONY: mutants
mutants: ## check the tests: each mutant of the program must make its tests fail
	$(GO) run ./scripts/mutants

.PHONY: bench
bench: build ## measure beside peers, as Markdown: make bench ARGS="circuits stores"
	cd bench && $(GO) run . $(ARGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for a while: make fuzz FUZZTIME=1m
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
