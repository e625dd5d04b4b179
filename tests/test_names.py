"""One word for one meaning: the list of terms in docs/names.md, and the words that it refuses."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "names.md"
PACKAGE = Path(importlib.util.find_spec("skriemdp").origin).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/**/*.md")]
    if page != PAGE and not {"_build", "generated", "gallery"} & set(page.parts)
)
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("|--", "| term "))
]
IDENTIFIERS = [name for row in ROWS for name in re.findall(r"`(\w+)`", row[2])]
REFUSED = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[3])}
PHRASES = [phrase for row in ROWS for phrase in re.findall(r'"([^"]+)"', row[3])]


def defined(source):
    """Names of functions, classes, parameters and attributes that a file defines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            targets = [t for n in node.body if isinstance(n, ast.Assign) for t in n.targets]
            targets += [n.target for n in node.body if isinstance(n, ast.AnnAssign)]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            yield from (a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs])
            yield from (a.arg for a in (given.vararg, given.kwarg) if a is not None)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def refused_names(source):
    """Defined names that the page refuses; learned attributes are words of users."""
    for name in defined(source):
        if name.endswith("_") and not name.startswith("_"):
            continue
        words = {word for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name) if word.islower()}
        if name in REFUSED or words & REFUSED:
            yield name


def prose(source):
    """Comments that stand together, and strings that are statements, as text on one line."""
    last = -1
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#: ")
            if token.start[0] == last + 1 and comments:
                comments[-1] += " " + text
            else:
                comments.append(text)
            last = token.start[0]
    strings = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return [*comments, *strings]


def refused_phrases(text):
    text = " ".join(text.split()).lower()
    return [phrase for phrase in PHRASES if re.search(rf"\b{re.escape(phrase)}\b", text)]


def test_the_page_lists_names_of_the_package():
    known = {name for path in SOURCES for name in defined(path.read_text(encoding="utf-8"))}
    assert len(IDENTIFIERS) >= 20 and len(REFUSED) >= 20 and len(PHRASES) >= 5
    assert all(len(row) == 4 for row in ROWS)
    assert set(IDENTIFIERS) <= known
    assert len(set(IDENTIFIERS)) == len(IDENTIFIERS) and not REFUSED & set(IDENTIFIERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_code_uses_the_names_of_the_page(path):
    source = path.read_text(encoding="utf-8")
    assert list(refused_names(source)) == []
    assert [found for text in prose(source) for found in refused_phrases(text)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_use_the_words_of_the_page(path):
    assert refused_phrases(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "class Held: ...",
        "def told_spread(): ...",
        "def f(x, *, asked=None): ...",
        "def f(**asked): ...",
        "class A:\n    bend: float = 0.0",
        "class A:\n    looks = True",
        "class A:\n    def f(self):\n        self._held = 1",
        "class ToldFraction: ...\ndef told(): ...",
    ],
)
def test_refused_names_are_found(source):
    assert list(refused_names(source))


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    held = 1\n    return held",
        "class A:\n    def fit(self):\n        self.held_ = 1",
        "from other import Held",
        "def withheld(bends): ...",
        "print('told', x.held)",
        "class Foundation: ...",
    ],
)
def test_ordinary_names_pass(source):
    assert not list(refused_names(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""Equal to the last bit."""',
        "# The same to\n# the last bit.",
        "def f():\n    '''Rows are Shortened\n    to the bound.'''",
        "x = 1  # in any company",
        'class A:\n    x: int\n    """Nobody\'s business."""',
    ],
)
def test_refused_phrases_are_found(source):
    assert [found for text in prose(source) for found in refused_phrases(text)]


@pytest.mark.parametrize(
    "source",
    [
        "# The last bit of a step.",
        '"""Shortened proofs."""',
        "raise ValueError('equal to the last bit')",
        '"""In any companying list."""',
        "# to the\nx = 1\n# last bit",
    ],
)
def test_ordinary_phrases_pass(source):
    assert not [found for text in prose(source) for found in refused_phrases(text)]
