"""What a site of the example runs in NVFlare: steps towards the mean of its own numbers."""

from __future__ import annotations

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.executor import Executor


class TowardsTheMean(Executor):
    """Answers a model by the difference between the mean of own numbers and it."""

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        model = from_shareable(shareable).data
        site = int(fl_ctx.get_identity_name().rsplit("-", 1)[-1])
        own = np.random.default_rng(site).normal(0.2, 0.1, size=(200, 3)).mean(axis=0)
        difference = {name: own - np.asarray(array) for name, array in model.items()}
        return DXO(DataKind.WEIGHT_DIFF, difference).to_shareable()
