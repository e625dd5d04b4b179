"""The auditor's page: what it says is true, whatever the labels, and reading changes nothing."""

from __future__ import annotations

import hashlib
import html
import html.parser
import json
import math
import os
import pickle
import re
import runpy
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from test_estimators import AROUND, ESTIMATORS, data

import skriemdp
from skriemdp import config_context
from skriemdp.ledger import _chain as chain
from skriemdp.ledger import _storage as storage
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.ledger._statements import plain_facts
from skriemdp.ledger._units import PRESENT
from skriemdp.page import found_at_most, gather, guessed_at_most, to_data, to_html, to_text
from skriemdp.page._command import main
from skriemdp.page._facts import ENDS, LISTED, RELEASES
from skriemdp.page._meaning import pair, profile_of
from skriemdp.privacy._events import GaussianEvent, PureEvent, SeededEvent

HEBREW = "\u05e9\u05dc\u05d5\u05dd"
LABELS = (
    "<script>alert('&')</script>",
    f"{HEBREW} \u202egpj.exe",
    "long" * 50,
    "\x1b[2J\x00 clears the screen",
    "' onload='x' \"",
)


def charge_often(path, count, labels=LABELS, size=1e-7, days=3):
    """Many charges in one transaction, as fast as the file takes them."""
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=path)
    rule, event = budget._filter, PureEvent(size)
    cost, text = rule.cost(event), json.dumps(event.to_dict(), sort_keys=True)
    with budget._ledger.writing() as book:
        for number in range(count):
            place = book.place("default")
            day = 1 + days * number // count
            time = f"2026-03-{day:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000+00:00"
            label = labels[number % len(labels)]
            book.append(place, chain.CHARGED, time=time, cost=cost, label=label, event=text)
    return budget


def varied(path):
    """A ledger with labels of every kind, partitions, a division and a second data set."""
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=path)
    for label in LABELS:
        budget.spend(GaussianEvent(20.0), label=label)
    budget.partition(f"{HEBREW}<b>").spend(PureEvent(0.05))
    parts = budget.dataset("other & more", 3.0, 1e-5).split(2, gaussian=True)
    parts[1].spend(GaussianEvent(4.0), label="mean", at=(1.0, 1e-5))
    return budget


def lines_of(capsys):
    streams = capsys.readouterr()
    return streams.out, streams.err


def run(*arguments):
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:  # argparse
        return end.code


class Reader(html.parser.HTMLParser):
    """Collects elements, and refuses what is not nested."""

    EMPTY = {"meta", "input", "path", "!doctype"}

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.found.append((tag, dict(attrs), tuple(self.open)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs), tuple(self.open)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += "" if self.open[-1:] == ["style"] else data

    def all(self, tag):
        return [attrs for name, attrs, _ in self.found if name == tag]


# -- what an epsilon means -------------------------------------------------------------------------


def test_numbers_of_a_bare_pair():
    assert found_at_most(0.01, pair(1.0, 1e-6)) == pytest.approx(0.0272, abs=5e-5)
    assert guessed_at_most(pair(1.0, 1e-6)) == pytest.approx(0.731, abs=5e-4)
    assert found_at_most(0.01, pair(3.0, 1e-5)) == pytest.approx(0.201, abs=5e-4)
    assert guessed_at_most(pair(3.0, 1e-5)) == pytest.approx(0.953, abs=5e-4)


def test_numbers_of_a_ceiling_that_gaussian_releases_fill():
    from skriemdp.privacy._calibration import gaussian_mu

    full = profile_of(GaussianEvent(1.0 / gaussian_mu(1.0, 1e-6)).delta, 1.0)
    assert found_at_most(0.01, full) == pytest.approx(0.0183, abs=1e-4)
    assert guessed_at_most(full) == pytest.approx(0.547, abs=5e-4)


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("alarm", [0.0, 0.001, 0.05, 0.4, 0.9, 1.0])
def test_bounds_cover_the_best_test_of_a_gaussian_release(mu, alarm):
    event = GaussianEvent(1.0 / mu)
    exact = norm.cdf(norm.ppf(alarm) + mu)
    bound = found_at_most(alarm, profile_of(event.delta, event.epsilon(1e-6)))
    assert exact <= bound <= max(1.02 * exact, exact + 1e-3)
    guess = guessed_at_most(profile_of(event.delta, event.epsilon(1e-6)))
    assert norm.cdf(mu / 2) <= guess <= 1.001 * norm.cdf(mu / 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_pure_pair_is_attained_by_randomised_response(epsilon):
    right = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    bare = pair(epsilon, 0.0)
    assert right <= found_at_most(1.0 - right, bare) <= right * (1 + 1e-9)
    assert right <= guessed_at_most(bare) <= right * (1 + 1e-9)


def test_no_test_does_better_than_the_bounds_on_random_releases():
    """Releases with five outcomes, each with its own exact profile, and all their tests."""
    generator = np.random.default_rng(0)
    for _ in range(200):
        one, other = generator.dirichlet(np.ones(5), size=2)
        profile = (
            (0.0, 0.3, 1.0, 2.0),
            lambda x, one=one, other=other: max(
                np.maximum(one - math.exp(x) * other, 0).sum(),
                np.maximum(other - math.exp(x) * one, 0).sum(),
            ),
        )
        for mask in range(32):
            chosen = np.array([mask >> i & 1 for i in range(5)], dtype=bool)
            alarm, power = other[chosen].sum(), one[chosen].sum()
            assert power <= found_at_most(alarm, profile) + 1e-12
            assert (power + 1 - alarm) / 2 <= guessed_at_most(profile) + 1e-12


# -- the page --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """HTML of ledgers with 0, 3 and 1200 charges, and of one with everything in it."""
    folder = tmp_path_factory.mktemp("pages")
    PrivacyAccountant(epsilon=3.0, path=folder / "0.ledger")
    charge_often(folder / "3.ledger", 3)
    charge_often(folder / "1200.ledger", 1200)
    varied(folder / "varied.ledger")
    return {path.stem: to_html(gather(path)) for path in sorted(folder.glob("*.ledger"))}


NAMES = ["0", "3", "1200", "varied"]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_one_file_without_script_or_request(pages, name):
    page = Reader(pages[name])
    tags = {tag for tag, _, _ in page.found}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "a", "base", "image"}
    names = {attribute for _, attrs, _ in page.found for attribute in attrs}
    assert not {n for n in names if n in ("src", "href", "style") or n.startswith("on")}
    assert not re.search(r"url\(|@import|https?:", pages[name])
    (policy,) = [m["content"] for m in page.all("meta") if "content" in m and "http-equiv" in m]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_can_be_read_by_everybody(pages, name):
    page = Reader(pages[name])
    assert page.all("html") == [{"lang": "en"}]
    ids = [attrs["id"] for _, attrs, _ in page.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs, _ in page.found:
        assert set(attrs.get("aria-labelledby", "").split()) <= set(ids)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(attrs.get("scope") in ("row", "col") for attrs in page.all("th"))
    for tag, attrs, inside in page.found:
        if tag == "svg":
            assert attrs["role"] == "img" and attrs["aria-labelledby"]
        if tag == "table":
            assert inside[-1] == "div"
        if tag == "input":
            assert inside[-1] == "label"
    assert all(div["tabindex"] == "0" and div["role"] == "region" for div in page.all("div"))
    assert len(page.all("svg")) == len(page.all("title")) - 1 == len(page.all("desc"))


def test_labels_are_text_and_keep_their_direction_to_themselves(pages):
    page = Reader(pages["varied"])
    assert LABELS[0] in page.text and LABELS[2] in page.text and HEBREW in page.text
    assert not re.search("[\x00-\x08\x1b\u202a-\u202e\u2066-\u2069]", pages["varied"])
    around = [inside for tag, _, inside in page.found if tag == "bdi" and "td" in inside]
    assert len(around) >= len(LABELS)


def contrast(one, other):
    """WCAG 2.2, relative luminance."""

    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_in_light_and_dark(pages):
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    style = pages["3"].partition("</style>")[0]
    found = re.findall(r"--(\w+): (#[0-9a-f]{6})", style)
    light, dark = dict(found[: len(found) // 2]), dict(found[len(found) // 2 :])
    assert set(light) == set(dark) and len(found) == 2 * len(light) and light != dark
    for colours in (light, dark):
        back = colours.pop("back")
        assert colours and all(contrast(colour, back) >= 4.5 for colour in colours.values())
    # No other colour is on the page.
    assert len(re.findall(r"#[0-9a-f]{3,8}\b", style)) == len(found)


def test_the_same_ledger_gives_the_same_bytes(tmp_path):
    varied(tmp_path / "a.ledger")
    os.mkdir(tmp_path / "elsewhere")
    shutil.copy(tmp_path / "a.ledger", tmp_path / "elsewhere" / "a.ledger")
    command = [sys.executable, "-m", "skriemdp", "report", tmp_path / "a.ledger", "--html"]
    done = subprocess.run(
        [*command, tmp_path / "1.html"],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0
    there = to_html(gather(tmp_path / "elsewhere" / "a.ledger"))
    assert (tmp_path / "1.html").read_text(encoding="utf-8") == there


def test_many_charges_are_grouped_and_the_ends_shown(pages, tmp_path):
    page = Reader(pages["1200"])
    facts = gather(charge_often(tmp_path / "again.ledger", LISTED + 200).path)
    (account,) = facts.accounts
    assert [charge.entry for charge in account.charges] == [
        *range(2, 2 + ENDS),
        *range(LISTED + 202 - ENDS, LISTED + 202),
    ]
    assert sum(release.count for release in account.releases) == account.count == LISTED + 200
    assert {release.days for release in account.releases} == {"2026-03-01 to 2026-03-03"}
    assert math.fsum(each.share for each in account.releases) == pytest.approx(account.used)
    assert f"All {LISTED + 200} charges" in page.text
    assert len(page.all("tr")) < 2 * ENDS + 100
    again = gather(charge_often(tmp_path / "few.ledger", LISTED + 1).path).accounts[0]
    assert [charge.entry for charge in again.charges][ENDS - 1 : ENDS + 1] == [101, 903]


def test_releases_are_counted_where_there_are_too_many(tmp_path):
    labels = [f"label {i}" for i in range(LISTED + 50)]
    facts = gather(charge_often(tmp_path / "a.ledger", len(labels), labels, days=1).path)
    (account,) = facts.accounts
    assert len(account.releases) == RELEASES
    assert account.more_releases == len(labels) - RELEASES
    assert f"{account.more_releases} more are not shown" in to_html(facts)


@pytest.mark.slow
def test_thirty_thousand_charges(tmp_path):
    budget = charge_often(tmp_path / "long.ledger", 30_000)
    facts = gather(budget.path)
    page = to_html(facts)
    assert facts.findings == [] and len(page) < 300_000
    assert facts.accounts[0].count == 30_000
    assert facts.accounts[0].used == pytest.approx(budget.remaining().used)
    assert page == to_html(gather(budget.path))


def test_the_page_says_what_the_accountant_says(tmp_path):
    budget = varied(tmp_path / "a.ledger")
    by_name = {account.name: account for account in gather(budget.path).accounts}
    assert list(by_name) == [
        "default", "other & more", "other & more: part 1 of 2", "other & more: part 2 of 2",
    ]  # fmt: skip
    for name, account in by_name.items():
        handle = PrivacyAccountant(path=budget.path)._handle(budget._ledger, name, "")
        assert account.epsilon == handle.spent.epsilon
        assert account.rule == handle._filter
        if not account.parts:
            assert account.used == handle.remaining().used
            assert [c.entry for c in account.charges] == [s.entry for s in handle.history]
    facts = gather(budget.path)
    assert f"{facts.read.head.entry} {facts.read.head.digest}" == budget.head
    assert facts.read.head.digest in to_html(facts) and facts.read.head.digest in to_text(facts)
    last = by_name["default"].charges[-1]
    assert last.part == f"{HEBREW}<b>" and last.used == by_name["default"].used
    (charge,) = by_name["other & more: part 2 of 2"].charges
    assert charge.guarantee == "epsilon=1, delta=1e-05"


def test_a_weak_ceiling_is_called_weak(tmp_path):
    weak = gather(PrivacyAccountant(epsilon=3.0, path=tmp_path / "3.ledger").path)
    strong = gather(PrivacyAccountant(epsilon=2.9, path=tmp_path / "2.ledger").path)
    none = gather(PrivacyAccountant(path=tmp_path / "inf.ledger").path)
    assert "is weak" in to_text(weak) and "is weak" not in to_text(strong)
    assert "nothing limits what is released" in to_data(none)["verdict"]


def test_json_is_plain(tmp_path, capsys):
    path = varied(tmp_path / "a.ledger").path
    assert run("report", path, "--json") == 0
    said = json.loads(lines_of(capsys)[0])
    assert said == json.loads(json.dumps(to_data(gather(path))))
    assert said["datasets"][0]["charges"][0]["label"] == LABELS[0]
    for account, record in zip(said["datasets"], said["deployments"], strict=True):
        assert set(record) == {"url_slug", "status", "tier", "deployment"}
        registered = record["deployment"]
        assert registered["basic"]["name"] == account["name"]
        limits = {name: float(account["rule"][name]) for name in ("epsilon", "delta")}
        assert registered["privacy_loss"]["privacy_parameters"] == limits
        assert registered["dp_variant"]["variant_name"] == "Approximate DP"


# -- the command -----------------------------------------------------------------------------------


def state(folder):
    return {
        name: (hashlib.sha256((folder / name).read_bytes()).hexdigest(),
               (folder / name).stat().st_mtime_ns)
        for name in sorted(os.listdir(folder))
    }  # fmt: skip


def test_reading_writes_nothing_and_unpickles_nothing(tmp_path, monkeypatch, capsys):
    path = varied(tmp_path / "a.ledger").path
    before = state(tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    opened, connect = [], sqlite3.connect

    def note(database, *arguments, **options):
        opened.append(str(database))
        return connect(database, *arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", note)
    for command in (["report"], ["report", "--json"], ["check"]):
        assert run(command[0], path, *command[1:]) == 0
    assert state(tmp_path) == before
    files = [name for name in opened if "memory" not in name]
    assert files and all(name.endswith("?mode=ro") for name in files)


def test_exit_status_of_a_good_ledger(tmp_path, capsys):
    path = varied(tmp_path / "a.ledger").path
    assert run("check", path) == 0 and lines_of(capsys) == ("", "")
    assert run("report", path, "--dataset", "default") == 0
    out, err = lines_of(capsys)
    assert (
        err == ""
        and "Data set other & more" not in out
        and "\x1b" not in out
        and "\u202e" not in out
    )
    assert run("--version") == 0
    assert lines_of(capsys)[0].strip() == skriemdp.__version__


def test_a_seeded_charge_is_a_finding(tmp_path, capsys):
    budget = PrivacyAccountant(path=tmp_path / "a.ledger")
    budget.spend(SeededEvent(PureEvent(0.1)), label="mean")
    assert run("check", budget.path) == 1
    out, err = lines_of(capsys)
    assert out == "" and "entry 2" in err and "protects nobody" in err
    assert run("report", budget.path, "--html", tmp_path / "a.html") == 1
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "seeded: protects nobody" in text and "How often a test finds" not in text


def test_fits_with_a_random_state_are_found(tmp_path):
    from skriemdp import PrivateFrechetMean

    budget = PrivacyAccountant(path=tmp_path / "a.ledger")
    X = np.random.default_rng(0).normal(size=(40, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    mean = PrivateFrechetMean("sphere", center=[1.0, 0, 0], radius=0.5, accountant=budget)
    mean.fit(X)
    assert gather(budget.path).findings == []
    mean.set_params(random_state=0).fit(X)
    account = gather(budget.path).accounts[0]
    assert account.seeded == [3] and account.void and account.epsilon == math.inf


def test_an_event_of_another_version_is_a_finding(tmp_path, capsys, monkeypatch):
    budget = PrivacyAccountant(epsilon=1.0, path=tmp_path / "a.ledger")

    class Unheard(PureEvent):
        def to_dict(self):
            return {"kind": "unheard of", "size": 3}

    budget.spend(Unheard(0.1))
    assert run("report", budget.path) == 1
    out, err = lines_of(capsys)
    assert "cannot read" in err and "epsilon unknown" in out and "Not computed" in out


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entries SET cost = '[0,0,0,0]' WHERE id = 3",
        "UPDATE places SET last = 1",
        "DELETE FROM entries WHERE id = 4",
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM places; END",
        "DELETE FROM places WHERE part <> ''",
    ],
)
def test_an_edited_file_is_a_finding(tmp_path, capsys, edit):
    path = varied(tmp_path / "a.ledger").path
    with sqlite3.connect(path) as db:
        db.execute(edit)
    db.close()
    assert run("check", path) == 1
    assert "does not add up" in lines_of(capsys)[1]
    assert run("report", path, "--html", tmp_path / "a.html") == 1
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "do not rely on what it says" in text and "How often a test finds" not in text


def test_heads_and_witnesses(tmp_path, capsys):
    witness = tmp_path / "w"
    budget = PrivacyAccountant(epsilon=1.0, path=tmp_path / "a.ledger", witness=witness)
    budget.spend(PureEvent(0.1))
    noted, path = budget.head, budget.path
    shutil.copy(path, tmp_path / "old.ledger")
    budget.spend(PureEvent(0.1))
    for head in (noted, budget.head, noted.split()[1], f"entry {noted}"):
        assert run("check", path, "--head", head, "--witness", witness) == 0
    capsys.readouterr()
    old = tmp_path / "old.ledger"
    assert run("check", old, "--head", noted) == 0
    assert run("check", old, "--head", budget.head) == 1
    assert run("check", old, "--witness", witness) == 1
    assert "old backup" in lines_of(capsys)[1]
    assert run("check", old, "--head", budget.head.split()[1]) == 1
    assert "no entry with the digest" in lines_of(capsys)[1]
    assert run("check", path, "--head", "1 " + noted.split()[1]) == 1
    assert run("check", path, "--head", "abc") == 2
    assert run("check", path, "--witness", tmp_path / "none") == 2
    other = PrivacyAccountant(epsilon=1.0, path=tmp_path / "b.ledger", witness=tmp_path / "v")
    assert run("check", other.path, "--witness", witness) == 1


def test_wrong_use(tmp_path, capsys):
    path = varied(tmp_path / "a.ledger").path
    page = tmp_path / "page.html"
    page.write_text("mine")
    for arguments in (
        [],
        ["report"],
        ["burn", path],
        ["report", path, "--dataset", "none"],
        ["report", path, "--html", page],
        ["report", path, "--html", path, "--force"],
        ["report", path, "--html", f"{path}-journal", "--force"],
        ["report", path, "--html", tmp_path, "--force"],
        ["report", path, "--html", tmp_path / "no" / "folder.html"],
    ):
        assert run(*arguments) == 2
        assert lines_of(capsys)[1]
    assert page.read_text() == "mine"
    run("report", path, "--dataset", "none")
    err = lines_of(capsys)[1]
    assert "no data set 'none'; it has 'default', 'other & more'" in err
    assert run("check", path) == 0
    assert run("report", path, "--html", page, "--force") == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(os.listdir(tmp_path)) == ["a.ledger", "a.ledger-journal", "page.html"]


def test_what_cannot_be_read(tmp_path, capsys):
    good = varied(tmp_path / "a.ledger").path
    (tmp_path / "text").write_text("no ledger" * 1000)
    (tmp_path / "empty").touch()
    shutil.copy(good, tmp_path / "format-1")
    with sqlite3.connect(tmp_path / "format-1") as db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    for name in ("missing", "text", "empty", "format-1"):
        for command in ("report", "check"):
            assert run(command, tmp_path / name) == 3
    assert "use the version that wrote it" in lines_of(capsys)[1]
    whole = (tmp_path / "a.ledger").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    assert run("check", tmp_path / "cut") == 3


def test_an_unfinished_charge_is_not_undone_by_a_reader(tmp_path, capsys):
    """A charge that was cut off lies half in the file; who may not write must not guess."""
    budget = varied(tmp_path / "a.ledger")
    script = """
        import os, signal, sys
        from skriemdp.ledger import _storage as storage
        db = storage.open_file(sys.argv[1])
        db.execute("PRAGMA journal_mode = PERSIST")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE entries SET label = 'cut off'")
        for number in range(200):
            db.execute("INSERT INTO texts(text) VALUES (?)", (str(number) * 500,))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), budget.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    before = state(tmp_path)
    assert run("report", budget.path) == 3
    assert "open it once where" in lines_of(capsys)[1]
    assert state(tmp_path) == before
    assert len(budget.history) == 6  # this opens it for writing, and undoes what was cut off
    assert run("check", budget.path) == 0


def test_a_rule_of_another_version_is_unreadable(tmp_path, capsys):
    path = varied(tmp_path / "a.ledger").path
    with sqlite3.connect(path) as db:
        db.execute("UPDATE texts SET text = replace(text, 'auto', 'newer')")
    db.close()
    assert run("report", path) == 3
    assert "rule that this version cannot read" in lines_of(capsys)[1]


def test_reading_while_others_charge(tmp_path, monkeypatch):
    """Pages of the file come from different moments; what is said is the last one."""
    budget = charge_often(tmp_path / "a.ledger", 50)
    monkeypatch.setattr(storage, "PAGE", 10)
    looking, left = storage.looking, [3]

    def interrupted(path):
        if left[0]:
            left[0] -= 1
            budget.spend(PureEvent(1e-3))
        return looking(path)

    monkeypatch.setattr(storage, "looking", interrupted)
    facts = gather(budget.path)
    assert facts.findings == [] and facts.accounts[0].count == 53
    assert facts.accounts[0].used == budget.remaining().used


# -- what an officer asks --------------------------------------------------------------------------


def test_findings_are_of_the_whole_file_whatever_is_shown(tmp_path, capsys):
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=tmp_path / "a.ledger")
    budget.dataset("b", 2.0, 1e-6).spend(PureEvent(0.1))
    budget.dataset("open", math.inf).spend(SeededEvent(PureEvent(0.1)))
    assert run("report", budget.path, "--dataset", "b") == 1
    out, err = lines_of(capsys)
    assert "protects nobody" in out and "protects nobody" in err
    assert "Nothing was found" not in out and "is partial" in out and "1 of 3 data sets" in out
    assert "Data set b" in out and "Data set open" not in out
    assert run("report", budget.path) == 1
    assert "is partial" not in lines_of(capsys)[0]


def test_the_sum_if_all_data_sets_are_the_same_people(tmp_path):
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=tmp_path / "a.ledger")
    assert "All data sets" not in to_text(gather(budget.path))
    budget.dataset("b", 2.0, 1e-5).split(2)
    assert "epsilon = 3, delta = 1.1e-05, the sums" in to_text(gather(budget.path, "b"))
    budget.dataset("open", math.inf)
    assert "some data sets have no ceiling" in to_text(gather(budget.path))


@pytest.mark.parametrize(
    "n, unit, text",
    [
        (99, "record", "is below, as it should be: 0.01 is 0.99 times"),
        (100, "record", "is NOT below: 0.01 is 1 times"),
        (100, "group", "is NOT below"),
        (None, "record", "how many records there are was noted by no charge"),
        (None, PRESENT, "how many records there are is secret"),
    ],
)
def test_delta_against_one_over_n(tmp_path, n, unit, text):
    budget = PrivacyAccountant(epsilon=1.0, delta=0.01, path=tmp_path / "a.ledger", unit=unit)
    noted = {} if n is None else {"n_groups" if unit == "group" else "n": n}
    budget.spend(PureEvent(0.1), params={"unit": unit}, facts=noted)
    said = gather(budget.path)
    assert text in to_text(said)
    assert ("is not below 1/n" in to_html(said)) == ("NOT" in text)


def test_a_secret_number_of_records_is_not_called_public(tmp_path):
    budget = PrivacyAccountant(epsilon=9.0, path=tmp_path / "a.ledger", unit=PRESENT)
    X = np.random.default_rng(0).normal(size=(300, 3)) / 9.0
    model = skriemdp.PrivateFrechetMean(center=np.zeros(3), radius=1.0, accountant=budget).fit(X)
    facts = gather(budget.path)
    said = to_text(facts)
    assert model.privacy_spent_.neighboring == "replace-one or add/remove-one"
    assert "replaced by any other, added or removed" in said and "is public" not in said
    assert "whether it is there at all" in said and "as the ledger was made" not in said
    loss = to_data(facts)["deployments"][0]["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "record-level" and "secret" in loss["privacy_unit_details"]


@pytest.mark.parametrize("noted", ["all", [], [1], [["a", "b", "c", 1]], [["a", 0.5, "b"]]])
def test_what_is_no_plan_is_shown_as_a_fact(tmp_path, noted):
    budget = PrivacyAccountant(path=tmp_path / "a.ledger")
    budget.spend(PureEvent(0.1), facts={"releases": noted})
    page = to_html(gather(budget.path))
    wanted = noted if isinstance(noted, str) else json.dumps(noted)
    assert (dict(shown_facts(page)).get("releases") == wanted) == (noted != [])


def test_every_question_is_answered_and_the_formula_is_folded(pages):
    page = Reader(pages["varied"])
    for question in (
        "Unit of privacy", "Neighbouring data sets", "Epsilon and delta", "Delta against 1/n",
        "What an attacker gains", "Mechanisms", "Composition", "What remains",
        "What is not covered",
    ):  # fmt: skip
        assert question in page.text
    assert page.all("details") and re.search(
        r"<details>[^/]*</summary><bdi>Rule auto", pages["varied"]
    )
    assert "sum of mu^2" not in re.sub("<details>.*?</details>", "", pages["varied"])


def test_what_remains_is_what_the_accountant_says(tmp_path):
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=tmp_path / "a.ledger")
    budget.spend(GaussianEvent(20.0))
    budget.partition("p").spend(PureEvent(0.2))
    budget.partition("q").spend(PureEvent(0.1))
    assert gather(budget.path).accounts[0].remaining == budget.remaining()


def test_what_holds_alone_is_added_up(tmp_path):
    budget = PrivacyAccountant(epsilon=5.0, delta=1e-6, path=tmp_path / "a.ledger")
    budget.spend(GaussianEvent(20.0))
    assert "In sum, alone" not in to_text(gather(budget.path))
    budget.spend(GaussianEvent(20.0), params={"honest": 9, "epsilon_alone": 0.7})
    facts = gather(budget.path)
    (account,) = facts.accounts
    assert account.alone == budget.spent_alone.epsilon > account.epsilon == budget.spent.epsilon
    alone = GaussianEvent(20.0 / math.sqrt(10.0)).epsilon(1e-6)
    assert account.alone == pytest.approx(alone, rel=1e-4)
    for page in (to_text(facts), to_html(facts)):
        assert f"{alone:.3f}" in page.partition("In sum, alone")[2]
    assert float(to_data(facts)["datasets"][0]["alone"]) == account.alone


def test_author_and_date(tmp_path, capsys, monkeypatch):
    budget = PrivacyAccountant(epsilon=1.0, path=tmp_path / "a.ledger")
    monkeypatch.setattr("skriemdp.page._facts.now", lambda: "2031-02-03T04:05:06.000+00:00")
    assert run("report", budget.path, "--author", "A. <Officer>", "--html", tmp_path / "p") == 0
    page = Reader((tmp_path / "p").read_text(encoding="utf-8"))
    assert "A. <Officer>" in page.text and "2031-02-03" in page.text


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600)])
def test_the_page_has_the_rights_of_a_new_file(tmp_path, mask, mode):
    budget = PrivacyAccountant(epsilon=1.0, path=tmp_path / "a.ledger")
    before = os.umask(mask)
    try:
        assert run("report", budget.path, "--html", tmp_path / "p") == 0
        assert run("report", budget.path, "--html", tmp_path / "p", "--force") == 0
    finally:
        os.umask(before)
    assert (tmp_path / "p").stat().st_mode & 0o777 == mode


def test_help_says_what_everything_is(capsys):
    for command in ("report", "check"):
        assert run(command, "--help") == 0
        text = " ".join(lines_of(capsys)[0].split())
        assert "path= to PrivacyAccountant" in text
        lines = text.partition("options:")[2]
        for option in re.findall("--[a-z]+ [A-Z]+|--json|--force", lines):
            assert re.search(re.escape(option) + " [a-z]", lines), option


def shown_facts(page):
    """Names and values in the table of public facts."""
    rows = re.findall(r"<th scope='row'><bdi>(.*?)</bdi></th><td><bdi>(.*?)</bdi></td>", page)
    return [(html.unescape(name).partition(":")[0], html.unescape(value)) for name, value in rows]


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_each_public_fact_of_each_estimator_is_on_the_page(tmp_path, estimator):
    budget = PrivacyAccountant(path=tmp_path / "a.ledger")
    model = clone(estimator)
    own = "accountant" in model.get_params(deep=False)
    model.set_params(**{"accountant" if own else "estimator__accountant": budget})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*data(estimator))
    public = plain_facts(model.privacy_spent_.public)
    page = to_html(gather(budget.path))
    found = shown_facts(page)
    assert model.privacy_spent_.releases and public
    for name, share, law, dim in public.pop("releases"):
        cells = (f"{100 * share:.3g} %", law, "several" if dim is None else dim)
        row = "".join(f"<td[^>]*><bdi>{re.escape(str(cell))}</bdi></td>" for cell in cells)
        assert re.search(f"<bdi>{re.escape(name)}</bdi></th>{row}", page), name
    for name, value in public.items():
        texts = [text for known, text in found if known == name]
        wanted = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict) and "sha256" in value:
            wanted = value["sha256"]
        assert any(wanted in text for text in texts), name


@pytest.fixture(scope="module")
def charged(tmp_path_factory):
    """A ledger with two fits, and their models."""
    folder = tmp_path_factory.mktemp("models")
    budget = PrivacyAccountant(path=folder / "a.ledger")
    X = np.random.default_rng(0).normal(size=(40, 3))
    models = [
        skriemdp.PrivateFrechetMean(radius=radius, accountant=budget).fit(X)
        for radius in (1.0, 2.0)
    ]
    return budget.path, models


def as_pickle(model, protocol=None):
    return pickle.dumps(model, protocol)


def as_statement(model):
    return json.dumps(model.privacy_spent_.to_dict()).encode()


@pytest.mark.parametrize("form", [as_pickle, as_statement])
def test_a_model_is_matched_with_its_charge_and_another_is_not(charged, tmp_path, capsys, form):
    path, models = charged
    for number, model in zip((2, 3), models, strict=True):
        (tmp_path / "model").write_bytes(form(model))
        assert run("report", path, "--model", tmp_path / "model") == 0
        assert f"It is the one that was charged: entry {number}," in lines_of(capsys)[0]
    other = PrivacyAccountant(path=tmp_path / "b.ledger")
    X = np.random.default_rng(0).normal(size=(40, 3))
    fitted = skriemdp.PrivateFrechetMean(radius=1.0, accountant=other).fit(X)
    (tmp_path / "model").write_bytes(form(fitted))
    assert run("report", path, "--model", tmp_path / "model") == 1
    out, err = lines_of(capsys)
    assert "NOT the one that was charged" in out and "not the one charged" in err


def test_a_changed_statement_is_noticed(charged, tmp_path):
    path, (model, _) = charged
    said = model.privacy_spent_.to_dict()
    for change in ({"unit": "group"}, {"public": said["public"] | {"n": 41}}):
        (tmp_path / "model").write_text(json.dumps(said | change))
        assert run("report", path, "--model", tmp_path / "model") == 1


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_model_within_others_is_found(charged, tmp_path, protocol):
    path, models = charged
    deep = {"pipeline": [("a", models[0])], "notes": "text", "more": models[1]}
    (tmp_path / "model").write_bytes(as_pickle(deep, protocol))
    found = gather(path, model=tmp_path / "model")
    assert [what.partition(",")[0] for what in found.models] == ["entry 2", "entry 3"]
    assert found.against == []


@pytest.mark.parametrize("content", [b"", b"text", b"{", b"{}", b"[1]", pickle.dumps([1, 2])])
def test_a_file_that_names_no_charge_is_refused(charged, tmp_path, capsys, content):
    (tmp_path / "model").write_bytes(content)
    assert run("report", charged[0], "--model", tmp_path / "model") == 2
    told = lines_of(capsys)[1]
    assert "privacy_spent_.to_dict()" in told
    assert ("pickle.dump or joblib.dump" in told) == (not content.startswith(b"{}"))
    assert run("report", charged[0], "--model", tmp_path / "missing") == 2


@pytest.mark.parametrize(("first", "then"), [(False, False), (True, False), (True, True)])
def test_a_report_says_who_charged_or_that_nobody_knows(tmp_path, capsys, first, then):
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=tmp_path / "a.ledger")
    for sign in (first, then):
        with config_context(sign_charges=sign):
            made = budget.spend(GaussianEvent(20.0))
            signature = f"Signed by {made.user} at {made.host}." if sign else ""
            assert run("report", budget.path) == 0
            assert signature in (said := lines_of(capsys)[0])
    assert ("No charge says who made it" in said) == (not first)
    assert ("Others do not say who made them" in said) == (first and not then)
    if not then:
        assert "skriemdp.set_config(sign_charges=True)" in said


# -- the example in the documentation --------------------------------------------------------------


def test_the_example_of_the_documentation_is_what_the_program_makes():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "docs", "example-report.html"), encoding="utf-8") as file:
        committed = file.read()
    tool = runpy.run_path(os.path.join(root, "tools", "example_report.py"))

    def without_digest(text):  # it holds costs to the last digit, which moves with SciPy
        return re.sub(r"\b[0-9a-f]{64}\b", "digest", text)

    assert without_digest(tool["example"]()) == without_digest(committed), (
        "run python tools/example_report.py"
    )


def test_a_reader_that_leaves_is_told_of(tmp_path, capsys, monkeypatch):
    path = varied(tmp_path / "a.ledger").path

    def gone(text):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys.stdout, "write", gone)
    assert run("report", path, "--json") == 2
    assert "left before its end" in lines_of(capsys)[1]
