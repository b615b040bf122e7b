# `make demo` and `make test` are all a newcomer needs; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 1m
FUZZ ?= .
BENCH    ?= .
ARGS     ?=

PARITY   := ./grading ./grading/logparse ./datasets/swebench ./internal/patch

.PHONY: demo test build runc lint parity fuzz bench simulate clean help

demo: ## install what is missing, then grade the demo's patches (ARGS="--check" compares with what is expected)
	@settings=$$(scripts/setup.sh demo); eval "$$settings"; $(MAKE) --no-print-directory build; bin/evalrun demo $(ARGS)

test: ## install what is missing, then check the code and run all tests with the race detector
	@settings=$$(scripts/setup.sh test); eval "$$settings"; $(MAKE) --no-print-directory lint; \
	scripts/notice.sh -race; \
	EVALRUN_REQUIRE_DOCKER=1 go test -race -vet=off -timeout 40m $(ARGS) ./...

build: ## compile bin/evalrun
	@scripts/notice.sh
	@go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/evalrun ./cmd/evalrun

runc: ## compile bin/runc, where no package has an OCI runtime for --engine embedded
	@pkg-config --exists libseccomp || { echo "runc: it needs libseccomp and pkg-config: apt-get install gcc pkg-config libseccomp-dev"; exit 3; }
	@go build -C tools/runc -tags seccomp -o ../../bin/runc github.com/opencontainers/runc

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

parity: ## compare with the official harness's answers in ../shared: one line per source
	@test -d ../shared/parity || { echo "parity: ../shared/parity is not here; nothing was compared"; exit 3; }
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	if go test -count=1 -v -run '^TestParity' $(PARITY) >"$$log" 2>&1; then \
		sed -n 's/^ *[a-z0-9_]*\.go:[0-9]*: parity: //p' "$$log"; \
	else grep -v '^=== ' "$$log"; exit 1; fi

fuzz: ## run every fuzz target for FUZZTIME (1m; CI takes 10s)
	@scripts/each.sh Fuzz | grep -E '$(FUZZ)' | while read -r package target; do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package </dev/null; done

bench: ## run the benchmarks whose names match BENCH and print their figures
	@go test -run '^$$' -bench '$(BENCH)' -benchmem $(ARGS) $$(scripts/each.sh Benchmark | cut -d' ' -f1 | sort -u)

simulate: ## 100,000 instances on 1,000 workers, in virtual time: minutes of real time
	@EVALRUN_SIMULATION=full go test -count=1 -v -timeout 60m -run '^TestFullSimulation$$' ./internal/runner
	@go test -run '^$$' -bench '^BenchmarkAttempt$$' -benchtime 100000x -benchmem ./internal/schedule

clean: ## remove what make has built; images and caches stay
	rm -rf bin demo-run

help:
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile
