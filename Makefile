# The main job is `make run`; `make test` installs what the tests need and runs all of them.
# What is built stays in the clone, in target/; downloads of the tests are shared by all clones, in ~/.cache/weir.
SHELL := /bin/bash
export CARGO_TARGET_DIR ?= $(CURDIR)/target
PREFIX ?= $(HOME)/.local
# What `run`, `build` and `install` build: release, dist, or dev (the tests' build, in target/debug).
PROFILE ?= release
BUILT = $(CARGO_TARGET_DIR)/$(patsubst dev,debug,$(PROFILE))
# The programs of `dev` are those of the tests, with the features of what they depend on as the tests have them: nothing is built twice.
PROGRAMS = $(if $(filter dev,$(PROFILE)),--workspace --bin weir --bin gauge --example describe,-p weir -p gauge)

.DEFAULT_GOAL := help
.PHONY: help run services build dist install uninstall deb test test-pages test-fast lint conformance conformance-kubernetes gauge-machines bench perf-baseline perf-cached perf-report perf-all producers producers-sqlx fuzz kills books soak clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

run: ## build the gateway and start it on :8080 with embedded demo upstreams
	@cargo build --profile "$(PROFILE)" --locked $(if $(filter dev,$(PROFILE)),$(PROGRAMS),-p weir)
	@ADMIN_ADDR="$${ADMIN_ADDR-127.0.0.1:0}" exec "$(BUILT)/weir" $(ARGS)

services: ## start the reference services with Weir in front; Ctrl-C stops all of them
	@exec scripts/services

build: ## build both programs, into target/release
	cargo build --profile "$(PROFILE)" --locked $(PROGRAMS)

dist: ## build both programs as they are shipped and measured, into target/dist (minutes)
	cargo build --profile dist --locked -p weir -p gauge

install: build ## put both programs and their completions into PREFIX (default ~/.local)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" PROFILE="$(PROFILE)" scripts/install

uninstall: ## remove what install put there
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install --uninstall

deb: dist ## make a Debian package of both programs, in target/deb
	@scripts/deb

test: ## install what the tests need, run all tests of all languages (SUITES="rust ..." for some)
	@scripts/test $(SUITES)

test-pages: ## every command of the documentation, also those that take minutes
	@PAGES_LONG=1 scripts/test pages

test-fast: ## tests that need nothing but Rust, Python and bash (minutes)
	@scripts/test-fast

lint: ## formatting, lints, licences of every language
	@scripts/lint $(LINTS)

conformance: ## conformance of HTTP/2, gRPC, WebSocket and TLS by the published suites, and interoperability (SUITES="h2spec ..." for some)
	@scripts/conformance $(SUITES)

conformance-kubernetes: ## the conformance suite of the Gateway API against `weir kubernetes` (root and Go; builds a Kubernetes API server once)
	@scripts/kube conformance

gauge-machines: ## `gauge run` on machines that the real OpenTofu makes (Go; builds OpenTofu once)
	@scripts/gauge-machines

bench: ## gauge compares all gateways that are here (BENCHES=NAME for another measurement; needs an idle machine)
	@scripts/bench $(BENCHES)

perf-baseline: ## k6 on the inference gateway without its cache (BASE_URL, K6_SUMMARY_OUT, PERF_OUT)
	@scripts/perf baseline

perf-cached: ## the same with the cache
	@scripts/perf cached

perf-report: ## compare the two: Markdown, JSON, CSV
	@scripts/perf report

perf-all: ## all three
	@scripts/perf all

# The names that users of the earlier project type: make perf:baseline, perf:cached, perf:report, perf:all.
.PHONY: perf\:baseline perf\:cached perf\:report perf\:all
perf\:baseline: perf-baseline
perf\:cached: perf-cached
perf\:report: perf-report
perf\:all: perf-all

producers: ## start the event-ingestion services with a PostgreSQL (SERVICES="rust-rest ..." for some)
	@scripts/producers $(SERVICES)

producers-sqlx: ## make the committed query data of the Rust event services again
	@services/producer/rust-core/prepare.py

fuzz: ## fuzz every parser for FUZZ_SECONDS each (default 60)
	@scripts/fuzz

kills: ## kill a campaign of gauge at KILLS (default 50) random moments, and complete it each time (minutes)
	GAUGE_KILLS="$(or $(KILLS),50)" cargo test --locked -p gauge --test run -- run::killed --nocapture

books: ## BOOKS_CALLS (default 1000000) calls of models with faults and disconnects: what is settled must be what was reported (minutes)
	BOOKS_CALLS="$(or $(BOOKS_CALLS),1000000)" cargo test --locked -p weir --test ai -- --ignored --nocapture the_books_of_a_million_calls_balance

soak: ## long runs: hours of load, reloads and faults
	@scripts/soak

clean: ## remove what was built in this clone; downloads in ~/.cache/weir stay
	rm -rf target crates/*/fuzz/target
	find . -name .git -prune -o -type d \( -name node_modules -o -name __pycache__ \) -prune -exec rm -rf {} +
	find services load -type d -name target -prune -exec rm -rf {} +
