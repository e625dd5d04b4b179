# Every target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# One BLAS thread per process: tests and benchmarks run in parallel or compare ratios.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg
# Processes that tests start would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-all coverage test-torch test-doors test-hosts test-oldest test-newest test-pythons test-matrix test-wheel test-dist test-installed release lint docs bench reproduce peers clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.plots: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[plots]"
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[lint]"
	touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@

demo: $(VENV)/.plots  ## a private mean of real covariance matrices: table and figure
	$(BIN)/python examples/demo_private_mean.py

# Assertions are plain, because making those of all files speak takes eight seconds a worker; what
# fails is run again, with the values.
TOGETHER = $(BIN)/python -m pytest --dist worksteal --assert=plain
AGAIN    = || { $(BIN)/python -m pytest --last-failed --last-failed-no-failures=none; exit 1; }

test: $(VENV)/.test  ## the quick tests, which hold every promise once; two workers
	$(TOGETHER) -n 2 -m "not slow" $(AGAIN)

test-slow: $(VENV)/.test  ## whole fits audited, processes killed, the gallery: some six minutes
	$(TOGETHER) -n 2 -m slow $(AGAIN)

# A third worker while others wait for servers and for processes that were killed.
test-all: $(VENV)/.test  ## both, as continuous integration runs them
	$(TOGETHER) -n 3 $(AGAIN)

coverage: $(VENV)/.test  ## the same under coverage, which takes half as long again
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term

# Not part of `make test`: the build that pip chooses may bring gigabytes of CUDA along.  TORCH names
# another one, in pip's words.
TORCH ?= torch==2.13.0
TORCH_TESTS = tests/test_geometry_laws.py tests/test_mechanisms.py tests/test_descent_solvers.py tests/test_erm.py tests/test_separate_rows.py

.venv-torch/.torch:
	$(MAKE) VENV=.venv-torch .venv-torch/.test
	.venv-torch/bin/python -m pip install --quiet $(TORCH)
	touch $@

test-torch: .venv-torch/.torch  ## the tests that are skipped where torch is not installed (CPU)
	.venv-torch/bin/python -m pytest -n 2 --dist worksteal -rs -k "torch or memory_maps" $(TORCH_TESTS)

# Half a minute: OpenDP, which is 265 megabytes, lies beside the environment of the other tests.
build/doors/.doors: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install --quiet --upgrade --target build/doors "opendp>=0.16"
	touch $@

test-doors: build/doors/.doors  ## the tests that are skipped where OpenDP is not installed
	PYTHONPATH=$(CURDIR)/build/doors $(BIN)/python -m pytest -rs tests/test_foreign.py

# The packages that users work in, newest versions that go together; a gigabyte with what they need.
# One after the other: together they keep pip busy for an hour.  Flower wants packaging below 26.
.venv-hosts/.hosts:
	$(MAKE) VENV=.venv-hosts .venv-hosts/.test
	for extra in moabb nvflare opendp; do \
	  .venv-hosts/bin/python -m pip install --quiet --editable ".[$$extra]" || exit 1; done
	.venv-hosts/bin/python -m pip install --quiet nilearn "packaging<26"
	touch $@

test-hosts: .venv-hosts/.hosts  ## other packages by their own idioms; writes docs/hosts.md
	.venv-hosts/bin/python -m pytest -rs tests/test_hosts.py tests/test_moabb.py tests/test_nvflare.py tests/test_round_releases.py
	.venv-hosts/bin/python tools/hosts.py --write docs/hosts.md

# One environment per file of versions; `make test` takes what is newest on the day.
test-oldest test-newest: test-%:  ## the quick tests with the versions of constraints/%.txt
	PIP_CONSTRAINT=$(CURDIR)/constraints/$*.txt $(MAKE) VENV=.venv-$* .venv-$*/.test
	.venv-$*/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

# The newest packages under each Python that pyproject.toml names; one that is not here is named.
PYTHONS ?= 3.11 3.12 3.13 3.14

test-python-%:
	$(MAKE) PYTHON=python$* VENV=.venv-python$* .venv-python$*/.test
	.venv-python$*/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

test-pythons:  ## the quick tests under every supported Python that is installed
	@for version in $(PYTHONS); do \
	  if python$$version --version >/dev/null 2>&1; then $(MAKE) test-python-$$version || exit 1; \
	  else echo "python$$version is not installed: not tested"; fi; \
	done

test-matrix: test-oldest test-newest test-pythons

# What users install: the wheel, beside the tests of the source archive and none of its modules.
TESTS ?= -m "not slow"

test-wheel:  ## build wheel and source archive; the archive's tests against the installed wheel
	rm -rf build dist
	$(PYTHON) -m venv --clear .venv-build && .venv-build/bin/python -m pip install --quiet build
	.venv-build/bin/python -m build --quiet
	$(MAKE) test-dist

test-dist:  ## the tests of dist/'s source archive against dist/'s wheel
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --upgrade pip
	.venv-wheel/bin/python -m pip install --quiet "$$(ls dist/*.whl)[test]"
	rm -rf build/sdist && mkdir -p build/sdist
	tar -xzf dist/*.tar.gz -C build/sdist --strip-components 1
	rm -rf build/sdist/skriemdp
	cd build/sdist && ../../.venv-wheel/bin/python -m pytest -n 2 --dist worksteal $(TESTS)

# What type checkers and editors see of an installed package, in a quarter of a minute.
test-installed: $(VENV)/.test  ## every module is installed; a user's script, checked against no tree
	rm -rf build skriemdp.egg-info  # which remembers modules
	$(BIN)/python -m pip install --quiet --no-deps --target build/site-packages .
	diff -rq -x __pycache__ skriemdp build/site-packages/skriemdp
	PYTHONPATH=$(CURDIR)/build/site-packages $(BIN)/pytest tests/test_types.py

# Addresses that only the publisher knows (RELEASING.md): URL is where the files of this version are
# read, https://host/owner/skriemdp/blob/v0.1.0 for example, DOCS that of the site, CONTACT a mail
# address for reports of broken promises.
release:  ## build, check, install bare, run README and tests: make release URL=... DOCS=... CONTACT=...
	@test -n "$(URL)" && test -n "$(DOCS)" && test -n "$(CONTACT)" || \
	  { echo "make release URL=https://... DOCS=https://... CONTACT=name@host"; exit 1; }
	rm -rf build dist && mkdir -p build/release && git archive HEAD | tar -x -C build/release
	$(PYTHON) tools/release_facts.py build/release --url "$(URL)" --docs "$(DOCS)" --contact "$(CONTACT)"
	$(PYTHON) -m venv --clear .venv-build && .venv-build/bin/python -m pip install --quiet build twine
	.venv-build/bin/python -m build --quiet --outdir dist build/release
	.venv-build/bin/python -m twine check --strict dist/*
	cd dist && sha256sum skriemdp-* > SHA256SUMS
	$(PYTHON) -m venv --clear .venv-bare
	.venv-bare/bin/python -m pip install --quiet dist/*.whl
	$(PYTHON) tools/first_script.py README.md > build/first_script.py
	cd build && ../.venv-bare/bin/python first_script.py
	$(MAKE) test-dist

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## HTML documentation in docs/_build/html, without network access
	rm -rf docs/api/generated  # pages of names that are gone
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python tools/check_links.py docs/_build/html

bench: $(VENV)/.bench  ## every benchmark in its quick form; outputs in benchmarks/results
	$(BIN)/python benchmarks/run_all.py

reproduce: $(VENV)/.plots  ## the papers' figures as published and at true privacy; QUICK=1: smaller
	$(BIN)/python examples/reproductions/run_all.py $(if $(QUICK),--quick)

peers:  ## ours beside other libraries, in an environment that holds them all
	PIP_CONSTRAINT=$(CURDIR)/constraints/peers.txt $(MAKE) VENV=.venv-peers .venv-peers/.bench
	PIP_CONSTRAINT=$(CURDIR)/constraints/peers.txt .venv-peers/bin/python -m pip install --quiet geomstats diffprivlib
	.venv-peers/bin/python benchmarks/peers.py

clean:
	rm -rf .venv .venv-oldest .venv-newest .venv-python3.* .venv-torch .venv-hosts .venv-peers .venv-wheel .venv-build .venv-bare build dist docs/_build docs/api/generated docs/gallery .pytest_cache .hypothesis htmlcov demo_output reproductions_output
