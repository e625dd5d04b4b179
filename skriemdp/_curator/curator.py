"""The curator of a fit: it holds the records, the budget and the noise.

An estimator is a program over it.  Every operation charges its share first, asks the table for
exact integers, and gives out what noise leaves of them; :mod:`.openings` has the theorems.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from skriemdp._curator.openings import Gaussian, Pure, Selection
from skriemdp._curator.sets import Set, made
from skriemdp._curator.sets import moment as moment_set
from skriemdp._curator.tables import Memory
from skriemdp._descent.iterated_mean import plan_iteration, stretch_of
from skriemdp._errors import PublicRuntimeError, PublicTypeError, PublicValueError
from skriemdp._gives.base import Give
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import BoundedSet
from skriemdp._mechanisms.budget import GaussianBudget, Release
from skriemdp._mechanisms.counts import GaussianCount, GaussianNumber, LaplaceCount
from skriemdp._mechanisms.covariance import SymmetricGaussian
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._mechanisms.quantile import ExponentialQuantile, PrivateQuantile, middle
from skriemdp._mechanisms.sum import PLAIN_STEPS, Noisy, mu_of, plain_sensitivity
from skriemdp._mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp._process import refuse_forks, this_process
from skriemdp._validation import check_positive
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.privacy._event import Event
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._sensitivity import (
    Sensitivity,
    gradient_root_sensitivity,
    iterated_mean_sensitivity,
    leading_eigenvalues_sensitivity,
    trace_part_sensitivity,
)

# Rows that a table in memory may have at most: a column of them takes half a terabyte.
MOST_ROWS = 2**36
# Sums of shares are off by their own rounding, no more than this.
_ROUNDING = 2.0**-50
# Leading eigenvalues are computed of a matrix of at most so many rows.
_MOST_EIGENVALUES = 512

FAILED = "a fit failed where its records are; what it said there is not shown, and it is over."
OVER = "this fit is over: its curator answers nothing more."
BUSY = "a curator answers one question at a time, and none while a give runs."
SPENT = "the releases of this fit exceed its budget; nothing was released."
USED = "this share was not kept here, or is used up; nothing was released."

Inner = Callable[["Curator", Any], tuple[float, Any]]
# The closed list of programs that may run inside a selection: ``(score, answer)`` of a curator and
# public settings.
PROGRAMS: dict[str, Inner] = {}


class Kept(NamedTuple):
    """A share that was taken for a release later; worth nothing but to the curator that took it."""

    number: int


class _Entry(NamedTuple):
    """A share reserved for a later release: its mu or epsilon, and the release's coordinates."""

    parameter: float
    name: str
    dim: int | None


class _Account:
    """State shared by the curators of one fit: budget, noise, turn, and whether it has ended."""

    def __init__(self, opening: Any, streams: Any):
        opening = copy.deepcopy(opening)  # the caller's own could be changed
        self.opening, self.streams = opening, streams
        self.budget = None if type(opening) is Selection else opening.budget()
        self.room, self.kept, self.count = opening.cap, dict[int, _Entry](), 0
        self.generators: dict[tuple, Any] = {}
        self.lock, self.process, self.over = threading.Lock(), this_process(), False
        self.last: Release | None = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One question: refused while another is answered, after the end and in a fork."""
        refuse_forks(self.process, "a curator", "spend its budget twice")
        if not self.lock.acquire(blocking=False):
            raise PublicRuntimeError(BUSY)
        try:
            if self.over:
                raise PublicRuntimeError(OVER)
            yield
        finally:
            self.lock.release()

    def take(self, share: Any, name: str, dim: int | None, law: str = "") -> float:
        """The parameter of a release: of a kept share, of everything left, or of a new share."""
        if type(share) is Kept:
            entry = self.kept.pop(share.number, None)
            if entry is None:
                raise PublicRuntimeError(USED)
            return entry.parameter
        return self.charged(share, name, dim, law)

    def charged(self, share: float | None, name: str, dim: int | None, law: str = "") -> float:
        """The parameter of a new share."""
        if self.budget is None:
            raise PublicRuntimeError(SPENT)
        if type(name) is not str:
            raise PublicTypeError("a release is named by a string.")
        if share is None:
            share = self.budget.remaining if self.opening.cap == 1.0 else self.room
        share = float(share)
        if not 0.0 < share <= self.room + _ROUNDING:
            raise PublicRuntimeError(SPENT)
        parameter = self.budget.take(min(share, self.budget.remaining), name, dim, law)
        self.room -= share
        return parameter

    def rng(self, label: tuple) -> Any:
        """The noise of a label."""
        if label not in self.generators:
            self.generators[label] = self.streams(*label)
        return self.generators[label]

    def close(self) -> None:
        """End the fit for good."""
        self.over = True


class Curator:
    """Holds the records of one fit, and gives out noisy answers for shares of a budget.

    Parameters
    ----------
    table : Memory
    opening : Gaussian, Pure or Selection
        What all answers cost together.
    streams : NoiseStreams
    n : float, optional
        The number of records, where it was released: it then divides sums and nothing else, and no
        answer rests on a mean that is computed in floating point.

    Notes
    -----
    *Guarantee*: ``event``, for every program over the package's gives; the program may depend on
    every answer, and may be anything.  A give of a user must be a function of one row
    (docs/sharp-edges.md).  Time is not protected.

    *Refused, before any noise*: shares above what is left; kept shares used twice or made up; sets
    and mechanisms that are not on the closed lists; questions while a give runs; another process.
    Copies and pickles are refused too.  Whatever fails while records are read ends the fit, with
    one fixed sentence.
    """

    def __init__(self, table: Any, opening: Any, streams: Any, n: float | None = None):
        if type(opening) not in (Gaussian, Pure, Selection):
            raise PublicTypeError("a curator is opened with Gaussian, Pure or Selection.")
        self._table, self._secret = table, n is not None
        self.n = table.n if n is None else n
        table.planned = self.n
        self._account = _Account(opening, streams)

    @classmethod
    def lent(cls, table: Any, budget: GaussianBudget, streams: Any, n: float | None = None) -> Self:
        """A curator for a part of a fit that is no program yet: it takes from that fit's budget."""
        lent = cls(table, Gaussian(budget.total), streams, n)
        lent._account.budget, lent._account.room = budget, budget.remaining
        return lent

    # -- what is public -------------------------------------------------------------------------

    @property
    def event(self) -> Event:
        """Return the event of all answers together."""
        return self._account.opening.event(self.n)  # type: ignore[no-any-return]

    @property
    def mu(self) -> float:
        """The mu of the opening, of whose square shares are parts; of a pure one its epsilon."""
        return self._account.budget.total  # type: ignore[union-attr]

    @property
    def left(self) -> float:
        """The part of the budget that was not taken."""
        account = self._account
        return float(account.budget.remaining if account.opening.cap == 1.0 else account.room)  # type: ignore[union-attr]

    @property
    def releases(self) -> tuple:
        """Releases taken, by name, with the law of the last one."""
        taken, last = self._account.budget.releases, self._account.last  # type: ignore[union-attr]
        return taken if last is None else (*taken, last)

    def whether(self, condition: Any, dearest: bool) -> bool:
        """A branch on answers: the condition; in a rehearsal, the side that costs most."""
        return bool(condition)

    def keep(self, share: float, name: str, dim: int | None = None) -> Kept:
        """Take a share now for one release later."""
        with self._account.turn():
            account = self._account
            entry = _Entry(account.charged(share, name, dim), name, dim)
            account.count += 1
            account.kept[account.count] = entry
            return Kept(account.count)

    # -- operations -----------------------------------------------------------------------------

    def sum(
        self,
        give: Give,
        bounded_set: Set,
        share: Any,
        name: str,
        *label: Any,
        dim: int | None = None,
    ) -> Noisy:
        """Noisy sum of what records give, each held in a set.

        Parameters
        ----------
        give : Give
        bounded_set : Set
        share : float, Kept or None
            Of the budget; None for all that is left, or for the law of the opening, after which the
            fit is over.
        name, *label
            Of the release, and of its noise.
        dim : int, optional
            Coordinates of the release, for its name.
        """
        self._check_give(give)
        with self._account.turn():
            account, bound = self._account, made(bounded_set)
            if share is None and account.opening.law is not None:
                return self._by_law(give, bound, name, label)
            parameter = account.take(share, name, bound.width if dim is None else dim)
            if type(account.opening) is Pure:
                law = LaplaceEvent(math.prod(bound.shape), 1.0 / parameter)
                return self._laplace(give, bound, law, label)
            return self._gaussian(give, bound, parameter, label, share is None)

    def quantile(
        self,
        give: Give,
        grid: Sequence[float],
        level: float,
        share: Any,
        name: str,
        *label: Any,
        prior: tuple[float, ...] | None = None,
    ) -> float:
        """Private quantile of positive numbers, one for each record, on a public geometric grid."""
        self._check_give(give)
        with self._account.turn():
            values = tuple(map(float, grid))
            if len(values) < 2:
                raise PublicValueError("a grid must hold two values at least.")
            if type(self._account.opening) is Pure:
                parameter = self._account.take(share, name, 1, "exponential")
                found: Any = ExponentialQuantile(values, float(level), parameter)
            else:
                mu = self._account.take(share, name, 1)
                found = PrivateQuantile(values, float(level), mu, prior)
            return self._quantile(give, found, label)

    def count(self, give: Give, bound: float, share: Any, name: str, *label: Any) -> Noisy:
        """Noisy number of records whose number is not at most `bound`."""
        self._check_give(give)
        with self._account.turn():
            parameter, bound = self._account.take(share, name, 1), float(bound)
            pure = type(self._account.opening) is Pure
            counts: Any = LaplaceCount(parameter) if pure else GaussianCount(1.0 / parameter)
            return self._count(give, bound, counts, label)

    def point(self, ball: GeodesicBall, accuracy: float, share: Any, name: str, *label: Any) -> Any:
        """Noisy coordinates, at the centre, of the mean of the records' projections on a ball.

        The exact mean is within `accuracy` of what its proved iteration computes; `share` as for
        :meth:`sum`.
        """
        with self._account.turn():
            self._check_public_n("an iterated mean")
            if type(ball) is not GeodesicBall:
                raise PublicTypeError("a point is asked for in a GeodesicBall.")
            ball = GeodesicBall(ball.geometry, np.array(ball.center), float(ball.radius))
            schedule = plan_iteration(ball, int(self.n), float(accuracy))
            if schedule is None:
                raise PublicValueError("nothing is proved of iterated means in this ball.")
            bound = iterated_mean_sensitivity(schedule.sensitivity, stretch_of(ball))
            return self._point(
                ball, schedule.step_sizes, self._about(bound, share, name, ball), label
            )

    def matrix(
        self, how: str, give: Give, radius: float, share: Any, name: str, *label: Any, rank: int = 1
    ) -> Any:
        """A statistic of the exact second moment of what records give, rows of at most `radius`.

        Parameters
        ----------
        how : {"pure", "leading"}
            "pure": the moment over n, with symmetric noise of pure privacy, and the noise of an
            entry.  "leading": the sum of so many leading eigenvalues of the hollow moment of unit
            rows.
        """
        self._check_give(give)
        with self._account.turn():
            self._check_public_n("a statistic of a matrix")
            pure, account = type(self._account.opening) is Pure, self._account
            if how not in ("pure", "leading") or pure == (how == "leading"):
                raise PublicValueError(
                    f"there is no {how!r} statistic of matrices under this opening."
                )
            d, rank = give.width, int(rank)
            if not 1 <= rank <= d or (how == "leading" and d > _MOST_EIGENVALUES):
                raise PublicValueError(f"no {rank} of {d} coordinates are {how!r} here.")
            check_positive(radius=radius)
            parameter = account.take(share, name, 1 if how == "leading" else d**2)
            own = self._table.groups is not None
            bound: Any = made(moment_set(radius, d, own, own))
            return self._matrix(how, give, bound, parameter, rank, label)

    def run(
        self, steps: int, share: Any, name: str, *label: Any, dim: int, moments: float = 0.0
    ) -> Run:
        """Begin so many equal sums: of all records, or the opening's run where `share` is None.

        `moments` is the share of as many root moments of exact gradients, for those who ask.
        """
        with self._account.turn():
            account, steps, dim = self._account, int(steps), int(dim)
            if steps < 1 or dim < 1:
                raise PublicValueError("a run has one step at least, of one number at least.")
            planned = account.opening.run
            if share is None and planned is not None:
                if steps != planned.steps or dim > planned.integers or moments:
                    raise PublicValueError("this is not the run that the fit was opened for.")
                account.close()
                return Run(self, steps, dim, account.rng(label), sampled=planned)
            if type(account.opening) is Pure:
                raise PublicValueError("a run of pure sums has no theorem here.")
            roots = account.take(moments, f"{name}, moments", dim**2) if moments else 0.0
            mu = account.take(share, name, dim)
            rng = account.rng(label)
            noise.expect_integers(rng, steps * dim)
            return Run(self, steps, dim, rng, mu_of(math.sqrt(steps) / mu), roots)

    def pairs(self, most: int) -> Curator:
        """The same curator over disjoint pairs of rows; replacing a row changes one of them."""
        with self._account.turn():
            self._check_public_n("a pair")
            return self._over(self._pairs(int(most)))

    def part(self, places: Sequence[Any]) -> list[Curator]:
        """Curators of disjoint parts of the records, by public numbers; this one is then over.

        Each has all of the opening: a record is in one of them.
        """
        with self._account.turn():
            self._check_public_n("a part")
            account = self._account
            chosen = [np.array(own, dtype=np.intp).ravel() for own in places]
            both = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.intp)
            inside = both.size == 0 or (both.min() >= 0 and both.max() < self.n)
            if len(np.unique(both)) != both.size or not inside:
                raise PublicValueError("parts must be disjoint numbers of records.")
            if account.room != account.opening.cap or account.count:
                raise PublicRuntimeError("a table is cut into parts before it is asked anything.")
            account.close()
            tables = [self._part(own) for own in chosen]
            return [
                self._opened(table, account.opening, ("part", k)) for k, table in enumerate(tables)
            ]

    def select(self, program: str, settings: Sequence[Any], *label: Any) -> tuple[int, float, Any]:
        """The best of a secret number of runs of a named program: its place, score and answer."""
        with self._account.turn():
            account = self._account
            if type(account.opening) is not Selection:
                raise PublicValueError("a selection is opened with Selection.")
            if program not in PROGRAMS:
                raise PublicValueError(
                    f"there is no program {program!r}; there are {list(PROGRAMS)}."
                )
            account.close()
            runs = functools.partial(self._selected, PROGRAMS[program], tuple(settings), label)
            return self._read(runs)  # type: ignore[no-any-return]

    # -- with records ---------------------------------------------------------------------------

    def _read(self, ask: Callable[[], Any]) -> Any:
        """Return the table's answer; any failure there ends the fit with one fixed sentence."""
        interrupted = False
        try:
            return ask()
        except BaseException as error:
            self._account.close()
            interrupted = isinstance(error, KeyboardInterrupt)
        # Raised out here, so that they lead to no error that quotes a record.
        if interrupted:
            raise KeyboardInterrupt
        raise PublicRuntimeError(FAILED)

    def _gaussian(
        self, give: Give, bound: BoundedSet, mu: float, label: tuple, rest: bool
    ) -> Noisy:
        return self._noised(give, bound, bound.check(mu), self._account.rng(label))

    def _noised(
        self, give: Give, bound: BoundedSet, steps: int, rng: Any, chosen: np.ndarray | None = None
    ) -> Noisy:
        exact = self._read(lambda: self._table.total(give, bound, steps, chosen))
        noisy = noise.draw(
            exact,
            NOISE_SCALE,
            "discrete-gaussian",
            rng,
            sensitivity=steps,
            presence=bound.presence(steps),
        )
        return Noisy(bound.value(noisy, steps), bound.sigma(steps))

    def _laplace(self, give: Give, bound: Any, law: LaplaceEvent, label: tuple) -> Noisy:
        mechanism = LaplaceNoise(plain_sensitivity(bound, self._most), law)
        rng = self._account.rng(label)
        exact = self._read(lambda: self._table.total(give, bound, PLAIN_STEPS))
        noisy = mechanism.release(bound.value(exact, PLAIN_STEPS), rng)
        return Noisy(noisy, mechanism.sigma)

    def _quantile(self, give: Give, quantile: Any, label: tuple) -> float:
        grid, rng = np.array(quantile.grid), self._account.rng(label)
        counts = np.cumsum(self._read(lambda: self._table.places(give, grid)))[:-1]
        return middle(grid, quantile.release_counts(counts, self._table.n, rng))

    def _count(self, give: Give, bound: float, counts: Any, label: tuple) -> Noisy:
        rng = self._account.rng(label)
        exact = self._read(lambda: self._table.count_above(give, bound))
        return Noisy(counts.release(exact, rng), counts.sigma)

    def _point(self, ball: GeodesicBall, steps: tuple, mechanism: Any, label: tuple) -> Noisy:
        rng = self._account.rng(label)
        log = functools.partial(ball.geometry.log_coordinates, ball.center)
        exact = np.asarray(self._read(lambda: log(self._table.iterated(ball, steps))))
        return Noisy(mechanism.release(exact, rng), mechanism.sigma)

    def _matrix(
        self, how: str, give: Give, bound: Any, parameter: float, rank: int, label: tuple
    ) -> Any:
        longest = bound.longest(PLAIN_STEPS) * bound.spacing(PLAIN_STEPS)
        rng, d = self._account.rng(label), bound.dim
        total = self._read(lambda: self._table.total(give, bound, PLAIN_STEPS))
        exact = bound.value(total, PLAIN_STEPS)
        if how == "pure":
            size = trace_part_sensitivity(longest, int(self.n))
            symmetric = PureSymmetric(d, size, parameter)
            noisy = symmetric.release(exact / self.n, rng)
            return Noisy(noisy, symmetric.entry_scale)
        hollow = total.astype(float) / bound.longest(PLAIN_STEPS) ** 2
        np.fill_diagonal(hollow, 0.0)
        value = float(np.linalg.eigvalsh(hollow)[-rank:].sum())
        tolerance = rank * 2.0**-47 * _MOST_EIGENVALUES * self.n
        number = GaussianNumber(leading_eigenvalues_sensitivity(tolerance), parameter)
        return Noisy(number.release(value, rng), number.spacing * NOISE_SCALE)

    def _by_law(self, give: Give, bound: Any, name: str, label: tuple) -> Noisy:
        self._end(name, math.prod(bound.shape))
        return self._laplace(give, bound, self._account.opening.law, label)

    def _end(self, name: str, dim: int) -> None:
        """Name the law of the opening, which is then used up; the fit is over."""
        account, law = self._account, self._account.opening.law
        if law.dim != dim:
            raise PublicValueError(f"the law of this fit has {law.dim} coordinates, not {dim}.")
        account.last = Release(name, account.budget.remaining, "laplace", dim)  # type: ignore[union-attr]
        account.close()

    def _about(self, bound: Sensitivity, share: Any, name: str, ball: GeodesicBall) -> Any:
        """Noise of a point for a share, or of the law."""
        account, dim = self._account, ball.geometry.dim
        if share is None and account.opening.law is not None:
            self._end(name, dim)
            return LaplaceNoise(bound, account.opening.law)
        parameter = account.take(share, name, dim)
        if type(account.opening) is Pure:
            return LaplaceNoise(bound, LaplaceEvent(dim, 1.0 / parameter))
        return GaussianNoise(bound, 1.0 / parameter)

    @property
    def _most(self) -> float:
        """Rows that a total may be of, for the rounding of its float."""
        return MOST_ROWS if self._secret else self.n

    def _check_public_n(self, what: str) -> None:
        if self._secret:
            raise PublicValueError(f"{what} needs a public number of records.")

    def _check_give(self, give: Any) -> None:
        if not isinstance(give, Give):
            raise PublicTypeError(f"rows give what a Give says, got {type(give).__name__}.")

    def _over(self, table: Any) -> Any:
        """The same curator over another table of the same records."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _table=table, n=table.n)
        return other

    def _step(self, give: Give, bound: BoundedSet, steps: int, run: Run) -> Noisy:
        """Sum of one step, with noise: over a batch if batches are drawn, else over all records."""
        if run._sampled is not None:
            chosen = run._sampled.batches.batch(bound, int(self.n), run._rng)
            return self._noised(give, bound, steps, run._rng, chosen)
        if not run._roots:
            return self._noised(give, bound, steps, run._rng)
        exact = self._read(lambda: self._table.total(give, bound, steps))
        mean = bound.value(exact, steps) / self.n
        run._gradients.append(mean if mean.ndim == 2 else mean[:, None])
        longest: Any = bound  # of a record's integers, in the units of the sum
        run._bounds.append(longest.presence(steps) * longest.spacing(steps))
        noisy = noise.draw(
            exact,
            NOISE_SCALE,
            "discrete-gaussian",
            run._rng,
            sensitivity=steps,
            presence=bound.presence(steps),
        )
        return Noisy(bound.value(noisy, steps), bound.sigma(steps))

    def _root(
        self, gradients: list[np.ndarray], size: Sensitivity, multiplier: float, rng: Any
    ) -> Noisy:
        left, singular, _ = np.linalg.svd(np.concatenate(gradients, axis=1), full_matrices=False)
        symmetric = SymmetricGaussian(len(left), size, multiplier)
        return Noisy(symmetric.release((left * singular) @ left.T, rng), symmetric.sigma)

    def _opened(self, table: Any, opening: Any, label: tuple) -> Curator:
        """Another curator, of a part of the records or of a run."""
        return Curator(table, opening, functools.partial(self._account.streams, *label))

    def _pairs(self, most: int) -> Memory:
        return self._read(lambda: self._table.pairs(most))  # type: ignore[no-any-return]

    def _part(self, chosen: np.ndarray) -> Memory:
        return self._read(lambda: self._table.part(chosen))  # type: ignore[no-any-return]

    def _selected(self, program: Inner, settings: tuple, label: tuple) -> tuple[int, float, Any]:
        account, best = self._account, (-1, -math.inf, None)
        rng = account.rng(("runs", *label))
        runs = account.opening.event(self.n).draw_count(rng)
        for k, place in enumerate(rng.integers(len(settings), size=runs).tolist()):
            inner = self._opened(self._table, account.opening.each, ("run", k, *label))
            score, answer = program(inner, settings[place])
            score = -math.inf if math.isnan(score) else float(score)
            if score > best[1] or best[0] < 0:
                best = place, score, answer
        return best

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise PublicTypeError(
            "curators are never copied or pickled: a copy would spend their budget."
        )


class Run:
    """Equal sums of one run; made by :meth:`Curator.run`, never more than were paid for."""

    def __init__(
        self,
        curator: Curator,
        steps: int,
        dim: int,
        rng: Any,
        mu: float = 0.0,
        roots: float = 0.0,
        sampled: Any = None,
    ):
        self._curator, self._dim, self._rng, self._mu = curator, dim, rng, mu
        self._left, self._steps, self._sampled = steps, steps, sampled
        self._anchors = 0 if sampled is None else sampled.anchors
        self._roots, self._roots_left = roots, steps if roots else 0
        self._gradients: list[np.ndarray] = []
        self._bounds: list[float] = []

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        account = self._curator._account
        refuse_forks(account.process, "a run", "spend its budget twice")
        if not account.lock.acquire(blocking=False):
            raise PublicRuntimeError(BUSY)
        try:
            if account.over and (self._sampled is None or account.last is not None):
                raise PublicRuntimeError(OVER)
            yield
        finally:
            account.lock.release()

    def sum(self, give: Give, bounded_set: Set) -> Noisy:
        """The sum of the next step; of its random batch, where the run is of batches."""
        self._curator._check_give(give)
        with self._turn():
            bound = made(bounded_set)
            if math.prod(bound.shape) > self._dim:
                raise PublicValueError(
                    "a step releases no more numbers than its run was planned for."
                )
            if self._left < 1:
                raise PublicRuntimeError(SPENT)
            mu = self._mu if self._sampled is None else mu_of(self._sampled.noise_multiplier)
            steps = bound.check(mu)
            if (self._sampled is not None or self._roots) and not bound.halves:
                raise PublicTypeError("this run needs sets of vectors about zero.")
            self._left -= 1
            return self._curator._step(give, bound, steps, self)

    def anchor(self, give: Give, bounded_set: Set) -> Noisy:
        """A sum over all records, among those of batches."""
        self._curator._check_give(give)
        with self._turn():
            bound = made(bounded_set)
            if math.prod(bound.shape) > self._dim:
                raise PublicValueError(
                    "a step releases no more numbers than its run was planned for."
                )
            if self._anchors < 1:
                raise PublicRuntimeError(SPENT)
            steps = bound.check(mu_of(self._sampled.anchor_multiplier))
            self._anchors -= 1
            return self._curator._noised(give, bound, steps, self._rng)

    def root_moment(self) -> Noisy:
        """``(sum g g')^(1/2)`` of the exact mean gradients of the steps so far, with noise.

        Each step's sum is that of a matrix, whose columns are gradients.
        """
        with self._turn():
            if self._roots_left < 1:
                raise PublicRuntimeError(SPENT)
            if not self._bounds:
                raise PublicValueError("no gradient was asked for yet.")
            self._roots_left -= 1
            multiplier = math.sqrt(self._steps) / self._roots
            size = gradient_root_sensitivity(int(self._curator.n), self._bounds)
            return self._curator._root(self._gradients, size, multiplier, self._rng)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise PublicTypeError("runs are never copied or pickled: a copy would spend their budget.")
