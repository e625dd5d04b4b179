"""People who own several rows: averages against rows, and a decoder for people never seen.

    OMP_NUM_THREADS=1 python benchmarks/people.py [--quick] \
        [--part mean|components|linear|decoder|clients|void|search]

"mean": mean square error of a private mean of 600 people in 6 dimensions, epsilon = 1, delta = 1e-5
for a whole person; people's own means vary by .15 per coordinate about a point at distance .3 from
the public centre, their rows by .4 about their own mean.  Each way gets the radius that is best for
it among the same twenty, over the same 100 draws (8 with ``--quick``); the noise enters as its
variance, as the fits state it.  "people" is the error of the mean of all people's means without
privacy.

"components": relative excess risk of three private components, epsilon = 1, delta = 1e-5 for a
whole person.  Rows are Gaussian with variances 1, 1/2, 1/3, ...; a share of .15 of each variance
lies between people.  "rows" are the same rows without groups, at the epsilon whose mu is divided by
the number of rows per person, which is also what clipping each row and then averaging would give.
Both ways get the public norm that is best for them among the same nine, and the mean risk over 20
draws (4 with ``--quick``).

"linear": accuracy of logistic regression on new rows by the clip norm, epsilon = 1, delta = 1e-5
for a whole person; features of norm about one, half of their standard deviation between people;
mean over 10 draws (3 with ``--quick``).

"decoder": covariances of made-up people (40 trials each); accuracy on the trials of 60 new people,
mean and standard deviation over 5 draws of everybody (2 with ``--quick``), by class means with a
radius of .3, and by pyRiemann's `Whitening` of each person and `MDM`, which are not private.  Times
are CPU seconds, medians: the private fit of the people who train, recentring included, and
pyRiemann's whitening of them and fit.

"clients": the decoder at epsilon = 1, of 3 and 6 channels, where the 109 people are spread over N
hospitals, each of which adds noise of its own to its sums; over 10 draws of everybody (2 with
``--quick``).

"search": recentred people of several classes, delta = 1e-3: accuracy on the trials of 25 new people
by class means in a ball that the fit finds (constructor defaults, within `PerGroup`), and about the
identity with public radii from .2 to 1.4, by the best of them; 6 draws (2 with ``--quick``).

"void": recentred rows handed to a fit that protects rows; how far one replaced row moves the sums
of the two classes, over the 2 r for which such a fit adds noise.
"""

import argparse
import functools
import time
import warnings

import numpy as np
from pyriemann.classification import MDM
from pyriemann.preprocessing import Whitening
from scipy.optimize import brentq

from skriemdp import (
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
)
from skriemdp.datasets import make_people
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import AffineInvariantSPD
from skriemdp.preprocessing import PerGroup, Recenter
from skriemdp.privacy import gaussian_mu

PEOPLE, DIM, BETWEEN, WITHIN, OFFSET = 600, 6, 0.15, 0.4, 0.3
RADII = np.geomspace(0.2, 2.0, 20)
NORMS = np.geomspace(0.5, 3.0, 9)
DELTA = 1e-5


def noise_of(radius, epsilon, people, n, dim=DIM):
    """Mean square of the noise of a private mean of n rows, or of n people with one row each."""
    fixed = {"mechanism": "tangent", "noise": "gaussian", "shrink": None, "delta": DELTA}
    mean = PrivateFrechetMean("euclidean", radius=radius, epsilon=epsilon, **fixed)
    mean.fit(np.zeros((n, dim)), groups=np.arange(n) if people else None)
    return dim * mean.noise_scale_**2


def weaker(times, epsilon=1.0):
    """The epsilon at which mu is so many times smaller than at `epsilon`."""
    mu = gaussian_mu(epsilon, DELTA) / times
    return brentq(lambda share: gaussian_mu(share, DELTA) - mu, 1e-4, epsilon)


def shortened(X, radius):
    return X * np.minimum(1.0, radius / np.linalg.norm(X, axis=1, keepdims=True))


def averaged(X, groups):
    """Means of people's own rows, which stand together."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(starts, append=len(groups))
    return np.add.reduceat(X, starts, axis=0) / sizes[:, None]


def errors_of_means(sizes, draws):
    """Least mean square error over the radii, of each way; and of people's mean without privacy."""
    truth = np.full(DIM, OFFSET / np.sqrt(DIM))
    found, alone = np.zeros((3, len(RADII))), 0.0
    share = weaker(max(sizes))
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        groups = np.repeat(np.arange(PEOPLE), rng.integers(sizes[0], sizes[1] + 1, PEOPLE))
        own = truth + BETWEEN * rng.standard_normal((PEOPLE, DIM))
        X = own[groups] + WITHIN * rng.standard_normal((len(groups), DIM))
        people = averaged(X, groups)
        alone += float(np.sum((people.mean(axis=0) - truth) ** 2))
        for k, radius in enumerate(RADII):
            rows = shortened(X, radius)
            ways = shortened(people, radius), averaged(rows, groups), rows
            found[:, k] += [float(np.sum((way.mean(axis=0) - truth) ** 2)) for way in ways]
    found /= draws
    of_people = np.array([noise_of(radius, 1.0, True, PEOPLE) for radius in RADII])
    of_rows = np.array([noise_of(radius, share, False, len(X)) for radius in RADII])
    found += np.stack([of_people, of_people, of_rows])
    return [alone / draws, *found.min(axis=1)]


def means(quick):
    draws = 8 if quick else 100
    print(f"{PEOPLE} people, d = {DIM}, epsilon = 1, best of {len(RADII)} radii, {draws} draws\n")
    print("| rows per person | people | average, then clip | clip rows, then average | ", end="")
    print("rows at mu / most | ratio |\n|---|---|---|---|---|---|")
    for name, sizes in (("5", (5, 5)), ("20", (20, 20)), ("1 to 20", (1, 20))):
        errors = errors_of_means(sizes, draws)
        cells = " | ".join(f"{value:.5f}" for value in errors)
        print(f"| {name} | {cells} | {errors[3] / errors[1]:.2f} |", flush=True)


def components(quick):
    draws, k = 4 if quick else 20, 3
    print(f"{k} components, epsilon = 1, best of {len(NORMS)} norms, {draws} draws\n")
    print("| people x rows, d | groups= | rows | ratio |\n|---|---|---|---|")
    for people, rows, d in ((500, 20, 20), (500, 20, 50), (2000, 8, 50)):
        variances, found = 1.0 / np.arange(1.0, d + 1.0), np.zeros((2, len(NORMS)))
        settings = {"mechanism": "covariance", "center": "assume", "delta": DELTA}
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            groups = np.repeat(np.arange(people), rows)
            X = np.sqrt(0.15) * rng.standard_normal((people, d))[groups]
            X += np.sqrt(0.85) * rng.standard_normal(X.shape)
            X *= np.sqrt(variances)
            for place, norm in enumerate(NORMS):
                for way, (epsilon, given) in enumerate(((1.0, groups), (weaker(rows), None))):
                    pca = PrivatePrincipalEigenvector(k, norm, epsilon=epsilon, **settings)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # about clipped rows, and noise
                        W = pca.fit(X, groups=given).components_
                    found[way, place] += 1.0 - np.sum(W**2 @ variances) / variances[:k].sum()
        ours, other = found.min(axis=1) / draws
        print(f"| {people} x {rows}, {d} | {ours:.4f} | {other:.4f} | {other / ours:.1f} |")


def linear(quick):
    draws, clips = 3 if quick else 10, (1.0, 0.5, 0.25, 0.125, 0.0625)
    print(f"accuracy by clip norm, epsilon = 1, {draws} draws\n")
    print("| people x rows, features | " + " | ".join(map(str, clips)) + " |")
    print("|---" * (len(clips) + 1) + "|")
    for people, rows, p in ((1000, 20, 30), (1000, 1, 30), (300, 10, 5), (300, 1, 5)):
        scores = np.zeros(len(clips))
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            coef = rng.standard_normal(p)
            coef *= 1.5 / np.linalg.norm(coef)
            groups = np.repeat(np.arange(people + 2000), rows)
            X = np.sqrt(0.25) * rng.standard_normal((people + 2000, p))[groups]
            X += np.sqrt(0.75) * rng.standard_normal(X.shape)
            y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-2.0 * X @ coef))).astype(int)
            here = groups < people
            for place, clip in enumerate(clips):
                settings = {"clip_norm": clip, "feature_norm": p**0.5, "delta": DELTA}
                model = PrivateNoisyAdaGrad(classes=[0, 1], epsilon=1.0, **settings)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about clipped rows
                    model.fit(X[here], y[here], groups=groups[here])
                scores[place] += model.score(X[~here], y[~here])
        cells = " | ".join(f"{score / draws:.3f}" for score in scores)
        print(f"| {people} x {rows}, {p} | {cells} |")


def class_means(radius, epsilon, channels=16):
    known = {"radius": radius, "classes": [0, 1], "epsilon": epsilon, "delta": DELTA}
    return PrivateMinimumDistanceToMean("spd", np.eye(channels), **known)


def by_person(transform, X, groups):
    """Every person's rows, transformed by themselves."""
    result = np.empty_like(X)
    for person in np.unique(groups):
        result[groups == person] = transform(X[groups == person])
    return result


def timed(fit):
    """What `fit` returns, and its CPU seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about clipped people
        began = time.process_time()
        return fit(), time.process_time() - began


def recentred(X, groups):
    """As PerGroup does, once for several fits; each of them protects people."""
    return by_person(Recenter("spd").fit_transform, X, groups)


def decoder(quick):
    draws, epsilons, new_people = 2 if quick else 5, (3.0, 1.0, 0.5), 60
    print(f"accuracy (sd) on the trials of {new_people} new people, {draws} draws of everybody\n")
    print("| people, channels, effect | pyRiemann, raw | pyRiemann, recentred | ", end="")
    print("raw, epsilon = 1 | " + " | ".join(f"epsilon = {e:g}" for e in epsilons), end="")
    print(" | s, private fit | s, pyRiemann |\n" + "|---" * 9 + "|")
    settings = ((109, 6, 0.35), (109, 6, 0.22), (109, 16, 0.35), (300, 16, 0.35))
    for people, channels, effect in settings:
        scores, seconds = [], []
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            size = people + new_people
            X, y, groups = make_people(size, 40, channels, effect=effect, rng=rng)
            here = groups < people
            moved = recentred(X, groups)
            whole = PerGroup(Recenter("spd"), class_means(0.3, 1.0, channels))
            whiten = Whitening(metric="riemann").fit_transform
            fit = functools.partial(whole.fit, X[here], y[here], groups=groups[here])
            _, spent = timed(fit)
            white, spent_white = timed(lambda: by_person(whiten, X, groups))  # noqa: B023
            mdm = [MDM().fit(Z[here], y[here]) for Z in (X, white)]
            _, spent_mdm = timed(lambda: MDM().fit(white[here], y[here]))  # noqa: B023
            found = [m.score(Z[~here], y[~here]) for m, Z in zip(mdm, (X, white), strict=True)]
            for epsilon, Z, radius in ((1.0, X, 3.0), *((e, moved, 0.3) for e in epsilons)):
                model = class_means(radius, epsilon, channels)
                fit = functools.partial(model.fit, Z[here], y[here], groups=groups[here])
                timed(fit)
                found.append(model.score(Z[~here], y[~here]))
            scores.append(found)
            seconds.append([spent, people / size * spent_white + spent_mdm])
        means, sds = np.mean(scores, axis=0), np.std(scores, axis=0)
        cells = [f"{m:.3f} ({s:.3f})" for m, s in zip(means, sds, strict=True)]
        cells += [f"{t:.2f}" for t in np.median(seconds, axis=0)]
        print(f"| {people}, {channels}, {effect} | " + " | ".join(cells) + " |", flush=True)


def of_classes(size, classes, people, rows, effect, noise, rng):
    """Covariances of people, about a place of their own; each class moves everybody alike."""
    space = AffineInvariantSPD(size)
    centers = rng.normal(size=(classes, space.dim))
    centers *= effect / np.linalg.norm(centers, axis=1, keepdims=True)
    groups = np.repeat(np.arange(people), rows)
    y = rng.integers(classes, size=len(groups))
    strength = 1.0 + 0.3 * rng.normal(size=(people, classes))
    steps = noise * rng.normal(size=(len(y), space.dim)) / np.sqrt(space.dim)
    steps += strength[groups, y][:, None] * centers[y]
    own = rng.normal(size=(people, space.dim)) / np.sqrt(space.dim)
    values, turns = np.linalg.eigh(space.exp_coordinates(space.base_point, own))
    roots = ((turns * np.sqrt(values)[:, None, :]) @ np.swapaxes(turns, 1, 2))[groups]
    return roots @ space.exp_coordinates(space.base_point, steps) @ roots, y, groups


def search(quick):
    draws, radii = 2 if quick else 6, (0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4)
    cases = {
        "8 classes, SPD(4), 70 people x 60": (4, 8, 95, 60, 0.7, 1.0),
        "3 classes, SPD(3), 100 x 30": (3, 3, 125, 30, 0.5, 1.0),
        "4 classes, SPD(6), 200 x 40": (6, 4, 225, 40, 0.6, 1.5),
    }
    print("| data | epsilon | n mu | found | best radius | the radius | found radius |")
    print("|---|---|---|---|---|---|---|")
    for name, (size, classes, people, *rest) in cases.items():
        for epsilon in (1.0, 3.0, 10.0):
            scores, found = np.zeros((draws, len(radii) + 1)), []
            for draw in range(draws):
                rng = np.random.default_rng([2, draw])
                X, y, groups = of_classes(size, classes, people, *rest, rng)
                here, Z = groups < people - 25, recentred(X, groups)
                settings = {"classes": range(classes), "epsilon": epsilon, "delta": 1e-3}
                auto = PrivateMinimumDistanceToMean("spd", random_state=draw, **settings)
                whole = PerGroup(Recenter("spd"), auto)
                timed(lambda: whole.fit(X[here], y[here], groups=groups[here]))  # noqa: B023
                scores[draw, 0] = whole.estimator_.score(Z[~here], y[~here])
                found.append(whole.estimator_.radius_)
                for k, radius in enumerate(radii):
                    model = PrivateMinimumDistanceToMean(
                        "spd", center=np.eye(size), radius=radius, random_state=draw, **settings
                    )
                    timed(lambda: model.fit(Z[here], y[here], groups=groups[here]))  # noqa: B023
                    scores[draw, 1 + k] = model.score(Z[~here], y[~here])
            means = scores.mean(axis=0)
            best, t = 1 + int(means[1:].argmax()), (people - 25) * gaussian_mu(epsilon, 1e-3)
            print(f"| {name} | {epsilon:g} | {t:.0f} | {means[0]:.3f} | {means[best]:.3f} ", end="")
            print(f"| {radii[best - 1]:g} | {np.median(found):.2f} |", flush=True)


def clients(quick):
    draws, hospitals = (2 if quick else 10), (1, 5, 10, 20)
    print(f"109 people x 40 trials, epsilon = 1; accuracy (sd) on 60 new people, {draws} draws\n")
    print("| channels | " + " | ".join(f"N = {n}" for n in hospitals) + " |")
    print("|---" * (1 + len(hospitals)) + "|")
    for channels in (3, 6):
        model = FederatedEstimator(class_means(0.3, 1.0, channels), 1, local="statistic")
        scores = np.empty((draws, len(hospitals)))
        for draw in range(draws):
            X, y, groups = make_people(169, 40, channels, rng=np.random.default_rng(draw))
            X = recentred(X, groups)
            here, new = groups < 109, groups >= 109
            for k, n in enumerate(hospitals):
                model.fit(X[here], y[here], clients=groups[here] % n, groups=groups[here])
                scores[draw, k] = model.score(X[new], y[new])
        found = zip(scores.mean(axis=0), scores.std(axis=0), strict=True)
        print(f"| {channels} | " + " | ".join(f"{m:.3f} ({s:.3f})" for m, s in found) + " |")


def sums(X, y, radius):
    """Sums of the two classes' logarithms of recentred rows, each clipped to the radius."""
    geometry = AffineInvariantSPD(X.shape[1])
    rows = shortened(np.asarray(geometry.log_coordinates(geometry.base_point, X)), radius)
    return np.stack([rows[y == k].sum(axis=0) for k in (0, 1)])


def void(quick, radius=0.3):
    X, y, groups = make_people(109, 40, 6, rng=np.random.default_rng(0))
    one, labels = X[groups == 0], y[groups == 0]

    def shown(scale):
        """Sums where the person's first trial is so many times the identity; None: as it is."""
        rows = one.copy()
        if scale is not None:
            rows[0] = scale * np.eye(6)
        return sums(Recenter("spd").fit_transform(rows), labels, radius)

    print("| one row, times the identity | change of the sums over 2 r |\n|---|---|")
    for scale in (1e2, 1e6, 1e12):
        change = np.linalg.norm(shown(scale) - shown(None)) / (2 * radius)
        print(f"| as recorded, or {scale:g} | {change:.1f} |")
    for scale in (1e2, 1e6, 1e12):
        change = np.linalg.norm(shown(scale) - shown(1.0 / scale)) / (2 * radius)
        print(f"| {1.0 / scale:g}, or {scale:g} | {change:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parts = {
        "mean": means,
        "components": components,
        "linear": linear,
        "decoder": decoder,
        "clients": clients,
        "void": void,
        "search": search,
    }
    parser.add_argument("--part", choices=parts)
    arguments = parser.parse_args()
    for name, part in parts.items():
        if arguments.part in (None, name):
            part(arguments.quick)
            print()


if __name__ == "__main__":
    main()
