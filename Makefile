# Steward. `make run` needs Go alone; `make test` gets what else it needs.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 30s
GO       ?= go
SEED     := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))

# Everything is compiled with the flags of scripts/build, and so only once.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=grpcnotrace)

# long adds the tests that make test leaves out.
long := -tags=grpcnotrace,long

.PHONY: run build test test-long check vulncheck bench bench-cluster fuzz chaos chaos-trees chaos-cluster hostile properties histories docs pictures clean

## run: build Steward and open a chat; without a terminal, serve
run: build
	@if [ -t 0 ] && [ -t 1 ]; then exec ./bin/steward chat; else exec ./bin/steward serve; fi

build:
	@GO='$(GO)' VERSION='$(VERSION)' scripts/build -o bin/steward ./cmd/steward

## test: the tests but the long ones, with the race detector where goroutines share memory
test:
	@GO='$(GO)' scripts/test

## check: format, vet, staticcheck, import floors, generated files
check:
	@GO='$(GO)' scripts/check

## vulncheck: known vulnerabilities of what the code calls; needs the network, or VULNDB=file:///…
vulncheck:
	@$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) -tags=grpcnotrace ./...

## bench: Steward beside a bare loop, one very long conversation, and 1,000 open pages
bench:
	@$(GO) run ./bench
	@$(GO) run ./bench/long
	@$(GO) run ./bench/page

## bench-cluster: the same load on one node, and on clusters of one, two and four; 10,000 WebSockets over three
bench-cluster:
	@$(GO) run ./bench/cluster

## fuzz: each fuzz target for FUZZTIME
fuzz:
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz

## chaos: kill Steward again and again and count what is lost: nothing
chaos:
	CHAOS_SEED=$${CHAOS_SEED:-$(SEED)} CHAOS_KILLS=$${CHAOS_KILLS:-200} $(GO) test $(long) -count=1 -v -timeout 30m ./test/chaos

## chaos-trees: the same with 50 trees of tasks beside 200 conversations
chaos-trees:
	CHAOS_SEED=$${CHAOS_SEED:-$(SEED)} CHAOS_KILLS=$${CHAOS_KILLS:-20} CHAOS_CONVERSATIONS=200 CHAOS_TREES=50 $(GO) test $(long) -count=1 -v -timeout 30m ./test/chaos

## chaos-cluster: three Stewards with PostgreSQL and NATS: kill, suspend and cut them off, and crash the database
chaos-cluster:
	CHAOS_SEED=$${CHAOS_SEED:-$(SEED)} CHAOS_FAULTS=$${CHAOS_FAULTS:-40} CHAOS_CONVERSATIONS=200 CHAOS_TREES=50 CHAOS_USERS=40 $(GO) test $(long) -count=1 -v -timeout 60m ./test/cluster -run TestChaos

## histories: put conversations through everything at random, for long
histories:
	$(GO) test $(long) -count=1 -timeout 60m ./test/histories -rapid.checks=$${HISTORIES:-1000} -rapid.seed=$(SEED)

## hostile: ten minutes of models that answer whatever harms, within 512 MB
hostile:
	HOSTILE_SEED=$${HOSTILE_SEED:-$(SEED)} HOSTILE_TIME=$${HOSTILE_TIME:-10m} $(GO) test $(long) -count=1 -v -timeout 60m ./test/edge -run TestHostileReplies

## properties: each property of each package with 500 random cases
properties:
	$(GO) test $(long) -count=1 -timeout 60m $$($(GO) list $(long) -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./internal/... | awk '/pgregory.net\/rapid/ {print $$1}') \
		-rapid.checks=$${CHECKS:-500} -rapid.seed=$(SEED)

## test-long: all tests, in their long form, by one printed SEED; prints the coverage
test-long:
	@GO='$(GO)' SEED='$(SEED)' scripts/test-long

## docs: write docs/reference/cli.md and docs/reference/settings.md anew from the code
docs:
	$(GO) test ./internal/cli -run TestGenerated -update

## pictures: make the pictures of the page in docs/images anew
pictures:
	scripts/packages test/page
	PAGE_PICTURES=$(CURDIR)/docs/images $(GO) test $(long) -count=1 ./test/page -run TestPicturesForTheDocs

clean:
	rm -rf bin coverage*
