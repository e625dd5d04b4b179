"""Decoders for MOABB's evaluations, with the person as the unit of privacy (extra ``moabb``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags

from skriemdp._core.manifold_input import CHECKS
from skriemdp._errors import PublicValueError
from skriemdp._groups import read_groups
from skriemdp._quiet import read_array
from skriemdp._validation import check_option
from skriemdp.preprocessing import AsksForRows, PerGroup, Recenter

__all__ = ["SubjectDecoder"]


class SubjectDecoder(ClassifierMixin, AsksForRows):
    """A private decoder whose records are MOABB's subjects, each recentred by own trials.

    MOABB's ``CrossSubjectEvaluation`` hands ``subjects`` of the training trials to a step that asks
    for them, and to `predict` the trials of one new person at a time.  A private estimator alone
    would be fitted without ``subjects``, and protect single trials.

    Parameters
    ----------
    estimator : estimator
        A private classifier whose `fit` takes `groups`.
    transformer : transformer or None, default="recenter"
        Of each person's own trials, as in :class:`skriemdp.preprocessing.PerGroup`.  "recenter":
        ``Recenter(estimator.manifold)``.  None: trials stay as they are.

    Attributes
    ----------
    estimator_ : estimator
        The fitted private classifier, or :class:`skriemdp.preprocessing.PerGroup` around it.
    target_ : transformer or None
        Fitted on ``X_target_unlabeled``, where it was given: on trials of the person that the model
        is for, without privacy for that person.
    classes_ : ndarray
    n_subjects_ : int
        Of the training trials; public.
    privacy_spent_ : PrivacySpent
        Per person.

    Notes
    -----
    *Guarantee*: that of `estimator`, under replacement of all trials of one person who trains the
    model; the ids are public.  `predict` is not private for the person who asks.

    Nothing of MOABB is imported: any pipeline whose metadata are routed may hold this step.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateMinimumDistanceToMean
    >>> from skriemdp.datasets import make_people
    >>> from skriemdp.moabb import SubjectDecoder
    >>> X, y, person = make_people(100, 10, 3, rng=np.random.default_rng(0))
    >>> decoder = SubjectDecoder(PrivateMinimumDistanceToMean("spd", classes=[0, 1], epsilon=3.0))
    >>> decoder.fit(X, y, subjects=person).privacy_spent_.unit
    'group'
    >>> X_new, _, _ = make_people(2, 10, 3, rng=np.random.default_rng(1))
    >>> decoder.predict(X_new[:10]).shape  # the trials of one new person
    (10,)
    """

    __metadata_request__fit = {"subjects": True, "X_target_unlabeled": True}

    def __init__(self, estimator: BaseEstimator, transformer: Any = "recenter"):
        self.estimator = estimator
        self.transformer = transformer

    def fit(
        self, X: Any, y: Any, subjects: Any = None, X_target_unlabeled: Any = None
    ) -> SubjectDecoder:
        """Fit with people as the unit.

        Parameters
        ----------
        X : array-like of shape (n, ...)
        y : array-like of shape (n,)
        subjects : array-like of shape (n,)
            Who gave each trial; required.
        X_target_unlabeled : array-like of shape (m, ...), optional
            Trials of the person whom `predict` will be asked about: they are recentred by these,
            and not by what `predict` is given.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Without `subjects`, or where they are one person; before anything is charged.
        """
        if subjects is None:
            raise PublicValueError(
                "subjects says who gave each trial, and is missing: MOABB hands it over in "
                "CrossSubjectEvaluation only, so evaluate with that, or pass fit(X, y, subjects=)."
            )
        ids = np.asarray(subjects)
        owned = read_groups(ids, len(ids), "subjects", least=1)
        if owned.count < 2:
            raise PublicValueError(
                "subjects is one person, who would train and test the model, and protecting whom "
                "leaves nothing to learn: evaluate across people, with CrossSubjectEvaluation."
            )
        transformer, target = self._transformer(), None
        if X_target_unlabeled is not None and transformer is not None:
            target = clone(transformer).fit(X_target_unlabeled)
        model: Any = clone(self.estimator)
        model = model if transformer is None else PerGroup(transformer, model)
        self.estimator_ = model.fit(X, y, groups=subjects)
        self.target_, self.n_subjects_ = target, int(owned.count)
        self.privacy_spent_ = model.privacy_spent_
        return self

    def _transformer(self) -> Any:
        if not isinstance(self.transformer, str):
            return self.transformer
        check_option(("recenter",), transformer=self.transformer)
        return Recenter(getattr(self.estimator, "manifold", "spd"))

    @property
    def _answering(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    def _queried(self, X: Any, groups: Any) -> tuple[Any, Any, dict[str, Any]]:
        """The private model and recentred rows: of one person, unless `groups` says otherwise."""
        model = self.estimator_
        if not isinstance(model, PerGroup):
            return model, X, {}
        if self.target_ is not None:
            return model.estimator_, self.target_.transform(X), {}
        X = read_array(X, "X", **CHECKS)
        if len(X) == 1 and type(model.transformer) is Recenter:
            raise PublicValueError(
                "a single trial of a new person is its own mean, so recentring leaves nothing of "
                "it: predict several trials together, or give fit some without labels "
                "(X_target_unlabeled; MOABB's cs_mode='train_and_target_unlabeled_20p')."
            )
        return model, X, {"groups": np.zeros(len(X), dtype=int) if groups is None else groups}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
