"""The documentation is true: examples run, links lead somewhere, tables have commands."""

from __future__ import annotations

import ast
import contextlib
import doctest
import functools
import importlib
import io
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import skriemdp

ROOT = Path(__file__).parents[1]
PACKAGE = Path(skriemdp.__file__).parent  # beside the tests, or installed
PAGES = sorted(
    [
        *(p for p in ROOT.glob("*.md")),
        *(ROOT / "benchmarks").glob("*.md"),
        *(
            p
            for p in (ROOT / "docs").rglob("*.md")
            if not {"_build", "generated", "gallery"} & set(p.relative_to(ROOT).parts)
        ),
    ]
)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(skriemdp.__path__, "skriemdp.")
    if module.name not in ("skriemdp.federated.flower", "skriemdp.federated.nvflare")
)


# Pages whose code runs as a whole, block after block: all that have blocks of Python.
COMPLETE = (
    "README.md",
    "docs/concepts.md",
    "docs/index.md",
    "docs/new-estimator.md",
    "docs/sharp-edges-scikit-learn.md",
    "docs/sharp-edges.md",
    "docs/user_guide/adagrad.md",
    "docs/user_guide/auditing.md",
    "docs/user_guide/bounds.md",
    "docs/user_guide/classification.md",
    "docs/user_guide/completion.md",
    "docs/user_guide/eeg.md",
    "docs/user_guide/erm.md",
    "docs/user_guide/federated.md",
    "docs/user_guide/file-clinics.md",
    "docs/user_guide/file-patients.md",
    "docs/user_guide/file-places.md",
    "docs/user_guide/file-ratings.md",
    "docs/user_guide/file-trials.md",
    "docs/user_guide/geodesic-regression.md",
    "docs/user_guide/geometries.md",
    "docs/user_guide/hyperbolic-regression.md",
    "docs/user_guide/index.md",
    "docs/user_guide/mean.md",
    "docs/user_guide/median.md",
    "docs/user_guide/planning.md",
    "docs/user_guide/pca.md",
    "docs/user_guide/people.md",
    "docs/user_guide/pymanopt.md",
    "docs/user_guide/released-means.md",
    "docs/user_guide/selection.md",
    "docs/user_guide/tangent.md",
    "docs/user_guide/uncertainty.md",
    "docs/your-budget.md",
)


def _name(path):
    return str(path.relative_to(ROOT))


def _blocks(path, language):
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, path.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.fixture
def quiet_matplotlib(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="examples with figures need it")
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda *args, **kwargs: None)
    yield pyplot
    pyplot.close("all")


# -- code -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["skriemdp", *MODULES])
def test_docstring_examples(name, quiet_matplotlib):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if error.name is None or error.name.startswith("skriemdp"):
            raise
        pytest.skip(f"{name} needs the optional package {error.name}")
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_some_docstring_examples_exist():
    # A finder that finds nothing would pass the test above in silence.
    finder = doctest.DocTestFinder()
    module = importlib.import_module("skriemdp._mean.estimator")
    assert sum(len(test.examples) for test in finder.find(module)) >= 5


# First words of docstrings that have neither a verb nor a noun.
FRAGMENT = re.compile(
    r"(What|Where|How|Which|Who|Whose|When|"
    r"Of|As|From|That of|Like|By|With|For|On|In|To|Within|So|At) "
)


def test_docstrings_begin_with_no_fragment():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                text = ast.get_docstring(node) or ""
                found += [f"{path.name}: {text}"] * bool(FRAGMENT.match(text))
    assert found == []


@pytest.mark.parametrize("page", COMPLETE)
def test_python_of_complete_pages_runs(page, tmp_path, monkeypatch, request):
    if "classification" in page:
        pytest.importorskip("pyriemann", reason="its page shows a pipeline with pyRiemann")
    if "file-" in page:
        pytest.importorskip("pandas", reason="these pages read tables")
    if "file-trials" in page:
        pytest.importorskip("mne", reason="its page reads a .fif file by MNE")
    request.addfinalizer(functools.partial(skriemdp.set_config, **skriemdp.get_config()))
    blocks = _blocks(ROOT / page, "python")
    assert blocks
    monkeypatch.chdir(tmp_path)
    # Noise is fresh: warnings go by released numbers, but by chance in fewer than 1 of 1e6 fits.
    namespace = {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        if "file-trials" in page:  # MNE's own calls of pandas
            warnings.simplefilter("ignore", DeprecationWarning)
        for block in blocks:  # later blocks go on where the earlier ones stopped
            exec(compile(block, page, "exec"), namespace)
    if "file-" in page:
        _check_walk(page, blocks, namespace)


# The file that a walk makes, what it finds, and two numbers between which that lies in all but 1 of
# 1e6 runs.
WALKS = {
    "trials": ("trials-epo.fif", lambda n: n["mean"].mean_[0, 0] / 100, 0.7, 1.4),
    "ratings": ("ratings.csv", lambda n: n["mean"].mean_[0], 2.8, 3.2),
    "patients": ("patients.csv", lambda n: 58 + 10 * n["mean"].mean_[0], 53.0, 57.0),
    "places": ("places.csv", lambda n: n["lat"], 50.2, 50.8),
    "clinics": ("clinics", lambda n: 120 + 40 * n["found"].mean_[0], 126.0, 134.0),
}


def _check_walk(page, blocks, namespace):
    """From a file to a number with its error, and a page for the officer, in forty lines."""
    name = Path(page).stem.removeprefix("file-")
    file, number, low, high = WALKS[name]
    assert len(blocks) == 1 and len(blocks[0].splitlines()) <= 40
    assert "made-up file" in blocks[0] and Path(file).exists()
    assert low < number(namespace) < high
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.search(r"```text\n(.*?)```", text, flags=re.S)[1]
    assert re.search(r"\+-|within", shown), "the published number has its error"
    (command,) = _blocks(ROOT / page, "sh")
    assert command.startswith("python -m skriemdp ")
    assert importlib.import_module("skriemdp.page._command").main(shlex.split(command)[3:]) == 0
    assert "epsilon" in Path(f"{name}.html").read_text(encoding="utf-8")


def test_every_walk_from_a_file_is_run():
    assert {f"docs/user_guide/file-{name}.md" for name in WALKS} <= set(COMPLETE)
    assert len(WALKS) == sum("file-" in page for page in COMPLETE)


def test_every_page_with_python_is_run():
    pages = {_name(page) for page in PAGES if _blocks(page, "python")}
    assert pages == set(COMPLETE)


FRAGMENTS = [page for page in PAGES if _blocks(page, "py")]


@pytest.mark.parametrize("page", FRAGMENTS, ids=_name)
def test_fragments_import_what_exists(page):
    """Blocks marked "py" need machines or packages, and do not run; what they import is there."""
    pytest.importorskip("flwr", reason="some of what they import needs Flower")
    for block in _blocks(page, "py"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skriemdp"):
                module = importlib.import_module(node.module)
                missing = [a.name for a in node.names if not hasattr(module, a.name)]
                assert not missing, f"{node.module} has no {missing}"


def test_every_public_name_is_in_the_reference():
    reference = {name for _, name in _listed_names()}
    missing = [name for name in skriemdp.__all__ if name[0] != "_" and name not in reference]
    assert not missing, f"add {missing} to docs/api/index.md"


def test_users_find_the_first_level_short():
    text = (ROOT / "docs/api/index.md").read_text(encoding="utf-8")
    names = re.findall(r"^   [\w.]+$", text, flags=re.M)
    assert 20 < len(names) < 45
    assert not re.search(r"   (mechanisms|privacy|ledger)\.", text), "belongs to extending.md"


def _listed_names():
    """(module, name) of every entry of the tables in both levels of the reference."""
    where = "skriemdp"
    pages = (ROOT / "docs/api" / name for name in ("index.md", "extending.md"))
    for line in "\n".join(page.read_text(encoding="utf-8") for page in pages).splitlines():
        if line.startswith(".. currentmodule::"):
            where = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            yield where, line.strip()


@pytest.mark.parametrize("where, name", list(_listed_names()))
def test_names_of_the_reference_exist(where, name):
    try:
        importlib.import_module(f"{where}.{name}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("skriemdp"):
            pytest.skip(f"{name} needs the optional package {error.name}")
        assert hasattr(importlib.import_module(where), name)
    except ImportError as error:
        pytest.skip(str(error))


GUIDE = sorted(_name(page) for page in (ROOT / "docs/user_guide").glob("*.md"))
# The first block of these prints, and its output follows.
SHOWING = (
    "README.md",
    "docs/index.md",
    "docs/concepts.md",
    "docs/your-budget.md",
    *(page for page in GUIDE if Path(page).stem not in {"index", "federated-deploy", "nvflare"}),
)
# A row for each kind of data, and for each name.
WIDER = {"docs/user_guide/geometries.md": 12, "docs/user_guide/pymanopt.md": 10}
MOST_WORDS, MOST_ROWS = 600, 8
MOST_IN_ALL = 45_000  # theory included


def _shows(text):
    """Whether the first block of Python prints, and a block of output follows it."""
    match = re.search(r"^```python\n(.*?)^```\n\n```text\n", text, flags=re.M | re.S)
    return match is not None and "print(" in match[1] and "```" not in match[1]


def test_a_page_that_shows_nothing_is_noticed():
    shown = "# T\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert _shows(shown)
    assert not _shows("# T\n```python\nx = 1\n```\n" + shown)
    assert not _shows(shown.replace("print(1)", "1"))


@pytest.mark.parametrize("page", SHOWING)
def test_pages_show_an_answer_first(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert _shows(text), f"{page}: the first block prints something, and its output follows"


def _words(text):
    """How many words a page has, those of its code included; bars and dashes are none."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


def _rows(text):
    """The number of rows of each table, without its head."""
    return [len(t.splitlines()) - 2 for t in re.findall(r"(?:^\|.*\n)+", text, flags=re.M)]


def _torn(text):
    """Lines that are rows of a table without its head: an empty line tears a table apart."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    first = re.findall(r"(?:^|\n\n)(\| .*\|)\n(?!\|[-:| ]+\|)", text)
    return [*first, *re.findall(r"\n\|[-:| ]+\|\n(?!\|)", text)]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_tables_are_whole(page):
    assert not _torn("|a|\n|-|\n|b|\n") and _torn("| a |\n|-|\n| b |\n\n| c |\n| d |\n")
    assert not _torn(page.read_text(encoding="utf-8"))


THEORY = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/theory").glob("*")}
SOURCES = [p for d in ("benchmarks", "examples", "tests") for p in (ROOT / d).rglob("*.py")]


def _missing_sections(text):
    """Numbered sections and titles of theory pages that a text cites and no page has."""
    text = re.sub(r"\s*\n[\s#]*", " ", text)  # over the ends of lines
    for name, number in re.findall(r"([a-z-]+)\.md\)?, sections? (\d+)", text):
        if name in THEORY and not re.search(rf"^## {number}\.", THEORY[name], flags=re.M):
            yield f"{name}.md, section {number}"
    for name, title in re.findall(r'([a-z-]+)\.md\)?, "([A-Z][^"]{2,60})"', text):
        if name in THEORY and title not in THEORY[name]:
            yield f"{name}.md, {title!r}"


def test_sections_that_are_cited_exist():
    assert list(_missing_sections("[S](sensitivity.md),\n    # section 99")) == [
        "sensitivity.md, section 99"
    ]
    assert list(_missing_sections('accounting.md, "No such title"'))
    texts = [
        path.read_text(encoding="utf-8") for path in [*PAGES, *PACKAGE.rglob("*.py"), *SOURCES]
    ]
    texts.remove(Path(__file__).read_text(encoding="utf-8"))  # it cites two that are not
    assert [at for text in texts for at in _missing_sections(text)] == []


def test_words_and_rows_are_counted():
    text = "# T\nOne *two*, 3 - a+b\n\n|a|b|\n|-|-|\n|x|y|\n|z|u|\n\n```python\nx = 1\n```\n"
    assert _words(text) == 11  # T One two 3 a+b |a|b| |x|y| |z|u| python x 1
    assert _rows(text) == [2]


def test_the_pages_together_are_short():
    pages = [p for p in PAGES if p.name == "README.md" or "docs" in p.relative_to(ROOT).parts]
    pages = [p for p in pages if "benchmarks" not in p.relative_to(ROOT).parts]
    assert len(pages) > 50
    words = {_name(page): _words(page.read_text(encoding="utf-8")) for page in pages}
    assert sum(words.values()) <= MOST_IN_ALL, words


@pytest.mark.parametrize("page", [*GUIDE, "docs/index.md"])
def test_pages_of_the_guide_are_short(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert _words(text) <= MOST_WORDS, f"{page} has {_words(text)} words"
    rows = max(_rows(text), default=0)
    assert rows <= WIDER.get(page, MOST_ROWS), f"{page} has a table of {rows} rows"


OF_ESTIMATORS = (
    "adagrad",
    "classification",
    "completion",
    "erm",
    "federated",
    "geodesic-regression",
    "hyperbolic-regression",
    "mean",
    "median",
    "pca",
    "people",
    "selection",
    "tangent",
    "uncertainty",
)


@pytest.mark.parametrize("page", OF_ESTIMATORS)
def test_pages_of_estimators_have_the_same_parts(page):
    text = (ROOT / f"docs/user_guide/{page}.md").read_text(encoding="utf-8")
    heads = " ".join(re.findall(r"^## (.*)$", text, flags=re.M)).lower()
    assert "what is public" in heads and "what it costs" in heads
    assert "errors people make" in heads


FIGURE = re.compile(r"^```\{figure\} \.\./gallery/images/sphx_glr_(plot_\w+)_\d{3}\.png$", re.M)


@pytest.mark.parametrize("page", OF_ESTIMATORS)
def test_pages_of_estimators_have_one_picture_from_the_gallery(page):
    text = (ROOT / f"docs/user_guide/{page}.md").read_text(encoding="utf-8")
    (name,) = FIGURE.findall(text)
    assert (ROOT / f"examples/{name}.py").exists()
    assert f"{{doc}}`script <../gallery/{name}>`" in text and len(re.findall("{figure}", text)) == 1


# A column of the site holds so many characters of code.
WIDEST = 72


@pytest.mark.parametrize("page", [p for p in PAGES if "benchmarks" not in p.parts], ids=_name)
def test_code_fits_a_column_of_the_site(page):
    lines = [
        line
        for language in ("python", "py", "sh", "toml")
        for block in _blocks(page, language)
        for line in block.splitlines()
    ]
    wide = [line for line in lines if len(line) > WIDEST]
    assert not wide, f"longer than {WIDEST} characters: {wide}"


def test_the_guide_has_a_line_for_each_page():
    text = (ROOT / "docs/user_guide/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\* \[[^]]+\]\(([\w-]+)\.md\): .+\.$", text, flags=re.M)
    assert sorted(listed) == sorted(Path(p).stem for p in GUIDE if Path(p).stem != "index")


@pytest.mark.parametrize("page", GUIDE)
def test_titles_of_the_guide_name_the_thing(page):
    """At most seven words, and none of a question or an aphorism."""
    title = (ROOT / page).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    assert len(title.split()) <= 7 and not re.search(
        r"[?,.!]$|\b(that|not|what|no|how)\b", title, re.I
    )


# -- commands -------------------------------------------------------------------------------------


def _make_targets():
    commands = [
        line.split("#")[0].strip()
        for block in _blocks(ROOT / "README.md", "sh")
        for line in block.splitlines()
    ]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands += re.findall(r"`(make [a-z]+)`", text)
    return sorted({c.split()[1] for c in commands if c.startswith("make ")})


def test_the_readme_names_make_targets():
    assert {"demo", "test"} <= set(_make_targets())


@pytest.mark.parametrize("target", _make_targets())
def test_make_targets_of_the_readme_exist(target):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--dry-run", "--always-make", target, "VENV=/nonexistent"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    scripts = re.findall(r"\b(?:examples|benchmarks)/\w+\.py", result.stdout)
    assert all((ROOT / script).exists() for script in scripts), scripts


COMMAND = re.compile(r"python ((?:benchmarks|examples)/[\w/]+\.py)([^`\n;#|]*)")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_name_scripts_and_options_that_exist(page):
    for script, arguments in COMMAND.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / script).exists(), script
        source = (ROOT / script).read_text(encoding="utf-8")
        for word in shlex.split(arguments, posix=False):
            if word.startswith("--"):
                option = word.split("=")[0].strip(",.)").lstrip("-")
                assert re.search(rf"\b{re.escape(option)}\b", source), f"{script} has no --{option}"


CHOSEN = re.compile(r"(benchmarks/\w+\.py)((?: --[\w-]+(?: [\w-]+)?| [a-z]+(?=[,;).]))?)")


def test_comments_name_benchmarks_and_options_that_exist():
    named = set()
    for path in PACKAGE.rglob("*.py"):
        source = re.sub(r"\n *# ?", " ", path.read_text(encoding="utf-8"))
        named |= set(CHOSEN.findall(source))
    assert len(named) > 20
    for script, words in named:
        assert (ROOT / script).exists(), script
        source = (ROOT / script).read_text(encoding="utf-8")
        for word in words.replace("--", "").split():
            assert re.search(rf"\b{re.escape(word)}\b", source), f"{script} has no {word}"


def _number_tables(text):
    """(line, section) of each table with more numbers than words; a section starts at a heading."""
    lines, section, start = text.splitlines(), [], None
    sections = []
    for line in lines:
        if re.match(r"#{1,2} ", line):
            section = []
        section.append(line)
        sections.append(section)
    for i, line in enumerate(lines):
        if line.startswith("|") and start is None:
            start = i
        if start is not None and (not line.startswith("|") or i + 1 == len(lines)):
            rows = lines[start + 2 : i + (1 if line.startswith("|") else 0)]
            cells = [c.strip() for row in rows for c in row.strip().strip("|").split("|")[1:]]
            numbers = [c for c in cells if re.match(r"[-+±~<>≤≥]*\s*\**\d[\d.,e%+\- x×±()]*$", c)]
            if len(numbers) > len(cells) / 2 and len(numbers) >= 4:
                yield start + 1, "\n".join(sections[start])
            start = None


def test_the_table_finder_finds():
    table = "|a|b|c|\n|-|-|-|\n|x|1.5|2|\n|y|3e-4|12 %|\n"
    assert [line for line, _ in _number_tables(f"# T\n{table}")] == [2]
    assert not list(_number_tables("|a|b|\n|-|-|\n|x|word|\n|y|other|\n"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs/user_guide").glob("*.md")), ids=_name)
def test_number_tables_name_their_command(page):
    for line, section in _number_tables(page.read_text(encoding="utf-8")):
        scripts = [script for script, _ in COMMAND.findall(section)]
        assert scripts, f"{_name(page)}:{line}: no command in the section of this table"


def test_every_benchmark_is_listed():
    listed = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    scripts = [p.name for p in sorted((ROOT / "benchmarks").glob("*.py"))]
    missing = [name for name in scripts if f"`{name}`" not in listed]
    assert not missing, f"add {missing} to benchmarks/README.md"


# -- links ----------------------------------------------------------------------------------------

# Code and mathematics are read over; a link or a {doc} is kept.
LINK = re.compile(
    r"\{doc\}`(?:[^`<]*<)?(?P<document>[^`>]+)>?`"
    r"|`[^`]*`|\$[^$\n]+\$"
    r"|\[[^\]]*\]\((?P<target>[^)\s]+)\)"
)


def _links(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for match in LINK.finditer(text):
        if match["document"]:
            yield f"{match['document']}.md"
        elif match["target"] and not re.match(r"[a-z]+:|#", match["target"]):
            yield match["target"].split("#")[0]


def test_the_link_finder_finds():
    text = (
        "[a](b.md#c), `[x](y)` {doc}`d` {doc}`t <e>` $E[S](z)$ [u](https://f.g)\n```\n[h](i)\n```"
    )
    assert list(_links(text)) == ["b.md", "d.md", "e.md"]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_internal_links_lead_to_files(page):
    for target in _links(page.read_text(encoding="utf-8")):
        base = ROOT / "docs" if target.startswith("/") else page.parent
        path = Path(os.path.normpath(base / target.lstrip("/")))
        if path.parent == ROOT / "docs/gallery":  # made from the examples by the build
            path = ROOT / "examples" / (path.stem + ".py" if path.stem != "index" else "README.rst")
        assert path.exists(), f"{_name(page)} links to {target}"


def test_broken_links_of_the_built_site_are_found(tmp_path):
    broken = runpy.run_path(str(ROOT / "tools" / "check_links.py"))["broken"]
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="b.html#gone">x</a><a href="c.html">x</a>'
        '<img src="d.png"><a href="#top">x</a><a href="https://host.example/e">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">x</a></p>')
    assert list(broken(tmp_path)) == [
        ("a.html", "b.html#gone"),
        ("a.html", "c.html"),
        ("a.html", "d.png"),
        ("a.html", "#top"),
    ]


# -- the package ----------------------------------------------------------------------------------


def test_a_package_index_gets_absolute_links():
    absolute = runpy.run_path(str(ROOT / "tools" / "absolute_links.py"))["absolute"]
    address = "https://host.example/x/blob/v1"
    given = (ROOT / "README.md").read_text(encoding="utf-8")
    if "](docs/landing.svg)" not in given:
        pytest.skip("this is the source archive of a release, whose links are absolute")
    text = absolute(given, address)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20 and all(link.startswith(("https://", "#")) for link in links)
    for link in links:
        if link.startswith(address):
            path = link.removeprefix(address + "/").split("#")[0].removesuffix("?raw=true")
            assert (ROOT / path).exists(), link
    assert f"]({address}/docs/landing.svg?raw=true)" in text


FACTS = {
    "url": "https://host.example/x/blob/v1",
    "docs": "https://docs.example",
    "contact": "reports@host.example",
    "date": "2026-01-31",
}


def test_a_release_states_its_addresses():
    tool = runpy.run_path(str(ROOT / "tools" / "release_facts.py"))
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in tool["FILES"]}
    if "[project.urls]" in texts["pyproject.toml"]:
        pytest.skip("this is the source archive of a release, which states them")
    texts["CHANGELOG.md"] = texts["CHANGELOG.md"].replace("(unreleased)", "(2026-01-31)")
    made = {name: tool["stated"](name, text, **FACTS) for name, text in texts.items()}
    project = tomllib.loads(made["pyproject.toml"])["project"]
    assert project["authors"][0]["email"] == FACTS["contact"]
    assert project["urls"] == {"Source": FACTS["url"], "Documentation": FACTS["docs"]}
    assert f"by mail to {FACTS['contact']}." in made["SECURITY.md"]
    assert 'date-released: "2026-01-31"' in made["CITATION.cff"]
    assert FACTS["contact"] in made["CITATION.cff"]
    with pytest.raises(ValueError, match="unreleased"):
        tool["stated"]("CHANGELOG.md", "## 0.1.0 (unreleased)", **FACTS)
    with pytest.raises(ValueError, match="found 0"):
        tool["stated"]("SECURITY.md", "nothing", **FACTS)


def test_the_first_script_is_that_of_the_readme():
    command = [sys.executable, str(ROOT / "tools/first_script.py"), str(ROOT / "README.md")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == _blocks(ROOT / "README.md", "python")[0].strip()


def test_recipes_say_what_the_package_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == skriemdp.__version__
    conda = (ROOT / "tools" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = conda.split("  run:\n")[1].split("\n\n")[0]
    needed = [line.strip("- ").replace(" ", "") for line in run.splitlines()]
    assert needed == [f"python{project['requires-python']}", *project["dependencies"]]
    assert f'version: "{project["version"]}"' in conda
    assert "path:" not in conda and "url:" in conda and "sha256:" in conda
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {project['version']}\n" in citation
    assert (ROOT / "docs" / "conf.py").exists()


# -- gallery --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("plot_*.py")), ids=_name)
def test_gallery_runs(script, quiet_matplotlib, tmp_path, monkeypatch):
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(script), run_name="__main__")
    assert pyplot.get_fignums(), "a gallery example draws a figure"
    look = runpy.run_path(str(ROOT / "docs/gallery_axes.py"))["empty_axes"]
    assert not any(look(pyplot.figure(number)) for number in pyplot.get_fignums())


def test_every_example_is_in_a_group_and_names_its_panel():
    text = (ROOT / "docs/examples.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   \.\./examples/(plot_\w+)\.py$", text, flags=re.M)
    scripts = sorted((ROOT / "examples").glob("plot_*.py"))
    assert sorted(listed) == [script.stem for script in scripts]
    for script in scripts:
        line = f'# sphinx_gallery_thumbnail_path = "gallery/panels/{script.stem}.png"\n'
        assert line in script.read_text(encoding="utf-8")


def test_a_thumbnail_is_one_panel(quiet_matplotlib, tmp_path):
    names = runpy.run_path(str(ROOT / "docs/gallery_axes.py"))
    figure, axes = quiet_matplotlib.subplots(1, 3, figsize=(12, 4))
    for place in (1, 2):
        axes[place].plot([1, 2])
    assert names["panel"](figure) is axes[1]
    axes[2].set_label("thumbnail")
    assert names["panel"](figure) is axes[2]
    names["_save_panel"](figure, tmp_path / "panels" / "a.png")
    height, width, _ = quiet_matplotlib.imread(tmp_path / "panels" / "a.png").shape
    assert width < 1.5 * height  # the whole figure is three times as wide as high


def test_axes_without_artists_are_found_and_fail_the_build(quiet_matplotlib):
    pyplot = quiet_matplotlib
    names = runpy.run_path(str(ROOT / "docs/gallery_axes.py"))
    figure, axes = pyplot.subplots(2, 2)
    axes[0, 0].plot([1, 2])
    axes[0, 1].text(0, 0, "only words")
    axes[1, 0].imshow([[1, 2]])
    assert names["empty_axes"](figure) == [3]
    pytest.importorskip("sphinx_gallery", reason="its scraper is wrapped")
    with pytest.raises(ValueError, match="without artists"):
        names["scraper"](("code", "", 1), {"src_file": "x.py"}, {})
