"""A site's updates in NVFlare: shortened, with exact noise, charged before they leave.

The only module that imports NVFlare (extra ``nvflare``).
"""

from __future__ import annotations

import numpy as np

from skriemdp._errors import PublicImportError, PublicValueError

try:
    from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
    from nvflare.apis.filter import ContentBlockedException, Filter
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.shareable import Shareable, make_reply
    from nvflare.app_common.app_constant import AppConstants
except ImportError as error:
    raise PublicImportError(
        "a filter for NVFlare needs NVFlare: pip install 'skriemdp[nvflare]'."
    ) from error

from typing import Any

from skriemdp.federated._round_releases import RoundBudget, UpdateRelease
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.privacy._calibration import gaussian_mu

__all__ = ["NoisyUpdates"]

# Who charges, in the ledger.
_LABEL = "NVFlare round"
# Header fields of a result that the server needs: numbers of rounds, which it sent itself.
_HEADERS = (
    AppConstants.CURRENT_ROUND,
    AppConstants.NUM_ROUNDS,
    AppConstants.START_ROUND,
    AppConstants.CONTRIBUTION_ROUND,
)


class NoisyUpdates(Filter):
    """NVFlare's filter of task results that protects a site: clip, charge, exact noise, send.

    It belongs into the site's own ``privacy.json`` for all tasks, so that no job can leave it out.
    A result that is no difference of weights does not pass: full weights, a local model that is
    asked for, metrics.  Of a difference only its noisy numbers leave, with the number of the round.

    Parameters
    ----------
    ledger : str
        File of the site's ledger; it lasts, so a restarted site goes on where it was.
    epsilon, delta : float
        Ceiling of the ledger, for everything that this site ever sends.
    round_epsilon : float
        Of one round, at the same delta.
    clip_norm : float
        Public bound of the Euclidean norm of a site's difference of weights, all layers together.

    Notes
    -----
    *Guarantee*: everything charged to the ledger, under the replacement of all records of the site.
    Names and shapes of layers are public.  An update is charged and drawn once for each result: one
    that the server asks for again is another release.

    A round over the ceiling is refused with :class:`skriemdp.BudgetExceededError` before any noise
    is drawn; the server gets NVFlare's ``TASK_RESULT_FILTER_ERROR`` and no word of it.
    """

    def __init__(
        self,
        ledger: str,
        epsilon: float,
        delta: float,
        round_epsilon: float,
        clip_norm: float,
    ):
        super().__init__()
        # NVFlare writes the configuration of a job from attributes of these names.
        self.ledger, self.epsilon, self.delta = ledger, epsilon, delta
        self.round_epsilon, self.clip_norm = round_epsilon, clip_norm
        self._update = UpdateRelease(clip_norm, gaussian_mu(round_epsilon, delta))

    def add_to_fed_job(self, job: Any, ctx: Any, **kwargs: Any) -> None:
        """Take a place in a job; only for tasks that are named.

        Raises
        ------
        ValueError
            For all tasks, which NVFlare takes for a task of the name "*": no result would be
            filtered.
        """
        if "*" in kwargs.get("tasks", ["*"]):
            raise PublicValueError(
                "NVFlare's jobs know no '*' for filters, and would send every result as it is: "
                "name the tasks, tasks=['train'], or put the filter into the site's privacy.json, "
                "which is for all tasks."
            )
        super().add_to_fed_job(job, ctx, **kwargs)

    def process(self, shareable: Any, fl_ctx: Any) -> Any:
        """Replace an update by its noisy difference, or by a failure's code and nothing else."""
        code = shareable.get_return_code()
        if code != ReturnCode.OK:
            return make_reply(code)
        weights = self._difference(shareable)
        vector = np.concatenate([np.ravel(weights[name]) for name in weights])
        noisy = self._released(vector)
        ends = np.cumsum([np.size(array) for array in weights.values()])
        parts = np.split(noisy, ends[:-1])
        shaped = {
            name: part.reshape(np.shape(array)).astype(np.asarray(array).dtype)
            for (name, array), part in zip(weights.items(), parts, strict=True)
        }
        result = DXO(DataKind.WEIGHT_DIFF, shaped, {MetaKey.NUM_STEPS_CURRENT_ROUND: 1})
        made = result.to_shareable()
        for header in _HEADERS:
            number = shareable.get_header(header)
            if isinstance(number, int):
                made.set_header(header, number)
        return made

    def _difference(self, shareable: Shareable) -> dict[str, Any]:
        try:
            dxo = from_shareable(shareable)
        except Exception:
            dxo = None
        if dxo is None or dxo.data_kind != DataKind.WEIGHT_DIFF or not dxo.data:
            raise ContentBlockedException(
                "only differences of weights leave this site: train with params_transfer_type "
                "'DIFF' (DataKind.WEIGHT_DIFF), and leave out tasks that ask for models or metrics."
            )
        for array in dxo.data.values():
            if np.asarray(array).dtype.kind != "f":
                raise ContentBlockedException(
                    "only floating-point numbers leave this site: leave counters out of the model."
                )
        return dxo.data

    def _released(self, vector: np.ndarray) -> np.ndarray:
        budget = PrivacyAccountant(self.epsilon, self.delta, path=self.ledger, unit="client")
        return RoundBudget(budget, _LABEL, "NVFlare").send(self._update, vector)
