"""Private Fréchet means of image covariances (Han et al. 2024, Figures 1b and 1c).

Run:  python examples/reproductions/han2022_spd_images.py [--quick] [--output OUT] [--data FOLDER]

Excess risk against epsilon on 50 images: FOLDER may hold yaleb.npz and dynt.npz, each with an array
``images`` of shape (n, height, width), grey (Extended Yale B; Kylberg's dynamic textures, frames).
Images are sampled to 32 x 32 pixels; position and the magnitudes of six Gabor filters give 8 x 8
region covariances, which are reduced to 2 x 2 in the two directions in which they vary most.
scikit-learn's digits go the same way, so that something runs without data.  Features and reduction
are taken as public, as in the paper.
"""

import math
import warnings

import numpy as np
from han2022_spd_mean import (
    DELTA,
    AffineCloud,
    descend,
    k_norm_exact,
    laplace,
    published_mu,
    random_start,
    risks,
)
from reproduction_tools import data_file, heading, parse, save_figure, table
from scipy.signal import fftconvolve
from sklearn.datasets import load_digits

from skriemdp import PrivacyAccountant, PrivateFrechetMean
from skriemdp.privacy import gaussian_epsilon

STEP, N = 0.1, 50
QUICK, FULL = ((0.3, 1.0), 5), ((0.1, 0.3, 0.5, 0.7, 1.0), 40)  # epsilons, repeats
SETS = {"YaleB": "yaleb.npz", "Dynt": "dynt.npz"}
# A public guess: magnitudes lie in [0, 1] and vary by a few hundredths, give or take a factor.
CENTRE, RADIUS = 1e-3 * np.eye(2), 2.5


def sampled(images, size=32):
    """Grey images in [0, 1] on a grid of at most `size` by `size` pixels."""
    images = np.asarray(images, dtype=float)
    images = images / 255.0 if images.max() > 1.0 else images
    rows, columns = (
        np.linspace(0, extent - 1, min(size, extent)).round().astype(int)
        for extent in images.shape[1:]
    )
    return images[:, rows][:, :, columns]


def gabor_features(images):
    """Position and six Gabor magnitudes in [0, 1] per pixel, shape (n, pixels, 8)."""
    n, height, width = images.shape
    grid = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    features = [np.broadcast_to(axis, images.shape) for axis in grid]
    for wavelength in (min(height, width) / 4.0, min(height, width) / 2.0):
        reach = int(math.ceil(wavelength))
        y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
        envelope = np.exp(-0.5 * (x**2 + y**2) / (0.5 * wavelength) ** 2)
        envelope /= envelope.sum()
        for angle in (0.0, math.pi / 3, 2 * math.pi / 3):
            wave = np.exp(2j * math.pi * (x * math.cos(angle) + y * math.sin(angle)) / wavelength)
            kernel = (envelope * (wave - (envelope * wave).sum()))[None]
            features.append(np.abs(fftconvolve(images, kernel, mode="same", axes=(1, 2))))
    return np.stack(features, axis=-1).reshape(n, height * width, 8)


def covariances(images):
    """Region covariances of the features, 8 x 8, with a public floor of 1e-4."""
    features = gabor_features(images)
    features = features - features.mean(axis=1, keepdims=True)
    return features.transpose(0, 2, 1) @ features / features.shape[1] + 1e-4 * np.eye(8)


def reduced(X, size=2):
    """``Q' X_i Q`` with orthonormal Q: the directions of most variation around the mean."""
    values, vectors = np.linalg.eigh(X.mean(axis=0))
    whiten = (vectors / np.sqrt(values)) @ vectors.T
    values, inner = np.linalg.eigh(whiten @ X @ whiten)
    logs = (inner * np.log(values)[:, None, :]) @ inner.transpose(0, 2, 1)
    leading = np.linalg.eigh((logs @ logs).mean(axis=0))[1][:, -size:]
    Q = np.linalg.qr(whiten @ leading)[0]
    return Q.T @ X @ Q


def panel(name, images, epsilons, repeats, curves):
    """Table and curve of one set of images."""
    rng = np.random.default_rng(4)
    chosen = np.asarray(images)[rng.choice(len(images), N, replace=False)]
    cloud = AffineCloud(reduced(covariances(sampled(chosen))))
    space, X = cloud.geometry, cloud.X
    diameter = float(max(np.max(space.dist(x, X)) for x in X))
    heading(f"{name}, {N} images: excess risk against epsilon, mean ± standard error [median]")
    print(
        f"Published: T = n, step {STEP}, diameter taken as 1; it is {diameter:.2f} here.\n"
        f"Our public ball has radius {RADIUS:g}; the farthest record is "
        f"{float(np.max(space.dist(CENTRE, X))):.2f} from its centre.\n"
    )
    mean, rows = cloud.mean(), []

    def row(epsilon):
        sigma = math.sqrt(N * math.log(1 / DELTA)) / (N * epsilon)
        wide = 4.0 / (N * epsilon)
        outputs = [
            descend(cloud, random_start(repeats, rng), N, STEP, sigma, rng),
            laplace(mean, wide, repeats, rng),
            k_norm_exact(cloud, wide, repeats, rng),
            ours(X, epsilon, repeats),
        ]
        centre = float(cloud.excess(CENTRE[None])[0])
        rows.append([epsilon, *(float(cloud.excess(W).mean()) for W in outputs), centre])
        descent, output, k_norm, fitted = (risks(cloud, W) for W in outputs)
        # Pure epsilons: the mean moves by diameter/n; K-norm densities and normalisers by as much.
        pure = diameter / (N * wide)
        true = gaussian_epsilon(published_mu(diameter, 1.0, epsilon), DELTA)
        return [epsilon, descent, true, output, pure, k_norm, 2 * pure, fitted, centre]

    header = (
        "epsilon",
        "DP-RGD, published noise",
        "its true epsilon",
        "FM-LAP, 4/(n epsilon)",
        "its true epsilon, pure",
        "FM-KNG, 4/(n epsilon), exact draws",
        "its true epsilon, pure",
        "`PrivateFrechetMean`, true epsilon",
        "public centre, no data",
    )
    table(header, (row(epsilon) for epsilon in epsilons))
    curves[name] = np.array(rows)


def ours(X, epsilon, repeats):
    settings = {"center": CENTRE, "radius": RADIUS, "epsilon": epsilon, "delta": DELTA}
    fits = [PrivateFrechetMean("spd", random_state=r, **settings) for r in range(repeats)]
    return np.stack([fit.fit(X).mean_ for fit in fits])


def figure(curves):
    def draw(pyplot):
        chart, axes = pyplot.subplots(1, len(curves), figsize=(5.5 * len(curves), 4), squeeze=False)
        for axis, (name, rows) in zip(axes[0], curves.items(), strict=True):
            names = ("DP-RGD", "FM-LAP", "FM-KNG", "ours, true epsilon", "public centre, no data")
            for column, label in enumerate(names, 1):
                axis.semilogy(rows[:, 0], rows[:, column], "o-", label=label)
            axis.set(title=name, xlabel="stated epsilon", ylabel="excess risk")
        axes[0, 0].legend(fontsize=7)
        return chart

    return draw


def main(arguments=None):
    options = parse(__doc__, arguments)
    warnings.simplefilter("ignore", UserWarning)
    epsilons, repeats = QUICK if options.quick else FULL
    curves = {}
    with PrivacyAccountant(epsilon=math.inf), np.errstate(all="ignore"):
        panel("digits", load_digits().images / 16.0, epsilons, repeats, curves)
        for name, file in SETS.items():
            path = data_file(options, file, f"the panel on {name}")
            if path is not None:
                panel(name, np.load(path)["images"], epsilons, repeats, curves)
    save_figure(options, "han2022_spd_images", figure(curves))


if __name__ == "__main__":
    main()
