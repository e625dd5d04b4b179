"""The two messages of a secure sum: what comes of everything that a server or a client may try."""

import itertools
import os
import shutil
import signal
import sqlite3
import threading

import numpy as np
import pytest
from scipy.stats import chi2
from test_cohort import planted

from skriemdp import PrivacyAccountant
from skriemdp.federated import _attendance as messages
from skriemdp.federated import _masks as masks
from skriemdp.federated._agreement import Agreement
from skriemdp.federated._attendance import (
    Attempt,
    Attendance,
    AttendanceBook,
    Member,
    answered,
    checked_list,
    reply,
    request,
    unmasked,
)
from skriemdp.federated._cohort import Cohort, Identity
from skriemdp.ledger._accountant import BudgetError
from skriemdp.privacy._events import GaussianEvent

pytest.importorskip("cryptography")

FIRST, SECOND = Attempt("spring", 0, 0), Attempt("spring", 0, 1)
NOISE = np.random.default_rng(7)


class Hospital:
    """A client with made-up integers, a book and a ledger on disk."""

    def __init__(self, name, cohort, identity, agreement, folder, module=messages, **of_member):
        self.name, self.identity, self.folder = name, identity, folder
        self.ledger = PrivacyAccountant(epsilon=100.0, path=folder / f"{name}.ledger")
        book = module.AttendanceBook(folder / f"{name}.book")
        self.member = module.Member(name, identity, cohort, agreement, book, 10, **of_member)
        self.value = NOISE.integers(-(2**43), 2**43, agreement.length)
        self.steps = []

    def charged(self, asked):
        wanted = {"fit": asked.fit_id, "round": asked.round, "attempt": asked.attempt}
        return any(entry.params == wanted for entry in self.ledger.history)

    def attend(self, asked):
        return self.member.attend(asked, lambda: self.charged(asked))

    def add(self, asked, entries):
        def charge(listed):
            self.steps.append(("charge", listed.names))
            params = {"fit": asked.fit_id, "round": asked.round, "attempt": asked.attempt}
            self.ledger.spend(GaussianEvent(10.0), label="secure sum", params=params)

        return self.member.add(asked, entries, lambda: self.charged(asked), charge, self.draw)

    def draw(self, honest):
        self.steps.append(("noise", honest))
        return self.value

    @property
    def charges(self):
        return len(self.ledger.history)


class Federation:
    def __init__(self, folder, count=4, length=5, colluding=1, module=messages):
        names = [f"h{k:03d}" for k in range(count)]
        self.identities = {name: Identity(NOISE.bytes(32)) for name in names}
        keys = {name: identity.public for name, identity in self.identities.items()}
        self.cohort, self.agreement = Cohort(keys, colluding), Agreement({}, length, 2**40)
        self.hospitals = {
            name: Hospital(name, self.cohort, identity, self.agreement, folder, module)
            for name, identity in self.identities.items()
        }

    def __getitem__(self, place):
        return list(self.hospitals.values())[place]

    def attend(self, asked, names=None):
        chosen = self.hospitals if names is None else names
        return [self.hospitals[name].attend(asked) for name in sorted(chosen)]

    def forged(self, name, asked, signer=None, **changes):
        """An attendance that somebody made up and `signer` signed."""
        key = masks.public_key(NOISE.bytes(32))
        entry = Attendance(name, key, 10, b"")._replace(**changes)
        release = asked.digest(self.cohort, self.agreement)
        signer = self.identities[name] if signer is None else signer
        return entry._replace(signature=signer.sign(entry.message(release)))

    def total(self, asked, entries, uploads):
        listed = checked_list(self.cohort, self.agreement, asked, entries)
        return unmasked(self.agreement, listed, uploads)

    def charges(self):
        return sum(hospital.charges for hospital in self.hospitals.values())


@pytest.fixture
def four(tmp_path):
    return Federation(tmp_path)


# -- what honest clients get -----------------------------------------------------------------------


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize(
    ("count", "length"),
    [(3, 1), (40, 253), *itertools.product([2, 3, 20], [253, 3000]), (2, 1), (20, 1)],
)
def test_masked_totals_are_those_without_masks(tmp_path, count, length):
    federation = Federation(tmp_path, count, length)
    entries = federation.attend(FIRST)
    assert federation.charges() == 0
    uploads = {h.name: h.add(FIRST, entries) for h in federation.hospitals.values()}
    wanted = sum(hospital.value for hospital in federation.hospitals.values())
    np.testing.assert_array_equal(federation.total(FIRST, entries, uploads), wanted)
    for hospital in federation.hospitals.values():
        listed = tuple(sorted(federation.hospitals))
        assert hospital.steps == [("charge", listed), ("noise", count - 1)]
        assert hospital.charges == 1


def test_messages_are_short(tmp_path):
    federation = Federation(tmp_path, 3, 100)
    up = [len(reply(h, request("attend", FIRST))) for h in federation.hospitals.values()]
    entries = federation.attend(FIRST)
    words = [len(reply(h, request("add", FIRST, entries))) for h in federation.hospitals.values()]
    assert max(up) + max(words) - 8 * 100 <= 250


def test_a_repeated_message_gets_the_stored_words(four):
    entries = four.attend(FIRST)
    assert four.attend(FIRST) == entries
    first = four[0].add(FIRST, entries)
    np.testing.assert_array_equal(four[0].add(FIRST, entries), first)
    assert four[0].charges == 1 and len(four[0].steps) == 2
    with pytest.raises(BudgetError, match="answered"):
        four[0].attend(FIRST)


def test_words_above_half_of_the_range_last(tmp_path):
    words = np.array([2**63 + 1, 5, 2**64 - 1, 0] * 16, dtype=np.uint64)
    federation = Federation(tmp_path, 2, 63)
    entries, first = federation.attend(FIRST), federation[0]
    listed = checked_list(federation.cohort, federation.agreement, FIRST, entries)
    release, book = FIRST.digest(federation.cohort, federation.agreement), first.member.book
    place = first.name, FIRST, release, listed
    with book.reserved(*place) as found:
        assert masks.public_key(found) == entries[0].key
    with pytest.raises(BudgetError, match="never finished"), book.reserved(*place):
        pass
    book.keep(first.name, FIRST, words)
    with book.reserved(*place) as stored:
        assert stored.dtype == np.uint64
        np.testing.assert_array_equal(stored, words)
    with pytest.raises(BudgetError, match="answered, or its book"):
        book.keep(first.name, FIRST, words)


def test_answers_may_lie_in_the_same_book(four):
    book = four[0].member.book
    with sqlite3.connect(book.path) as connection:
        connection.execute("CREATE TABLE answers (client TEXT, fit TEXT, round INTEGER, old TEXT)")
    entries = four.attend(FIRST)
    assert len(four[0].add(FIRST, entries)) == 6


# -- lists -----------------------------------------------------------------------------------------


def broken_lists(federation):
    """Lists that every client refuses, and what it says."""
    a, b, c, d = entries = federation.attend(FIRST)
    stranger, server = Identity(bytes(32)), Identity(b"1" * 32)
    names = list(federation.hospitals)
    other = Federation.__new__(Federation)
    other.__dict__ = federation.__dict__ | {"agreement": Agreement({"radius": 2.0}, 5, 2**40)}
    fewer = Federation.__new__(Federation)
    keys = {name: federation.cohort.members[name] for name in names[:3]}
    fewer.__dict__ = federation.__dict__ | {"cohort": Cohort(keys)}
    forged = federation.forged
    yield [], "2 to"
    yield [a], "2 to"
    yield [a, a, b, c], "sorted"
    yield [b, a, c, d], "sorted"
    yield [a, b, c, forged(names[2], FIRST)], "sorted"
    yield [a, b, c, d._replace(name="zz")], "not of the cohort"
    yield [*entries, forged("zz", FIRST, stranger)], "not of the cohort"
    yield [a, b, c, forged(names[3], FIRST, server)], "did not sign"
    yield [a, b, c, forged(names[3], FIRST, key=a.key)], "same key"
    yield [a, b, c, forged(names[3], FIRST, key=bytes(32))], "small order"
    copied = a.key[:-1] + bytes([a.key[-1] | 0x80])
    yield [a, b, c, forged(names[3], FIRST, key=copied)], "canonical"
    yield [a, b, c, d._replace(key=masks.public_key(bytes(32)))], "did not sign"
    yield [a, b, c, d._replace(size=11)], "did not sign"
    yield [a, b, c, d._replace(signature=c.signature)], "did not sign"
    yield [a, b, c, d._replace(signature=d.signature[:-1])], "no signature"
    yield [a, b, c, d._replace(signature=np.bytes_(d.signature))], "no signature"
    yield [a, b, c, d._replace(size=0)], "number of records"
    yield [a, b, c, d._replace(size=10.0)], "number of records"
    yield [a, b, c, d._replace(size=True)], "number of records"
    yield [a, b, c, forged(names[3], FIRST, size=2**61)], "62 bits"
    for asked in (SECOND, Attempt("autumn", 0, 0), Attempt("spring", 1, 0)):
        yield [a, b, c, forged(names[3], asked)], "did not sign"
    yield [a, b, c, other.forged(names[3], FIRST)], "did not sign"
    yield [a, b, c, fewer.forged(names[3], FIRST)], "did not sign"


def test_lists_that_are_not_in_order_are_refused(four):
    for place, (entries, words) in enumerate(broken_lists(four)):
        with pytest.raises(ValueError, match=words):
            four[0].add(FIRST, entries)
        assert place >= 0 and four.charges() == 0 and not four[0].steps
    # None of that spoils the list that is in order.
    entries = four.attend(FIRST)
    uploads = {h.name: h.add(FIRST, entries) for h in four.hospitals.values()}
    four.total(FIRST, entries, uploads)


def test_the_own_entry_must_be_the_own(four):
    a, b, c, d = four.attend(FIRST)
    with pytest.raises(BudgetError, match="own attendance"):
        four[0].add(FIRST, [b, c, d])
    with pytest.raises(BudgetError, match="own attendance"):
        four[0].add(FIRST, [four.forged(four[0].name, FIRST), b, c, d])
    assert four.charges() == 0


def test_a_list_must_be_longer_than_the_colluders(tmp_path):
    federation = Federation(tmp_path, 4, colluding=2)
    entries = federation.attend(FIRST)
    with pytest.raises(ValueError, match="more clients than may collude"):
        federation[0].add(FIRST, entries[:2])
    assert federation.charges() == 0
    federation[0].add(FIRST, entries[:3])
    assert federation[0].steps[1] == ("noise", 1)


def test_only_what_was_attended_is_added(four):
    entries = four.attend(FIRST)
    with pytest.raises(ValueError, match="did not sign"):
        four[0].add(SECOND, entries)
    forged = [four.forged(name, SECOND) for name in four.hospitals]
    with pytest.raises(BudgetError, match="not attended"):
        four[0].add(SECOND, forged)
    assert four.charges() == 0


def test_another_list_of_the_same_attempt_is_refused(four):
    entries = four.attend(FIRST)
    four[0].add(FIRST, entries)
    with pytest.raises(BudgetError, match="another list"):
        four[0].add(FIRST, entries[:3])
    assert four[0].charges == 1 and len(four[0].steps) == 2


def test_disjoint_lists_both_come_out(tmp_path):
    federation = Federation(tmp_path, 6)
    entries = federation.attend(FIRST)
    for part in (slice(0, 3), slice(3, 6)):
        own = entries[part]
        hospitals = [federation.hospitals[entry.name] for entry in own]
        uploads = {h.name: h.add(FIRST, own) for h in hospitals}
        total = federation.total(FIRST, own, uploads)
        np.testing.assert_array_equal(total, sum(h.value for h in hospitals))
        assert all(h.steps[1] == ("noise", 2) for h in hospitals)  # each list has its own shares
    assert federation.charges() == 6


def test_with_one_client_less_the_others_draw_and_pay_anew(four):
    entries = four.attend(FIRST)
    first = {h.name: h.add(FIRST, entries) for h in four.hospitals.values()}
    names = list(four.hospitals)[1:]
    fewer = four.attend(SECOND, names)
    second = {name: four.hospitals[name].add(SECOND, fewer) for name in names}
    assert [h.charges for h in four.hospitals.values()] == [1, 2, 2, 2]
    assert [len(h.steps) for h in four.hospitals.values()] == [2, 4, 4, 4]
    difference = four.total(FIRST, entries, first) - four.total(SECOND, fewer, second)
    np.testing.assert_array_equal(difference, four[0].value)  # made-up noise: here there is none


# -- attempts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, error",
    [
        (Attempt("spring", 0, 2), ValueError),
        (Attempt("spring", 1, 0), ValueError),
        (Attempt("spring", 0, -1), ValueError),
        (Attempt("spring", -1, 0), ValueError),
        (Attempt("spring", 0, True), TypeError),
        (Attempt("spring", 0.0, 0), TypeError),
        (Attempt("spring", 0, np.int64(0)), TypeError),
        (Attempt("", 0, 0), ValueError),
        (Attempt(None, 0, 0), TypeError),
        (Attempt("a\0", 0, 0), ValueError),
    ],
)
def test_attempts_outside_of_the_plan_are_refused(four, asked, error):
    with pytest.raises(error):
        four[0].attend(asked)
    with pytest.raises(error):
        four[0].add(asked, [])


def test_four_attempts_at_once_give_two_charges_at_most(four):
    asked = [Attempt("spring", 0, k) for k in range(4)]
    lists = {}
    for attempt in asked:
        try:
            lists[attempt] = four.attend(attempt)
        except ValueError:
            pass
    assert list(lists) == asked[:2]
    # The second made the first void, and its key is gone.
    with pytest.raises(BudgetError, match="over"):
        four[0].add(FIRST, lists[FIRST])
    with pytest.raises(BudgetError, match="newer"):
        four[0].attend(FIRST)
    four[0].add(SECOND, lists[SECOND])
    assert four.charges() == 1


def test_open_attendances_are_few(four, monkeypatch):
    monkeypatch.setattr(messages, "_MOST_OPEN", 3)
    asked = [Attempt(f"fit {k}", 0, 0) for k in range(6)]
    lists = [four.attend(attempt) for attempt in asked]
    assert secrets_in(four[0]) == 3
    for attempt, entries in list(zip(asked, lists, strict=True))[:3]:
        with pytest.raises(BudgetError, match="over"):
            four[0].add(attempt, entries)
    four[0].add(asked[3], lists[3])
    assert four.charges() == 1


def test_open_attendances_expire(four):
    entries = four.attend(FIRST)
    with sqlite3.connect(four[0].member.book.path) as connection:
        connection.execute("UPDATE attendances SET opened = opened - 2 * 86400")
    with pytest.raises(BudgetError, match="over"):
        four[0].add(FIRST, entries)
    assert secrets_in(four[0]) == 0
    renewed = four.attend(FIRST)
    assert renewed[0].key != entries[0].key
    four[0].add(FIRST, renewed)
    assert four.charges() == 1


def secrets_in(hospital):
    with sqlite3.connect(hospital.member.book.path) as connection:
        query = "SELECT count(*) FROM attendances WHERE secret IS NOT NULL"
        return connection.execute(query).fetchone()[0]


# -- books and ledgers -----------------------------------------------------------------------------


def key_stays(folder, module):
    """Whether the secret key is in the book after its list is reserved."""
    federation = Federation(folder, 2, module=module)
    entries = federation.attend(FIRST)
    book = federation[0].member.book.path
    with sqlite3.connect(book) as connection:
        (secret,) = connection.execute("SELECT secret FROM attendances").fetchone()
    with open(book, "rb") as file:
        assert secret in file.read()
    federation[0].add(FIRST, entries)
    with open(book, "rb") as file:
        return secret in file.read()


def test_keys_are_erased_with_the_reservation(tmp_path):
    assert not key_stays(tmp_path, messages)
    (tmp_path / "faulty").mkdir()
    assert key_stays(tmp_path / "faulty", planted(messages, ", secret = NULL", ""))


def test_a_book_that_was_rolled_back_is_noticed(four):
    """Masks would repeat and noise would not: the ledger remembers what the book forgot."""
    entries = four.attend(FIRST)
    book = four[0].member.book.path
    shutil.copy(book, book + ".old")
    four[0].add(FIRST, entries)
    shutil.copy(book + ".old", book)
    with pytest.raises(BudgetError, match="ledger holds this attempt"):
        four[0].add(FIRST, entries)
    os.remove(book)
    with pytest.raises(BudgetError, match="ledger holds this attempt"):
        four[0].attend(FIRST)
    assert four[0].charges == 1 and len(four[0].steps) == 2


def test_a_ledger_that_refuses_takes_the_reservation_back(four):
    entries = four.attend(FIRST)
    first = four[0]
    room = first.ledger
    first.ledger = PrivacyAccountant(epsilon=1e-6, path=first.folder / "poor.ledger")
    with pytest.raises(BudgetError, match="would pass|exceed|ceiling"):
        first.add(FIRST, entries)
    assert [step for step, _ in first.steps] == ["charge"] and secrets_in(first) == 1
    first.ledger = room
    first.add(FIRST, entries)
    assert first.charges == 1


def test_two_lists_at_once(four):
    """One of them is reserved, whoever comes first."""
    entries = four.attend(FIRST)
    lists, found = [entries, entries[:3]], {}
    ready = threading.Barrier(2)

    def ask(place):
        ready.wait()
        try:
            found[place] = four[0].add(FIRST, lists[place])
        except BudgetError:
            found[place] = None

    threads = [threading.Thread(target=ask, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = [found[place] for place in (0, 1) if found[place] is not None]
    assert len(answers) == 1 and four[0].charges == 1


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function, after):
    """`function`, in the course of which the process is killed."""

    def called(*arguments, **settings):
        result = function(*arguments, **settings) if after else None
        die()
        return result

    return called


KILLED = {
    "before the charge": ("charge", False),
    "after the charge": ("charge", True),
    "before the noise": ("draw", False),
    "after the noise": ("draw", True),
    "before the words are stored": ("keep", False),
    "after the words are stored": ("keep", True),
}


@pytest.mark.parametrize("where", KILLED)
def test_a_process_that_is_killed(four, where):
    """Never two uploads of one attempt, and never one without a charge."""
    entries, hospital = four.attend(FIRST), four[0]
    step, after = KILLED[where]
    child = os.fork()
    if child == 0:
        if step == "charge":
            hospital.ledger.spend = dying(hospital.ledger.spend, after)
        elif step == "draw":
            hospital.draw = dying(hospital.draw, after)
        else:
            AttendanceBook.keep = dying(AttendanceBook.keep, after)
        try:
            hospital.add(FIRST, entries)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    charged = where != "before the charge"
    assert hospital.charges == charged
    if where == "after the words are stored":
        assert len(hospital.add(FIRST, entries)) == 6
    elif charged:
        with pytest.raises(BudgetError, match="never finished|ledger holds"):
            hospital.add(FIRST, entries)
    else:
        hospital.add(FIRST, entries)
    assert hospital.charges == 1 and bool(hospital.steps) != charged


def drawn_for_nothing(folder, module):
    """Draws of noise for messages that get none: a repeated one, and another list."""
    federation = Federation(folder, 3, module=module)
    entries, first = federation.attend(FIRST), federation[0]
    first.add(FIRST, entries)
    drawn = len(first.steps)
    first.add(FIRST, entries)
    with pytest.raises(BudgetError):
        first.add(FIRST, entries[:2])
    return len(first.steps) - drawn


def test_noise_is_drawn_after_the_list_is_reserved(tmp_path):
    assert drawn_for_nothing(tmp_path, messages) == 0
    early = planted(
        messages,
        "        with self.book.reserved(",
        "        total = noisy(listed.honest)\n        with self.book.reserved(",
    )
    (tmp_path / "faulty").mkdir()
    assert drawn_for_nothing(tmp_path / "faulty", early) > 0


def shares_counted(folder, module):
    """Of how many unknown shares three clients draw their noise, where two may collude."""
    federation = Federation(folder, 3, colluding=2, module=module)
    federation[0].add(FIRST, federation.attend(FIRST))
    return dict(federation[0].steps)["noise"]


def test_colluders_are_counted(tmp_path):
    assert shares_counted(tmp_path, messages) == 1
    ignored = planted(messages, "honest = len(entries) - cohort.colluding", "honest = len(entries)")
    (tmp_path / "faulty").mkdir()
    assert shares_counted(tmp_path / "faulty", ignored) == 3


def two_stories_show_a_sum(folder, module, salted):
    """Whether two clients that were shown two lists give away their sum.

    To the server and a third client, which attends twice and tells its keys; `salted` is what it
    makes of a list.
    """
    federation = Federation(folder, 3, module=module)
    first, second, third = federation.hospitals
    honest = federation.attend(FIRST, (first, second))
    release = FIRST.digest(federation.cohort, federation.agreement)
    total = np.zeros(6, np.uint64)
    for name in (first, second):
        secret = NOISE.bytes(32)
        entries = [*honest, federation.forged(third, FIRST, key=masks.public_key(secret))]
        listed = checked_list(federation.cohort, federation.agreement, FIRST, entries)
        shared = masks.pair_keys(third, secret, listed.keys, salted(listed, release))
        known = masks.mask(third, {name: shared[name]}, 6)
        total = total + federation.hospitals[name].add(FIRST, entries) + known
    wanted = federation[0].value + federation[1].value
    return bool((total.astype(np.int64)[:-1] == wanted).all())


def test_two_stories_give_no_sum(tmp_path):
    assert not two_stories_show_a_sum(tmp_path, messages, lambda l, r: l.digest + r)
    without = planted(messages, "salt = listed.digest + release", "salt = release")
    (tmp_path / "faulty").mkdir()
    assert two_stories_show_a_sum(tmp_path / "faulty", without, lambda l, r: r)


# -- what the server sees --------------------------------------------------------------------------


def test_uploads_and_partial_sums_are_uniform(tmp_path):
    """False alarm: 1e-6, over all tests of bytes."""
    federation = Federation(tmp_path, 3, length=4000)
    for hospital in federation.hospitals.values():
        hospital.value[:] = 5
    subsets = [s for size in (1, 2) for s in itertools.combinations(range(3), size)]
    asked = [Attempt(f"run {k}", 0, 0) for k in range(3)]
    runs = []
    for attempt in asked:
        entries = federation.attend(attempt)
        runs.append([hospital.add(attempt, entries) for hospital in federation.hospitals.values()])
    limit = chi2.isf(1e-6 / (2 * len(subsets)), 255)
    for subset in subsets:
        words = np.concatenate([np.sum([run[k] for k in subset], axis=0) for run in runs])
        for shift in (0, 56):
            octets = ((words >> np.uint64(shift)) & np.uint64(255)).astype(int)
            counts = np.bincount(octets, minlength=256)
            mean = len(words) / 256
            assert ((counts - mean) ** 2 / mean).sum() < limit
    # The whole is the sum, whose high bytes are all the same.
    assert not (np.sum(runs[0], axis=0)[:-1] != 15).any()


def test_garbage_is_noticed_and_nobody_is_named(four):
    entries = four.attend(FIRST)
    uploads = {h.name: h.add(FIRST, entries) for h in four.hospitals.values()}
    for place in (0, -1):
        spoiled = uploads[four[0].name].copy()
        spoiled[place] ^= np.uint64(2**62)
        with pytest.raises(RuntimeError, match="nobody can tell which"):
            four.total(FIRST, entries, uploads | {four[0].name: spoiled})
    for words in (None, uploads[four[0].name][:-1], uploads[four[0].name].astype(np.int64)):
        with pytest.raises(ValueError, match="did not send"):
            four.total(FIRST, entries, uploads | {four[0].name: words})


def test_a_client_must_be_in_its_own_cohort(four, tmp_path):
    for name, identity in (("zz", Identity(bytes(32))), (four[0].name, Identity(bytes(32)))):
        with pytest.raises(ValueError, match="does not hold client"):
            Member(name, identity, four.cohort, four.agreement, four[0].member.book, 10)
    for other in ((None, four.cohort), (identity, four[0].member.book)):
        with pytest.raises(TypeError, match="(identity|cohort) must be a"):
            Member(name, *other, four.agreement, four[0].member.book, 10)


def test_integers_only(four):
    entries = four.attend(FIRST)
    four[0].value = four[0].value.astype(object)
    with pytest.raises(ValueError, match="int64"):
        four[0].add(FIRST, entries)
    assert four[0].charges == 1


# -- messages as bytes -----------------------------------------------------------------------------


def fuzzed(federation, rng, count):
    """Messages that are nearly right, or not at all."""
    entries = federation.attend(FIRST)
    right = [request("attend", FIRST), request("add", FIRST, entries)]
    shorter = [request("add", FIRST, entries[:size]) for size in (2, 3)]  # lists in order, too
    lists = [request("add", FIRST, listed) for listed, _ in broken_lists(federation) if listed]
    for _ in range(count):
        data = bytearray((right + lists)[rng.integers(len(right + lists))])
        for _ in range(rng.integers(1, 4)):
            kind, place = rng.integers(4), int(rng.integers(len(data) + 1))
            if kind == 0 and data:
                data[place % len(data)] ^= 1 << int(rng.integers(8))
            elif kind == 1:
                data = data[:place]
            elif kind == 2:
                data[place:place] = rng.bytes(int(rng.integers(1, 9)))
            else:
                data = data[place:] + data[:place]
        if bytes(data) not in right + shorter:
            yield bytes(data)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_hostile_bytes_get_one_word(four, count):
    """No text leaves, and nothing is charged without a list that is in order."""
    answers = {masks.packed(b"declined"), masks.packed(b"failed")}
    for data in fuzzed(four, np.random.default_rng(count), count):
        said = reply(four[0], data)
        if said not in answers:  # another fit may be attended
            assert type(answered(said)) is Attendance
        assert not four[0].steps
    assert four[0].charges == 0


def test_answers_are_read_as_they_were_meant(four):
    said = [reply(h, request("attend", FIRST)) for h in four.hospitals.values()]
    entries = [answered(data) for data in said]
    assert entries == four.attend(FIRST)
    words = {h.name: reply(h, request("add", FIRST, entries)) for h in four.hospitals.values()}
    uploads = {name: answered(data) for name, data in words.items()}
    wanted = sum(hospital.value for hospital in four.hospitals.values())
    np.testing.assert_array_equal(four.total(FIRST, entries, uploads), wanted)
    assert answered(masks.packed(b"declined")) is None
    for data in (b"", b"x", masks.packed(b"failed"), masks.packed(b"words", b"1"), said[0][:-1]):
        with pytest.raises(ValueError):
            answered(data)
