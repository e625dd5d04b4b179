"""Private principal components of tangent vectors at a private mean: `PrivateTangentPCA`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._core.estimator import Data, Plan, Terms
from skriemdp._core.forecast import Expected
from skriemdp._core.manifold_input import ball_cure, clipped_share
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.points import PointRecords
from skriemdp._mean.domains import PointEstimator, public_domain, search_domain
from skriemdp._mean.expected import expected_joint_mean
from skriemdp._mean.exports import synthetic_points
from skriemdp._mean.joint_releases import JointMean, plan_joint_mean
from skriemdp._quiet import read_array
from skriemdp._validation import check_count, check_option
from skriemdp.inference._covariances import coordinate_jacobian, shares_of, variances_along
from skriemdp.privacy._calibration import gaussian_mu

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.ledger._accountant import PrivacyAccountant

# Noise of the second moment grows with the square of a radius, and directions survive shortening:
# of a private radius this part is used, and all of it from _AMPLE sqrt(dim) on (benchmarks/
# inference.py, "--part pca").
_NARROWEST, _AMPLE = 0.5, 1200.0


def _narrower(n_mu: float, dim: int) -> float:
    """Factor on private radii, from public numbers."""
    return float(np.clip(math.sqrt(n_mu / (_AMPLE * math.sqrt(dim))), _NARROWEST, 1.0))


class PrivateTangentPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PointEstimator):
    """Differentially private tangent principal component analysis on a Riemannian manifold.

    Points are seen from their private Fréchet mean, in normal coordinates, and the principal
    components of these are released; mean and components come from one joint release.

    Parameters
    ----------
    n_components : int, default=2
        At most the dimension of the manifold.
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        As for :class:`skriemdp.PrivateFrechetMean`.
    center : array-like of shape ``point_shape`` or "private", optional
        Public centre of the ball that bounds the data; None means "private" with
        ``radius="private"``, and the geometry's base point with a number, which
        matrices of "spd" do not have.
    radius : float or "private", default="private"
        Public radius of that ball, in geodesic distance; records outside are projected on it.
        "private" spends a part of the budget on finding one.
    whiten : bool, default=False
        Divide the components of `transform` by their standard deviations.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the whole fit; delta must be positive.
    accountant : PrivacyAccountant, optional
        Ledger that the fit is charged to; the active one by default.
    random_state : int, optional
        None for private noise from the operating system.  An int makes the noise reproducible, for
        tests and studies; nobody is protected then.

    Attributes
    ----------
    mean_ : ndarray of shape ``point_shape``
        The private mean.
    components_ : ndarray of shape (n_components, dim)
        Orthonormal, in orthonormal coordinates at `mean_`; largest variance first.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along them, in squared geodesic distance, of records clipped to `radius_`.  A
        private radius cuts more where n and the budget are small, for less noise.  The largest
        tends to be too large otherwise: noise and sampling both pull the first component towards
        what is large by chance.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of the variance along them.  Unlike `explained_variance_` over `frechet_variance_`, it
        counts no noise: it comes from the released matrix without shrinkage, less what noise adds.
    spectrum_ : ndarray of shape (dim,)
        Variances of all components.
    frechet_variance_ : float
        Their sum, the mean squared distance of the shortened records to `mean_`.
    noise_scale_ : float
        Standard deviation of the noise of the mean per coordinate, in geodesic distance.
    clipped_fraction_ : float
        Private estimate of the fraction of records outside the last ball, in [0, 1].
    center_, radius_ : ndarray of shape ``point_shape``, float
        That ball: public, or released.
    privacy_spent_ : PrivacySpent
        Unpacks as ``epsilon, delta``.
    geometry_ : Geometry
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record, or of all
    records of one group; n, their number, is public, or secret as for
    :class:`skriemdp.PrivateFrechetMean` (docs/theory/presence.md); that of
    :class:`skriemdp._mean.joint_releases.JointMean`, mu-GDP.  `transform` of a row depends on that
    row and is not private.  Derivation: docs/theory/regions.md.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateTangentPCA
    >>> X = np.random.default_rng(0).normal(size=(2000, 4)) * [0.3, 0.2, 0.02, 0.02]
    >>> pca = PrivateTangentPCA(2, epsilon=1.0).fit(X)
    >>> pca.transform(X).shape
    (2000, 2)
    """

    __metadata_request__fit = {"groups": True}
    _share_after_presence = 0.42

    def __init__(
        self,
        n_components: int = 2,
        manifold: ManifoldLike = "euclidean",
        *,
        center: ArrayLike | None = None,
        radius: float | Literal["private"] = "private",
        whiten: bool = False,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.n_components = n_components
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.whiten = whiten
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> PrivateTangentPCA:
        """Release a private mean and the components around it.

        Parameters
        ----------
        X : array-like of shape (n, *point_shape) or (n, n_features)
        y : None
            Ignored.
        groups : array-like of shape (n,), optional
            Who owns each row.  Then everybody counts as one vector, the mean of the logarithms of
            own rows, and components are those of people.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For bad parameters or input, before anything is charged or released.
        BudgetExceededError
            If the accountant's ceiling would be exceeded; nothing is released.
        """
        return self._fit(X, y, groups)

    def transform(self, X: Any) -> np.ndarray:
        """Components of the points X, shape ``(n, n_components)``."""
        points = self._points(X)
        seen = np.asarray(self.geometry_.log_coordinates(self.mean_, points))
        return seen @ self.components_.T / self._scales()

    def sample(self, n: int = 1, random_state: int | None = None) -> np.ndarray:
        """Synthetic records: a wrapped Gaussian at `mean_` with all variances of `spectrum_`.

        They show the released mean and covariance, of records clipped to `radius_`, and nothing
        else of the records.  Post-processing: nothing more is spent, for any `n`.

        Parameters
        ----------
        n : int, default=1
        random_state : int, optional
            Public; the draws are no noise that protects anybody.

        Returns
        -------
        ndarray of shape (n, *point_shape), or (n, n_features) where X was flat
        """
        check_is_fitted(self)
        moments = (self.mean_, self._covariance)
        return self._layout(synthetic_points(self.geometry_, *moments, n, random_state))

    def inverse_transform(self, X: np.ndarray) -> np.ndarray:
        """Points from components ``(n, n_components)``, in the layout of the fitted X."""
        check_is_fitted(self)
        X = read_array(X, "X", dtype=np.float64, ensure_2d=False)
        if X.ndim != 2 or X.shape[1] != len(self.components_):
            raise PublicValueError(
                f"X must have shape (n, {len(self.components_)}), got {X.shape}."
            )
        seen = (X * self._scales()) @ self.components_
        return self._layout(np.asarray(self.geometry_.exp_coordinates(self.mean_, seen)))

    def _scales(self) -> np.ndarray:
        """Divisors of the components."""
        if not self.whiten:
            return np.ones(len(self.components_))
        least = np.finfo(float).eps * max(self.frechet_variance_, self.noise_scale_**2)
        return np.sqrt(np.maximum(self.explained_variance_, least))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan[JointMean]:
        geometry, n = facts["geometry"], facts["n"]
        check_count(n_components=self.n_components)
        check_option((False, True), whiten=self.whiten)
        if self.n_components > geometry.dim:
            raise PublicValueError(
                f"n_components={self.n_components} must be at most {geometry.dim}, the dimension "
                f"of {geometry} (X has n_features={math.prod(geometry.shape)})."
            )
        if self.delta == 0.0:
            raise PublicValueError(
                "delta=0 has no joint release of mean and components; pass delta > 0."
            )
        mu = gaussian_mu(terms.epsilon, terms.delta)
        ball, search = public_domain(geometry, self.center, self.radius), None
        if ball is None:
            search = search_domain(geometry, n, mu, self.center, self.radius, terms.secret_n)
        narrower = _narrower(n * mu, geometry.dim)
        # a of the joint release: with a^2 = 1/4 mean and second moment both get 1.25 times the
        # noise that they would get alone, for all of the budget.
        return plan_joint_mean(geometry, n, mu, 0.5, narrower, ball=ball, search=search).plan()

    def _expected(self, plan: Plan[JointMean], facts: Any, spread: Any) -> Expected:
        return expected_joint_mean(plan.settings, spread)

    def _release(self, data: Data, plan: Plan[JointMean], streams: NoiseStreams) -> None:
        (points,), geometry = data.arrays, plan.settings.geometry
        noise = data.facts.get("noise of n", 0.0)
        records = PointRecords(geometry, points, data.facts["n"], noise, data.groups)
        found, seen = plan.settings.release(records, streams)
        self.mean_, self.center_, self.radius_ = found.mean, found.center, found.radius
        self.noise_scale_ = found.first_noise
        # Shrinkage of the spectrum may leave no direction; those of the noisy matrix are kept.
        to_mean = coordinate_jacobian(geometry, found.center, found.step)
        noisy = to_mean @ (found.second - np.outer(found.first, found.first)) @ to_mean.T
        values, axes = np.linalg.eigh(0.5 * (noisy + noisy.T))
        values, vectors = values[::-1], axes[:, ::-1].T
        variances = np.einsum("ki,ij,kj->k", vectors, found.tangent_covariance, vectors)
        order = np.argsort(-variances, kind="stable")
        self.spectrum_ = np.maximum(variances[order], 0.0)
        self._covariance = (vectors[order].T * self.spectrum_) @ vectors[order]
        vectors = vectors[order[: self.n_components]]
        largest = np.argmax(np.abs(vectors), axis=1)
        signs = np.sign(np.take_along_axis(vectors, largest[:, None], axis=1))
        self.components_ = vectors * signs
        self.explained_variance_ = self.spectrum_[: self.n_components]
        self.frechet_variance_ = float(self.spectrum_.sum())
        along = variances_along(values, found.second_noise)[order]
        self.explained_variance_ratio_ = shares_of(along[: self.n_components], float(values.sum()))
        self.geometry_, self._flat = geometry, data.facts["flat"]
        self.clipped_fraction_ = float(np.clip(seen.clipped, 0.0, 1.0))
        search = plan.settings.search
        if not plan.settings.refines_ball and (search is None or search.radius is not None):
            cure = ball_cure(self.center, self.radius, True)
            clipped_share(seen.clipped, seen.clipped_noise, 0.0, self.radius_, cure)
