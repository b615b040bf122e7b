# `make demo` and `make test` are all a newcomer needs; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 20s
BENCH    ?= .
ARGS     ?=

.PHONY: demo test build lint fuzz bench clean help

demo: ## install what is missing, then grade the demo's patches (ARGS="--check" compares with what is expected)
	@settings=$$(scripts/setup.sh demo); eval "$$settings"; $(MAKE) --no-print-directory build; bin/evalrun demo $(ARGS)

test: ## install what is missing, then check the code and run all tests with the race detector
	@settings=$$(scripts/setup.sh test); eval "$$settings"; $(MAKE) --no-print-directory lint; \
	scripts/notice.sh -race; \
	EVALRUN_REQUIRE_DOCKER=1 go test -race -vet=off -timeout 15m $(ARGS) ./...

build: ## compile bin/evalrun
	@scripts/notice.sh
	@go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/evalrun ./cmd/evalrun

lint: bin/staticcheck ## gofmt, go vet, staticcheck
	@scripts/notice.sh; echo "checking: gofmt, go vet, staticcheck"
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	@go vet ./...
	@bin/staticcheck ./...

# Its own module, so that its dependencies are none of ours.
bin/staticcheck: tools/go.mod tools/go.sum
	@echo "compiling staticcheck"; go build -C tools -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@touch bin/staticcheck

fuzz: ## run every fuzz target for FUZZTIME (20s)
	@scripts/each.sh Fuzz | while read -r package target; do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package </dev/null; done

bench: ## run the benchmarks whose names match BENCH and print their figures
	@go test -run '^$$' -bench '$(BENCH)' -benchmem $(ARGS) $$(scripts/each.sh Benchmark | cut -d' ' -f1 | sort -u)

clean: ## remove what make has built; images and caches stay
	rm -rf bin demo-run

help:
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile
