"""Gradients of people who own several rows: averages, bounded after averaging."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from skriemdp._groups import Groups
from skriemdp.linear_model.glm import LinearProblem
from skriemdp.location_scale.rows import row_products

__all__ = ["CLIP_SHARE", "GroupedLinearProblem"]

# The default bound of a person's mean gradient, over the loss's bound of a row's: averages are
# short, because rows that are fitted well pull in opposite directions (docs/user_guide/people.md).
CLIP_SHARE = 0.125

# Entries of the rows that are worked on at once.
_BLOCK = 1 << 17


@dataclasses.dataclass(frozen=True, eq=False)
class GroupedLinearProblem(LinearProblem):
    """Mean over people of the mean loss of their own rows.

    Attributes
    ----------
    rows, targets, loss
        As in :class:`skriemdp.linear_model.glm.LinearProblem`.
    groups : Groups
        Of the rows.

    Notes
    -----
    A person's gradient is the mean of own rows' gradients, no outer product.  It is computed from
    own rows only, and is the same to the last bit whatever the others have and wherever it stands
    (docs/theory/groups.md).
    """

    groups: Groups

    @property
    def n(self) -> int:
        return self.groups.count

    def gradients(
        self,
        weights: np.ndarray,
        indices: np.ndarray | None = None,
        basis: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """Gradients of people, unclipped, block by block.

        Parameters
        ----------
        weights : ndarray of shape (size, n_outputs)
        indices : ndarray of int, optional
            People of a batch; all by default.
        basis : ndarray of shape (size, k), optional
            Gradients are projected on these orthonormal columns.

        Yields
        ------
        ndarray of shape (b, size * n_outputs)
            Or ``(b, k * n_outputs)``.
        """
        groups = self.groups.select(indices)
        for run in groups.runs(_BLOCK // self.rows.size):
            owned = groups.select(run)
            rows = self.rows.taken(owned.order)
            residuals = self.loss.residuals(
                row_products(rows, weights), np.asarray(self.targets)[owned.order], apart=True
            )
            if basis is not None:
                rows = row_products(rows, basis)
            means = [owned.means(rows * residuals[:, [j]]) for j in range(self.loss.n_outputs)]
            yield np.stack(means, axis=2).reshape(owned.count, -1)
