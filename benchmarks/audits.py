"""What an attack finds of every stated epsilon: all mechanisms, all estimators.

    python benchmarks/audits.py [--quick] [--only WORD ...] [--jobs N] [--confidence C]

Mechanisms are audited on values that attain their sensitivity, estimators by complete fits on their
worst-case neighbours.  "audited" is a lower confidence bound on epsilon at the
same delta: by the Gaussian bound where the release is exactly Gaussian, else without assumptions,
and then at a larger delta: no attack can count events of probability 1e-5.  Releases in one
shot are audited at epsilon = 1; fits that take longer at epsilon = 8, where fewer of them say more.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
)
from skriemdp._descent.queries import Query
from skriemdp._descent.releases import FixedSizeSampler, PoissonSampler
from skriemdp._mechanisms.bounded_sets import Moment, answers, labelled
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp._mechanisms.covariance import SymmetricGaussian
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._mechanisms.pure_sums import PureSumsAndCounts
from skriemdp._mechanisms.quantile import ExponentialQuantile, PrivateQuantile
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp._random import NoiseStreams
from skriemdp.auditing import Neighbours, audit_epsilon, audit_estimator
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import Euclidean, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy import (
    GaussianEvent,
    ball_logarithms_sensitivity,
    ball_sensitivity,
    calibrate,
    gaussian_mu,
    laplace_law,
    mean_sensitivity,
    second_moment_sensitivity,
    trace_part_sensitivity,
)
from skriemdp.riemannian_laws import (
    GradientSum,
    KNormGradientMechanism,
    RiemannianGaussianMechanism,
    RiemannianLaplaceMechanism,
)

EPSILON, DELTA, LARGE_DELTA = 1.0, 1e-5, 1e-2
PURE_EPSILON = 4.0  # of pure noise in many dimensions or in a ball: more shows than at 1
NU = 1.0 / gaussian_mu(EPSILON, DELTA)
PLANE = Hyperboloid(2)
ENDS = np.array([[-0.1, 0.0], [0.1, 0.0]])


# -- mechanisms: (release, data, neighbour, statistic, event, delta) -------------------------------


def vector_gaussian(rng):
    mechanism = GaussianNoise(ball_sensitivity(0.1), NU)

    def release(value, trials):
        return mechanism.release(value, rng, trials)

    return release, *ENDS, lambda out: out[:, 0], mechanism.event, DELTA


def vector_laplace(delta):
    def make(rng):
        law = laplace_law(2, EPSILON, delta)
        mechanism = LaplaceNoise(ball_sensitivity(0.1), law)

        def release(value, trials):
            return mechanism.release(value, rng, trials)

        def loss(out):
            here, there = np.linalg.norm(out[None] - ENDS[:, None], axis=-1)
            return here - there

        return release, *ENDS, loss, law, delta

    return make


def second_moment(hollow):
    def make(rng):
        sensitivity = mean_sensitivity(second_moment_sensitivity(1.0), 10)
        mechanism = SymmetricGaussian(2, sensitivity, NU, hollow)
        rows = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2.0)

        def release(row, trials):
            return mechanism.release(np.outer(row, row) / 10, rng, trials)

        return release, *rows, lambda out: -out[:, 1], mechanism.event, DELTA

    return make


def pure_second_moment(d):
    """One row on the first axis or on the second, the others zero."""

    def make(rng):
        mechanism = PureSymmetric(d, trace_part_sensitivity(1.0, 1), PURE_EPSILON)
        axes = np.eye(d)[:2]

        def release(axis, trials):
            return mechanism.release(np.outer(axis, axis), rng, trials)

        def loss(out):
            values = [np.linalg.eigvalsh(out.reshape(-1, d, d) - np.outer(a, a)) for a in axes]
            here, there = (np.maximum(_positive(v), _positive(-v)) for v in values)
            return here - there

        return release, *axes, loss, mechanism.event, 0.0

    return make


def _positive(values):
    return np.maximum(values, 0.0).sum(axis=-1)


def pure_sums_and_counts(rng):
    mechanism = PureSumsAndCounts(dim=1, bound=3.0, epsilon=PURE_EPSILON)

    def release(label, trials):
        sums, counts = np.zeros((2, 1)), np.zeros(2)
        sums[label], counts[label] = (3.0, -3.0)[label], 1.0
        sums, counts = mechanism.release((sums, counts), rng, trials)
        return np.concatenate([sums[..., 0] / mechanism.bound, counts], axis=1)

    def loss(out):
        ends = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 1.0]])
        rest = np.abs(out - ends[:, None])
        here, there = np.maximum(rest[..., :2], rest[..., 2:]).sum(axis=-1)
        return here - there

    return release, 0, 1, loss, mechanism.event, 0.0


def class_moments(rng):
    bounded_set, change = Moment(math.sqrt(18.0), 2, classes=2), np.array([1.0, 1.0, 1.0, 1.0])

    def release(label, trials):
        units = Units((np.array([[3.0 - 6.0 * label, 3.0]]), np.array([label])))
        return _draws(units, bounded_set, trials, rng)

    along = np.concatenate([-change, change * [1.0, -1.0, -1.0, 1.0]])
    return release, 0, 1, lambda out: out @ along, GaussianEvent(NU), DELTA


def class_sums(rng):
    bounded_set = labelled(3.0, 1, 2)

    def release(label, trials):
        units = Units((np.array([[(3.0, -3.0)[label]]]), np.array([label])))
        return _draws(units, bounded_set, trials, rng)

    return release, 0, 1, lambda out: out @ [-1.0, -1.0, -1.0, 1.0], GaussianEvent(NU), DELTA


def rank_sums(rng):
    bounded_set = answers(3, [0.2, 0.8, 0.2])

    def release(below, trials):
        return _draws(Units((np.full((1, 3), float(below)),)), bounded_set, trials, rng)

    return release, False, True, lambda out: out.sum(axis=1), GaussianEvent(NU), DELTA


def _draws(units, bounded_set, trials, rng):
    """So many sums of what records give as they are."""

    def give(*rows):
        return rows if len(rows) > 1 else rows[0]

    def draw():
        return private_sum(units, give, bounded_set, 1.0 / NU, rng).value.ravel()

    return np.stack([draw() for _ in range(trials)])


def count(make):
    def audit(rng):
        mechanism = make()
        delta = 0.0 if isinstance(mechanism, LaplaceCount) else DELTA

        def release(value, trials):
            return mechanism.release(value, rng, trials)

        return release, 3, 4, lambda out: out[:, 0], mechanism.event, delta

    return audit


class RowQuery(Query):
    """Rows in the unit ball."""

    bound = Ball(1.0)

    def __init__(self, rows):
        self.rows, (self.n, self.dim) = rows, rows.shape

    def blocks(self, indices=None):
        yield self.rows if indices is None else self.rows[indices]


def exact_sum(rng):
    def release(row, trials):
        query = RowQuery(row[None])
        return np.stack([query.noisy(1.0 / NU, rng).value for _ in range(trials)])

    data, neighbour = np.array([-3.0, 0.0]), np.array([3.0, 0.0])  # cut to length one
    return release, data, neighbour, lambda out: out[:, 0], GaussianEvent(NU), DELTA


def quantile(rng):
    # One count, in effect: which of two values, with a level in between and noise around it.
    mechanism = PrivateQuantile((1.0, 2.0), (48.5 + 2.81 * NU) / 100.0, 1.0 / NU)
    data, neighbour = (np.repeat([0.5, 1.5], [low, 100 - low]) for low in (49, 48))

    def release(values, trials):
        return mechanism.release(values, rng, trials)

    return release, data, neighbour, lambda out: out[:, 0], mechanism.event, DELTA


def exponential_quantile(rng):
    # The preference for the smaller value makes up for most of what the counts say.
    mechanism = ExponentialQuantile((1.0, 2.0), 0.8, EPSILON)

    def release(values, trials):
        return mechanism.release(values, rng, trials)

    data, neighbour = (np.repeat([0.5, 1.5], [low, 40 - low]) for low in (24, 23))
    return release, data, neighbour, lambda out: out[:, 0], mechanism.event, 0.0


def riemannian(mechanism_class, delta, exponent):
    def make(rng):
        mechanism = mechanism_class.calibrated(
            PLANE, ball_sensitivity(0.2), epsilon=EPSILON, delta=delta
        )
        ends = PLANE.exp_coordinates(PLANE.base_point, 2.0 * ENDS)

        def release(point, trials):
            return mechanism.release(point, rng, trials)

        def loss(out):
            here, there = (PLANE.dist(end, out) ** exponent for end in ends)
            return here - there

        return release, *ends, loss, mechanism.event, delta

    return make


def k_norm(rng):
    # Two records at the ends of a ball of radius 1 against both at one end: the sum of logarithms
    # changes by 2 everywhere on the line through them.
    line = Euclidean(1)
    mechanism = KNormGradientMechanism.calibrated(line, ball_sensitivity(1.0), epsilon=EPSILON)

    def release(records, trials):
        center = records.mean(axis=0)

        def gradient_norm(x):
            return np.abs((records[None] - x[:, None]).sum(axis=1))[:, 0]

        return mechanism.release(GradientSum(gradient_norm, len(records), center), rng, trials)

    data, neighbour = np.array([[-1.0], [-1.0]]), np.array([[1.0], [-1.0]])
    return release, data, neighbour, lambda out: out[:, 0], mechanism.event, 0.0


def k_norm_ball(radius):
    """Three records at one end of a ball of S^2, or one of them at the other end."""

    def make(rng):
        space = Sphere(2)
        ball = GeodesicBall(space, None, radius)
        move = ball_logarithms_sensitivity(radius, 1.0)
        mechanism = KNormGradientMechanism.calibrated(space, move, epsilon=PURE_EPSILON, ball=ball)
        ends = space.exp_coordinates(ball.center, np.array([[radius, 0.0], [-radius, 0.0]]))

        def length(points, weights):
            sums = sum(
                w * space.log_coordinates(points, e) for w, e in zip(weights, ends, strict=True)
            )
            return np.linalg.norm(sums, axis=-1)

        def release(weights, trials):
            away = weights[1] / 3.0 * space.log_coordinates(*ends)
            center = space.exp_coordinates(ends[0], away)
            distances = space.dist(center, ends[[0, 0, 1 if weights[1] else 0]])
            total = GradientSum(lambda points: length(points, weights), 3, center, distances)
            return mechanism.release(total, rng, trials)

        def loss(out):
            return length(out, (3, 0)) - length(out, (2, 1))

        return release, (3, 0), (2, 1), loss, mechanism.event, 0.0

    return make


def sampled_step(sampler, others):
    def make(rng):
        n = 8
        noise = calibrate(lambda nu: sampler.event(n, nu), EPSILON, LARGE_DELTA, (0.1, 100.0))

        def release(values, trials):
            query = RowQuery(values[:, None])
            steps = Steps(trials)
            drawn = [sampler.noisy_mean(query, noise, steps, rng)[0] for _ in range(trials)]
            return np.array(drawn)

        data = np.full(n, others)
        data[0], neighbour = -1.0, data.copy()
        neighbour[0] = 1.0
        event = sampler.event(n, noise)
        return release, data, neighbour, lambda out: out[:, 0], event, LARGE_DELTA

    return make


MECHANISMS = {
    "GaussianNoise": vector_gaussian,
    "LaplaceNoise, pure": vector_laplace(0.0),
    "LaplaceNoise": vector_laplace(LARGE_DELTA),
    "SymmetricGaussian": second_moment(False),
    "SymmetricGaussian, hollow": second_moment(True),
    "PureSymmetric, d = 2": pure_second_moment(2),
    "PureSymmetric, d = 5": pure_second_moment(5),
    "PureSymmetric, d = 21": pure_second_moment(21),
    "PureSumsAndCounts": pure_sums_and_counts,
    "GaussianCount": count(lambda: GaussianCount(NU)),
    "LaplaceCount": count(lambda: LaplaceCount(EPSILON)),
    "private_sum": exact_sum,
    "class sums": class_sums,
    "ranks of columns": rank_sums,
    "class moments": class_moments,
    "PrivateQuantile": quantile,
    "ExponentialQuantile": exponential_quantile,
    "RiemannianGaussianMechanism": riemannian(RiemannianGaussianMechanism, LARGE_DELTA, 2.0),
    "RiemannianLaplaceMechanism": riemannian(RiemannianLaplaceMechanism, 0.0, 1.0),
    "KNormGradientMechanism": k_norm,
    "KNormGradientMechanism, sphere, radius pi/4": k_norm_ball(math.pi / 4),
    "KNormGradientMechanism, sphere, radius 1.2": k_norm_ball(1.2),
    "PoissonSampler, one step": sampled_step(PoissonSampler(4.0, integers=1), 0.0),
    "FixedSizeSampler, one step": sampled_step(FixedSizeSampler(4, integers=1), -1.0),
}
# Python draws these one after another.
SLOW = (
    "private_sum",
    "class sums",
    "ranks of columns",
    "class moments",
    "PrivateQuantile",
    "PoissonSampler, one step",
    "FixedSizeSampler, one step",
)


# -- estimators: (estimator, delta of the comparison or None, neighbours where not the usual) ------

UNITS = 10.0 ** np.arange(5)


def unlike_columns(others, score):
    """Columns in unlike units, one row beyond the lower ends of all of them, or the upper ends."""
    ends = (np.vstack([np.full(len(UNITS), end), UNITS * others]) for end in (-1e9, 1e9))
    return Neighbours(*((rows,) for rows in ends), score)


def table_mean(n=500):
    """Scored by the mean, less what the others give at the place and the scales that were found."""
    rng = np.random.default_rng(0)
    others = rng.choice([-1.0, 1.0], size=(n - 1, len(UNITS)))

    def score(model):
        rows = (UNITS * others - model.center_) / model.scale_
        rows *= np.minimum(1.0, model.radius_ / np.linalg.norm(rows, axis=1))[:, None]
        known = model.center_ + model.scale_ * rows.sum(axis=0) / n
        return float(np.sum((model.mean_ - known) / model.noise_scale_))

    return unlike_columns(others, score)


def table_places(n=200):
    """A fifth far below the rest and a fifth far above: one truth value moves a column's fifths."""
    rng = np.random.default_rng(0)
    column = np.repeat([-1.0, 0.0, 1.0], [n // 5, n - 1 - 2 * (n // 5), n // 5])
    column[column == 0.0] = np.linspace(-1.0, 1.0, n - 1 - 2 * (n // 5)) / 30.0
    others = np.stack([rng.permutation(column) for _ in UNITS], axis=1)
    return unlike_columns(others, lambda model: float(np.sign(model.center_).sum()))


Mean, PCA, Regressor = PrivateFrechetMean, PrivatePrincipalEigenvector, PrivateHyperbolicRegressor
GAUSSIAN = {"mechanism": "tangent", "noise": "gaussian"}
BOUNDS = {"center": "assume", "row_norm": 1.0}
ONE_SHOT = {
    "PrivateFrechetMean, tangent": (Mean(radius=1.0, **GAUSSIAN), None),
    "PrivateFrechetMean, Laplace noise": (
        Mean(mechanism="tangent", noise="laplace", radius=1.0),
        LARGE_DELTA,
    ),
    "PrivateFrechetMean, pure": (Mean(delta=0, mechanism="tangent", radius=1.0), None),
    "PrivateMinimumDistanceToMean": (PrivateMinimumDistanceToMean(radius=1.0), None),
    "PrivateMinimumDistanceToMean, uncertainty": (
        PrivateMinimumDistanceToMean(radius=1.0, uncertainty=True),
        None,
    ),
    "PrivatePrincipalEigenvector, covariance": (PCA(mechanism="covariance", **BOUNDS), None),
    "PrivateMatrixCompletion, effects": (PrivateMatrixCompletion(0), None),
}
LONG = {"epsilon": 8.0}
HINGE = {"loss": "hinge", "preconditioner": "none", "fit_intercept": False}
OTHERS = {
    "PrivateFrechetMean, tangent, sphere": (
        Mean("sphere", radius=0.5, **GAUSSIAN, **LONG),
        None,
    ),
    "PrivateFrechetMean, tangent, SPD": (
        Mean("spd", center=np.eye(2), radius=1.0, **GAUSSIAN, **LONG),
        None,
    ),
    "PrivateFrechetMean, gradient, SPD": (
        Mean("spd", center=np.eye(2), radius=1.0, mechanism="gradient", **LONG),
        None,
    ),
    "PrivateFrechetMean, adaptive, SPD": (
        Mean("spd", center=np.eye(2), radius=1.0, noise="gaussian", **LONG),
        None,
    ),
    "PrivateFrechetMean, adaptive, Laplace": (
        Mean("spd", center=np.eye(2), radius=1.0, **LONG),
        LARGE_DELTA,
    ),
    "PrivateFrechetMean, defaults, SPD": (Mean("spd", **LONG), LARGE_DELTA),
    "PrivateFrechetMean, defaults, sphere": (Mean("sphere", **LONG), LARGE_DELTA),
    "PrivateFrechetMean, private ball": (Mean(center="private", radius="private", **LONG), None),
    "PrivateFrechetMean, unlike columns": (
        Mean("euclidean", noise="gaussian", shrink=None, **LONG),
        None,
        table_mean(),
    ),
    "PrivateFrechetMean, unlike columns, their places alone": (
        Mean("euclidean", noise="gaussian", **LONG),
        None,
        table_places(),
    ),
    "PrivateFrechetMean, median, hyperboloid": (
        Mean("hyperboloid", statistic="median", **LONG),
        None,
    ),
    "PrivateFrechetMean, gaussian, hyperboloid": (
        Mean("hyperboloid", radius=1.0, mechanism="gaussian", **LONG),
        LARGE_DELTA,
    ),
    "PrivateFrechetMean, laplace, hyperboloid": (
        Mean("hyperboloid", mechanism="laplace", epsilon=2.0, delta=0, radius=1.0),
        None,
    ),
    "PrivateFrechetMean, k-norm, hyperboloid": (
        Mean("hyperboloid", mechanism="k-norm", epsilon=4.0, delta=0, radius=1.0),
        None,
    ),
    "PrivateFrechetMean, laplace, sphere, radius pi/4": (
        Mean("sphere", mechanism="laplace", epsilon=4.0, delta=0, radius=math.pi / 4),
        None,
    ),
    "PrivateFrechetMean, laplace, sphere, radius 1.2": (
        Mean("sphere", mechanism="laplace", epsilon=4.0, delta=0, radius=1.2),
        None,
    ),
    "PrivateFrechetMean, k-norm, sphere, radius pi/4": (
        Mean("sphere", mechanism="k-norm", epsilon=4.0, delta=0, radius=math.pi / 4),
        None,
    ),
    "PrivateFrechetMean, k-norm, sphere, radius 1.2": (
        Mean("sphere", mechanism="k-norm", epsilon=4.0, delta=0, radius=1.2),
        None,
    ),
    "PrivateFrechetMean, gaussian, sphere, radius pi/4": (
        Mean("sphere", mechanism="gaussian", radius=math.pi / 4, **LONG),
        LARGE_DELTA,
    ),
    "PrivateFrechetMean, gaussian, sphere, radius 1.2": (
        Mean("sphere", mechanism="gaussian", radius=1.2, **LONG),
        LARGE_DELTA,
    ),
    "PrivatePrincipalEigenvector, pure": (PCA(epsilon=4.0, delta=0, **BOUNDS), None),
    "PrivatePrincipalEigenvector, pure, private bounds": (PCA(epsilon=4.0, delta=0), None),
    "PrivateMinimumDistanceToMean, linear": (
        PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], **LONG),
        None,
    ),
    "PrivateMinimumDistanceToMean, private ball": (
        PrivateMinimumDistanceToMean("spd", **LONG),
        None,
    ),
    "PrivateFrechetMean, a record more": (
        PrivateFrechetMean(
            radius=1.0,
            mechanism="tangent",
            noise="gaussian",
            shrink=None,
            accountant=PrivacyAccountant(unit="record, present or not"),
        ),
        None,
    ),
    "PrivateMinimumDistanceToMean, pure": (
        PrivateMinimumDistanceToMean(epsilon=4.0, delta=0, radius=1.0),
        None,
    ),
    "PrivatePrincipalEigenvector, private bounds": (PCA(**LONG), None),
    "PrivatePrincipalEigenvector, refine": (PCA(mechanism="refine", **BOUNDS, **LONG), None),
    "PrivatePrincipalEigenvector, power, 2 steps": (
        PCA(mechanism="power", n_steps=2, **BOUNDS, **LONG),
        None,
    ),
    "PrivatePrincipalEigenvector, gradient, 2 steps": (
        PCA(mechanism="gradient", n_steps=2, **BOUNDS, **LONG),
        None,
    ),
    "PrivateHyperbolicRegressor, sufficient statistics": (
        Regressor("sufficient-statistics", base_point=[0, 0], n_frequencies=8, **LONG),
        None,
    ),
    "PrivateGeodesicRegressor": (
        PrivateGeodesicRegressor(radius=1.0, feature_scale=1.0, **LONG),
        None,
    ),
    "PrivateHyperbolicRegressor, parametric": (Regressor(n_frequencies=8, **LONG), None),
    "PrivateHyperbolicRegressor, 3 queries": (Regressor("per-query", n_queries=3, **LONG), None),
    "PrivateMatrixCompletion": (PrivateMatrixCompletion(**LONG), None),
    "PrivateNoisyAdaGrad, hinge, 2 steps": (
        PrivateNoisyAdaGrad(n_steps=2, step_size=1e-3, **HINGE, **LONG),
        None,
    ),
    "PrivateNoisyAdaGrad": (PrivateNoisyAdaGrad(**LONG), None),
    "PrivateNoisyAdaGrad, range of targets found": (
        PrivateNoisyAdaGrad("squared_error", n_steps=2, feature_norm=1.0, **LONG),
        None,
    ),
    "PrivateNoisyAdaGrad, white rows": (
        PrivateNoisyAdaGrad("huber", n_steps=2, epsilon=40.0),
        None,
    ),
    "PrivateNoisyAdaGrad, a constant": (PrivateNoisyAdaGrad("huber", epsilon=1.0), None),
    "PrivateTangentClassifier": (
        PrivateTangentClassifier(center=[0.0, 0.0], radius=1.0, classes=[0, 1], **LONG),
        None,
    ),
    "PrivateTangentClassifier, mean and radius found": (
        PrivateTangentClassifier(classes=[0, 1], **LONG),
        None,
    ),
    "PrivateRiemannianERM, 20 steps": (PrivateRiemannianERM(n_steps=20, **LONG), None),
    "PrivateRiemannianERM, Poisson, 5 steps": (
        PrivateRiemannianERM(n_steps=5, batch_size=50, **LONG),
        LARGE_DELTA,
    ),
    "FederatedEstimator, records, 4 rounds": (
        FederatedEstimator(PrivateRiemannianERM(**LONG), 4, 1),
        None,
    ),
    "FederatedEstimator, sums of one client": (
        FederatedEstimator(
            PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], **LONG),
            1,
            local="statistic",
        ),
        None,
    ),
    "FederatedEstimator, clients, 1 round": (
        FederatedEstimator(PrivateFrechetMean(radius=1.0, **LONG), 1, 4, unit="client"),
        LARGE_DELTA,
    ),
    "PrivateGridSearchCV, 3 runs": (
        PrivateGridSearchCV(
            Mean(radius=1.0, epsilon=4.0, **GAUSSIAN),
            {"radius": [1.0]},
            mean_runs=3.0,
            delta=LARGE_DELTA,
        ),
        LARGE_DELTA,
    ),
}


def line(name, event, delta, stated, audited, trials):
    factor = f"{stated / audited:.2f}" if audited > 0 else "-"
    mark = "  **above**" if audited > stated else ""
    print(
        f"| {name} | {event} | {delta:g} | {stated:.3f} | {audited:.3f}{mark} | {factor} "
        f"| {trials:,} |",
        flush=True,
    )
    return audited > stated


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer trials: minutes")
    parser.add_argument("--only", nargs="+", help="rows whose name contains one of these words")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--confidence", type=float, default=1 - 1e-4, help="of every row")
    options = parser.parse_args()

    def wanted(name):
        return not options.only or any(word.lower() in name.lower() for word in options.only)

    start, above = time.perf_counter(), []
    print(f"Confidence of every bound: {options.confidence:g}.\n")
    head = "event | delta | stated epsilon | audited | stated / audited | trials |"
    print(f"| mechanism | {head}\n|---|---|---|---|---|---|---|")
    for name, make in MECHANISMS.items():
        if not wanted(name):
            continue
        trials = 20_000 if options.quick else 400_000
        if name in SLOW:
            trials = 15_000 if options.quick else 100_000
        # Private noise: keys from the operating system.
        *sides, statistic, event, delta = make(NoiseStreams()(name))
        bounds = audit_epsilon(
            *sides,
            trials=trials,
            delta=delta,
            confidence=options.confidence,
            statistic=statistic,
        )
        audited = bounds.epsilon if event.mu is None else bounds.epsilon_gdp
        kind = type(event).__name__
        if line(name, kind, delta, event.epsilon(delta), audited, trials):
            above.append(name)
    print(f"\n| estimator | {head}\n|---|---|---|---|---|---|---|", flush=True)
    for name, (estimator, delta, *pair) in (ONE_SHOT | OTHERS).items():
        if not wanted(name):
            continue
        trials = 500 if options.quick else 4_000
        if name in ONE_SHOT:
            trials = 12_000 if options.quick else 40_000
        found = audit_estimator(
            estimator,
            *pair,
            trials=trials,
            delta=delta,
            confidence=options.confidence,
            n_jobs=options.jobs,
        )
        if line(name, found.event, found.delta, found.stated, found.audited, trials):
            above.append(name)
    print(f"\n{time.perf_counter() - start:.0f} s")
    if above:
        raise SystemExit(f"refuted: {', '.join(above)}")


if __name__ == "__main__":
    main()
