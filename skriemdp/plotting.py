"""Displays of private results; matplotlib is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from skriemdp._errors import PublicValueError
from skriemdp._quiet import QuietQueries, read_numbers
from skriemdp._validation import check_instance

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = [
    "AdaGradDisplay",
    "CapturedVarianceDisplay",
    "CompletionDisplay",
    "NoiseBallDisplay",
    "PlanDisplay",
    "PoincareDiskDisplay",
    "SpectrumDisplay",
]


def _axes(ax: Any, **kwargs: Any) -> Any:
    import matplotlib.pyplot as plt

    if ax is None:
        return plt.subplots(**kwargs)[1]
    several = kwargs.get("ncols", 1) > 1
    each, cure = ax if several else [ax], "pass axes of pyplot.subplots(), or None"
    for one in np.atleast_1d(np.asarray(each, dtype=object)).ravel():
        check_instance(plt.Axes, cure, **{"axes" if several else "ax": one})
    return ax


def _unit_circle(ax: Axes, count: int, width: float) -> None:
    """The rim of the Poincare disk."""
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    ax.plot(np.cos(angle), np.sin(angle), color="k", lw=width)


def _repeats(ax: Axes, epsilons: Any, values: ArrayLike, color: str, label: str) -> None:
    """Medians of repeated fits against epsilon, and where four of five of them lie."""
    low, middle, high = np.quantile(np.asarray(values), [0.1, 0.5, 0.9], axis=1)
    ax.fill_between(epsilons, low, high, alpha=0.2, color=color)
    ax.plot(epsilons, middle, "o-", color=color, label=label)


class _OneAxes(QuietQueries):
    """Displays of one panel."""

    def _drawn(self, ax: Axes, **legend: Any) -> Self:
        """Add a legend; return the display itself."""
        ax.legend(**legend)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class NoiseBallDisplay(_OneAxes):
    """Plot of where the true mean can be, given a private one, from released and public numbers.

    With `confidence_region`, regions that hold the population's mean: sampling and noise together.
    Without, circles that hold the noise alone with the stated probabilities (Gaussian noise of
    standard deviation `noise_scale` per coordinate); the population's mean is in them less often.

    Parameters
    ----------
    geometry : Geometry
        A two-dimensional Sphere, Hyperboloid or Poincare.
    mean : ndarray
        The private mean.
    noise_scale : float
    center, radius : ndarray, float, optional
        The public ball.
    confidence_region : callable, optional
        Gives the :class:`skriemdp.inference.ConfidenceRegion` of a level.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    """

    geometry: Any
    mean: np.ndarray
    noise_scale: float
    center: np.ndarray | None = None
    radius: float | None = None
    confidence_region: Callable[[float], Any] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Axes | None = None) -> NoiseBallDisplay:
        """Draw a fitted :class:`skriemdp.PrivateFrechetMean` on a two-dimensional manifold."""
        known = getattr(estimator, "inference_", None) is not None
        display = cls(
            estimator.geometry_,
            estimator.mean_,
            estimator.noise_scale_,
            estimator.center_,
            estimator.radius_,
            estimator.confidence_region if known else None,
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None, *, levels: tuple[float, ...] = (0.5, 0.9)) -> Self:
        """Draw on the sphere (3-D) or in the Poincare disk; returns self."""
        space = self.geometry.symmetric_space
        if space is None or space.dim != 2 or space.name not in ("sphere", "hyperbolic"):
            raise PublicValueError(
                f"only two-dimensional spheres and hyperbolic spaces, got {self.geometry}."
            )
        solid = space.name == "sphere"
        ax = _axes(ax, subplot_kw={"projection": "3d"} if solid else {})
        self._draw_space(ax, solid)
        for level in levels:
            if self.confidence_region is not None:
                edge = self._flat(self.confidence_region(level).boundary())
                ax.plot(*edge.T, color="C0", alpha=1.2 - level, label=f"confidence, {level:.0%}")
                continue
            # Rayleigh quantile: the length of a two-dimensional Gaussian vector.
            length = self.noise_scale * np.sqrt(-2.0 * np.log1p(-level))
            circle = self._flat(self._circle(self.mean, length))
            ax.plot(*circle.T, color="C0", alpha=1.2 - level, label=f"noise, {level:.0%}")
        if self.center is not None and self.radius is not None:
            circle = self._flat(self._circle(self.center, self.radius))
            ax.plot(*circle.T, color="0.6", ls="--", label="public ball")
        ax.plot(*self._flat(self.mean[None]).T, "o", color="C0", label="private mean")
        return self._drawn(ax)

    def _circle(self, point: np.ndarray, length: float) -> np.ndarray:
        angle = np.linspace(0.0, 2.0 * np.pi, 200)
        coordinates = length * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        return self.geometry.exp_coordinates(np.asarray(point), coordinates)

    def _flat(self, points: np.ndarray) -> Any:
        """Drawing coordinates: ambient on the sphere, the unit disk on hyperbolic space."""
        space = self.geometry.symmetric_space
        if space.name == "sphere":
            return points
        from skriemdp.geometry import Poincare

        disk = Poincare(2, space.curvature)
        steps = self.geometry.log_coordinates(self.geometry.base_point, points)
        return disk.exp_coordinates(disk.base_point, steps)

    def _draw_space(self, ax: Any, solid: bool) -> None:
        if solid:
            u, v = np.mgrid[0 : 2 * np.pi : 40j, 0 : np.pi : 20j]
            r = self.geometry.radius
            x, y, z = r * np.cos(u) * np.sin(v), r * np.sin(u) * np.sin(v), r * np.cos(v)
            ax.plot_surface(x, y, z, color="0.9", alpha=0.3, linewidth=0)
            return
        _unit_circle(ax, 200, 1.0)
        ax.set_aspect("equal")
        ax.axis("off")


@dataclass
class AdaGradDisplay(QuietQueries):
    """Excess risk of private linear models against epsilon, and the spectrum of a preconditioner.

    Parameters
    ----------
    spectrum : array-like of shape (k,)
        Eigenvalues of the last preconditioner, decreasing (``preconditioner_spectrum_``).
    noise_floor : float, optional
        What noise alone would add up to.
    epsilons : array-like of shape (m,), optional
    excess_risks : dict of str to array-like of shape (m, repeats), optional
        By method.  They need the optimum and the records, and are not private: for studies.
    no_data : dict of str to float, optional
        Horizontal lines, such as the public solution.

    Attributes
    ----------
    axes_ : tuple of matplotlib Axes
        Spectrum, and excess risk if there is one.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.plotting import AdaGradDisplay
    >>> display = AdaGradDisplay(np.array([3.0, 1.0]), noise_floor=0.5).plot()
    >>> len(display.axes_)
    1
    """

    spectrum: np.ndarray
    noise_floor: float | None = None
    epsilons: np.ndarray | None = None
    excess_risks: dict | None = None
    no_data: dict | None = None

    @classmethod
    def from_estimator(cls, model: Any, axes: Any = None, **studies: Any) -> AdaGradDisplay:
        """Draw for a fitted :class:`skriemdp.PrivateNoisyAdaGrad`; `studies` as the parameters."""
        floor = model.preconditioner_floor_
        return cls(model.preconditioner_spectrum_, noise_floor=floor, **studies).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw; `axes` is a sequence of one or two axes.  Returns self."""
        count = 1 if self.excess_risks is None else 2
        axes = _axes(axes, ncols=count, figsize=(5 * count, 4))
        axes = tuple(np.atleast_1d(axes))[:count]
        axes[0].plot(np.arange(1, len(self.spectrum) + 1), self.spectrum, "o-", label="eigenvalues")
        if self.noise_floor is not None:
            axes[0].axhline(self.noise_floor, color="C3", ls="--", label="noise alone")
        axes[0].set(yscale="log", xlabel="index", ylabel="preconditioner")
        shown = [value for value in (*self.spectrum, self.noise_floor or 0.0) if value > 0.0]
        if shown:  # equal values would leave an axis without a tick
            axes[0].set_ylim(min(shown) / 2.0, max(shown) * 2.0)
        axes[0].legend()
        if count == 2:
            for number, (name, risks) in enumerate((self.excess_risks or {}).items()):
                _repeats(axes[1], self.epsilons, risks, f"C{number}", name)
            for name, risk in (self.no_data or {}).items():
                axes[1].axhline(risk, color="k", ls=":", label=name)
            axes[1].set(xscale="log", yscale="log", xlabel="epsilon", ylabel="excess risk")
            axes[1].legend()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


@dataclass
class PoincareDiskDisplay(_OneAxes):
    """Hyperbolic predictions in the Poincare disk: truth, prediction, and where noise may put it.

    Parameters
    ----------
    truth : array-like of shape (m, 3)
        Points of ``Hyperboloid(2)``.
    clouds : array-like of shape (m, repeats, 3)
        Predictions of repeated fits, for each true point.  Repeating a fit spends its budget each
        time: for studies.
    background : array-like of shape (k, 3), optional
        Other points, for instance the labels of a public taxonomy.
    edges : array-like of int, shape (e, 2), optional
        Pairs of `background`, drawn as geodesics.
    names : sequence of str, optional
        Of the true points.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    truth: np.ndarray
    clouds: np.ndarray
    background: np.ndarray | None = None
    edges: np.ndarray | None = None
    names: tuple | None = None

    @staticmethod
    def geodesics(starts: ArrayLike, ends: ArrayLike) -> Any:
        """Points of the geodesics in the disk, shape ``(m, 33, 2)``."""
        from skriemdp.geometry import Hyperboloid, Poincare

        space, disk = Hyperboloid(2), Poincare(2)
        starts, ends = read_numbers(starts, "starts"), read_numbers(ends, "ends")
        times = np.linspace(0.0, 1.0, 33)[:, None]
        logs = space.log_coordinates(starts, ends)[:, None]
        return disk.from_hyperboloid(space.exp_coordinates(starts[:, None], times * logs))

    def plot(self, ax: Any = None) -> Self:
        """Draw everything; returns self."""
        from matplotlib.collections import LineCollection

        from skriemdp.geometry import Poincare

        disk = Poincare(2)
        ax = _axes(ax, figsize=(5, 5))
        _unit_circle(ax, 257, 0.8)
        if self.background is not None:
            background = read_numbers(self.background, "background")
            if self.edges is not None:
                edges = np.asarray(self.edges)
                lines = self.geodesics(background[edges[:, 0]], background[edges[:, 1]])
                ax.add_collection(
                    LineCollection(lines, colors="0.85", linewidths=0.3, alpha=0.5, zorder=0)
                )
            flat = disk.from_hyperboloid(background)
            ax.scatter(*flat.T, s=4, color="0.7", zorder=1)
        truth = read_numbers(self.truth, "truth")
        clouds = read_numbers(self.clouds, "clouds")
        for i, (point, cloud) in enumerate(zip(truth, clouds, strict=True)):
            color = f"C{i}"
            ax.scatter(*disk.from_hyperboloid(cloud).T, s=8, color=color, alpha=0.35, zorder=2)
            here = self.geodesics(point[None], cloud[:1])[0]
            ax.plot(*here.T, color=color, lw=1.0, zorder=3)
            ax.scatter(*here[-1], s=30, color=color, edgecolors="k", zorder=4)
            name = f"truth {i}" if self.names is None else self.names[i]
            ax.scatter(
                *here[0], s=120, marker="*", color=color, edgecolors="k", zorder=4, label=name
            )
        ax.set(aspect="equal", xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), xticks=[], yticks=[])
        ax.set_frame_on(False)
        return self._drawn(ax, loc="upper left", fontsize="small")


@dataclass
class PlanDisplay(_OneAxes):
    """Expected errors of a fit against epsilon, from public numbers: nothing is charged.

    Parameters
    ----------
    plans : sequence of Forecast
        What `plan` of an estimator says at several epsilon.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    """

    plans: Any

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        n: int,
        shape: Any,
        ax: Axes | None = None,
        *,
        epsilons: ArrayLike = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0),
        **facts: Any,
    ) -> PlanDisplay:
        """Plan the estimator's fit at several `epsilons`; `facts` are for its `plan`."""
        own = clone(estimator)
        each = [float(epsilon) for epsilon in read_numbers(epsilons, "epsilons").ravel()]
        return cls([own.set_params(epsilon=e).plan(n, shape, **facts) for e in each]).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw every error that is known, against epsilon; returns self."""
        ax = _axes(ax)
        epsilons = [plan.epsilon for plan in self.plans]
        for name, style in (("noise", "o-"), ("floor", "--"), ("sampling", ":")):
            values = [plan.error(name) for plan in self.plans]
            if np.isfinite(values).any():
                ax.plot(epsilons, values, style, label=name)
        unit = next((error.unit for plan in self.plans for error in plan.errors), "")
        ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=f"expected error {unit}")
        return self._drawn(ax)


@dataclass
class SpectrumDisplay(_OneAxes):
    """Eigenvalues of a privately released second moment beside the reach of its noise.

    Eigenvalues inside the shaded band cannot be told from those of the noise alone.

    Parameters
    ----------
    spectrum : array-like of shape (d,)
        Released eigenvalues, decreasing.
    noise_scale : float
        Standard deviation of the noise of the matrix's entries off the diagonal.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    """

    spectrum: np.ndarray
    noise_scale: float

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Axes | None = None) -> SpectrumDisplay:
        """Draw a fitted :class:`skriemdp.PrivatePrincipalEigenvector` that released a matrix."""
        if estimator.spectrum_ is None:
            raise PublicValueError(
                f"mechanism={estimator.mechanism_!r} released no matrix, so there is no spectrum; "
                "fit with mechanism='covariance' or 'refine'."
            )
        return cls(estimator.spectrum_, estimator.spectrum_noise_scale_).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the spectrum and the band of the noise; returns self."""
        ax = _axes(ax)
        spectrum = read_numbers(self.spectrum, "spectrum")
        # Largest eigenvalue of the noise alone (semicircle law), about the mean eigenvalue.
        edge = 2.0 * np.sqrt(len(spectrum)) * self.noise_scale
        middle = spectrum.mean()
        ax.axhspan(middle - edge, middle + edge, color="C0", alpha=0.15, label="reach of the noise")
        index = np.arange(1, len(spectrum) + 1)
        ax.plot(index, spectrum, "o", color="C0", label="private")
        ax.set(xlabel="component", ylabel="variance")
        return self._drawn(ax)


@dataclass
class CapturedVarianceDisplay(_OneAxes):
    """Share of the variance that private components capture, against epsilon; for studies.

    Parameters
    ----------
    epsilons : array-like of shape (k,)
    shares : array-like of shape (k, repeats)
        Captured shares of repeated fits; computed on the data, hence not private.
    released : array-like of shape (k, repeats), optional
        The fits' own statements, `explained_variance_ratio_`, summed; private.
    non_private : float, optional
        Share captured by components without noise.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    """

    epsilons: np.ndarray
    shares: np.ndarray
    released: np.ndarray | None = None
    non_private: float | None = None

    @classmethod
    def from_estimators(
        cls, estimators: Any, X: Any, ax: Axes | None = None, *, non_private: Any = None
    ) -> CapturedVarianceDisplay:
        """Draw fitted estimators, any number for each epsilon, scored on the rows X."""
        fits: dict[float, list] = {}
        for estimator in estimators:
            fits.setdefault(float(estimator.epsilon), []).append(estimator)
        if len({len(group) for group in fits.values()}) != 1:
            raise PublicValueError("every epsilon needs the same number of fitted estimators.")
        epsilons = np.array(sorted(fits))
        shares = np.array([[fit.score(X) for fit in fits[e]] for e in epsilons])
        released = np.array(
            [[fit.explained_variance_ratio_.sum() for fit in fits[e]] for e in epsilons]
        )
        return cls(epsilons, shares, released, non_private).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw medians and the spread over repeats; returns self."""
        ax = _axes(ax)
        for values, color, label in (
            (self.shares, "C0", "captured (median, 10-90 %)"),
            (self.released, "C1", "released statement"),
        ):
            if values is not None:
                _repeats(ax, self.epsilons, values, color, label)
        if self.non_private is not None:
            ax.axhline(self.non_private, color="k", ls=":", label="non-private")
        ax.set(xscale="log", xlabel="epsilon", ylabel="share of the variance")
        return self._drawn(ax)


@dataclass
class CompletionDisplay(QuietQueries):
    """Private matrix completion: released singular values beside noise, and error over epsilon.

    Parameters
    ----------
    spectrum : ndarray, optional
        Released eigenvalues of the hollow second moment; everything drawn of them is released.
    noise : float, optional
        Largest eigenvalue that the noise alone reaches.
    epsilons : ndarray of shape (k,), optional
    errors : dict of str to array-like of shape (k,), optional
        Held-out errors of several policies.  They are computed from ratings: for studies.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure
    """

    spectrum: np.ndarray | None = None
    noise: float | None = None
    epsilons: np.ndarray | None = None
    errors: dict | None = None

    @classmethod
    def from_estimator(cls, model: Any, **kwargs: Any) -> CompletionDisplay:
        """Display of a fitted :class:`skriemdp.PrivateMatrixCompletion`, drawn."""
        return cls(spectrum=model.spectrum_, noise=model.spectrum_noise_, **kwargs).plot()

    def plot(self, axes: Any = None) -> Self:
        """Draw what was given, one panel each; returns self."""
        panels = [self._singular_values] * (self.spectrum is not None)
        panels += [self._curve] * (self.errors is not None)
        if not panels:
            raise PublicValueError(
                "nothing to draw: this fit released no spectrum (only mechanism='covariance' does) "
                "and no errors were given."
            )
        axes = _axes(axes, ncols=len(panels), figsize=(5.5 * len(panels), 4))
        self.axes_ = np.atleast_1d(axes)
        for panel, ax in zip(panels, self.axes_, strict=True):
            panel(ax)
        self.figure_ = self.axes_[0].figure
        return self

    def _singular_values(self, ax: Axes) -> None:
        assert self.spectrum is not None
        # Noise makes eigenvalues of both signs; a singular value of the data is the root of one.
        values = np.sqrt(np.maximum(np.sort(self.spectrum)[::-1], 0.0))
        ax.plot(np.arange(1, len(values) + 1), values, "o", ms=4, label="released")
        if self.noise is not None:
            ax.axhspan(0.0, np.sqrt(self.noise), color="0.85", label="reach of the noise")
        ax.set(xlabel="component", ylabel="singular value")
        ax.legend()

    def _curve(self, ax: Axes) -> None:
        assert self.errors is not None
        epsilons: Any = self.epsilons
        for label, errors in self.errors.items():
            ax.plot(epsilons, errors, "o-", label=label)
        ax.set(xscale="log", xlabel="epsilon", ylabel="held-out RMSE")
        ax.legend()
