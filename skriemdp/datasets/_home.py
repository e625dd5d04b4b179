"""The folder for data sets that are too large, or not ours, to be part of the package."""

from __future__ import annotations

import os
from pathlib import Path


def data_home_of(given: str | os.PathLike[str] | None) -> Path:
    """The folder `given`, else that of the environment, else scikit-learn's."""
    if not (home := given or os.environ.get("SKRIEMDP_DATA")):
        from sklearn.datasets import get_data_home  # loads half of scikit-learn

        home = get_data_home()
    return Path(home)
