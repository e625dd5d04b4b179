"""The filter of NVFlare's results: what leaves a site, what is blocked, and whole jobs."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="the extra 'nvflare' is not installed")

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable  # noqa: E402
from nvflare.apis.filter import ContentBlockedException  # noqa: E402
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode  # noqa: E402
from nvflare.apis.fl_context import FLContext  # noqa: E402
from nvflare.apis.shareable import Shareable, make_reply  # noqa: E402
from nvflare.apis.utils.task_utils import apply_filters  # noqa: E402
from nvflare.apis.workspace import Workspace  # noqa: E402
from nvflare.app_common.app_constant import AppConstants  # noqa: E402
from nvflare.job_config.api import FedJob  # noqa: E402
from nvflare.job_config.defs import FilterType  # noqa: E402
from nvflare.private.fed.app.fl_conf import create_privacy_manager  # noqa: E402
from nvflare.private.privacy_manager import Scope  # noqa: E402

from skriemdp import BudgetExceededError, PrivacyAccountant  # noqa: E402
from skriemdp.federated.nvflare import NoisyUpdates  # noqa: E402

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "deployment" / "nvflare_rounds.py"
SETTINGS = {"epsilon": 3.0, "delta": 1e-5, "round_epsilon": 1.0, "clip_norm": 1.0}


@pytest.fixture
def door(tmp_path):
    return NoisyUpdates(str(tmp_path / "site.ledger"), **SETTINGS)


def result(**arrays):
    made = DXO(DataKind.WEIGHT_DIFF, arrays, {MetaKey.NUM_STEPS_CURRENT_ROUND: 917, "auc": 0.8})
    shareable = made.to_shareable()
    shareable.set_header(AppConstants.CURRENT_ROUND, 3)
    shareable.set_header("patients", 917)
    shareable["notes"] = "917 patients"
    return shareable


def history(door):
    return PrivacyAccountant(path=door.ledger).history if Path(door.ledger).exists() else []


def test_noisy_numbers_leave_and_nothing_else(door):
    weights = {"a": np.full((2, 3), 1e6), "b": np.zeros(3, dtype=np.float32)}
    left = door.process(result(**weights), None)
    assert "917" not in repr(left) and "auc" not in repr(left)
    assert left.get_header(AppConstants.CURRENT_ROUND) == 3
    dxo = from_shareable(left)
    assert dxo.data_kind == DataKind.WEIGHT_DIFF
    assert {n: (a.shape, a.dtype) for n, a in dxo.data.items()} == {
        n: (a.shape, a.dtype) for n, a in weights.items()
    }
    assert np.abs(dxo.data["a"]).max() < 1e3  # clipped to a norm of 1; noise of about 7.5
    assert (dxo.data["b"] != 0.0).all() and len(history(door)) == 1


def test_a_failure_says_nothing_but_its_code(door):
    failed = result(a=np.ones(2))
    failed.set_return_code(ReturnCode.EXECUTION_EXCEPTION)
    left = door.process(failed, None)
    assert left.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert "917" not in repr(left) and "DXO" not in left and history(door) == []


@pytest.mark.parametrize(
    "shareable",
    [
        DXO(DataKind.WEIGHTS, {"a": np.ones(2)}).to_shareable(),
        DXO(DataKind.METRICS, {"auc": 0.8}).to_shareable(),
        DXO(
            DataKind.COLLECTION,
            {
                "w": DXO(DataKind.WEIGHT_DIFF, {"a": np.ones(2)}),
                "m": DXO(DataKind.METRICS, {"auc": 0.8}),
            },
        ).to_shareable(),
        DXO(DataKind.WEIGHT_DIFF, {}).to_shareable(),
        DXO(DataKind.WEIGHT_DIFF, {"seen": np.array([917])}).to_shareable(),
        Shareable({"rows": [1.0, 2.0]}),
        make_reply(ReturnCode.OK),
    ],
    ids=["weights", "metrics", "both", "empty", "counter", "rows", "nothing"],
)
def test_everything_else_is_blocked_and_costs_nothing(shareable, door):
    with pytest.raises(ContentBlockedException, match="leave this site"):
        door.process(shareable, None)
    assert history(door) == []
    door.process(result(a=np.ones(2)), None)  # the cure
    assert len(history(door)) == 1


def test_rounds_over_the_ceiling_are_refused_also_after_a_restart(door):
    with pytest.raises(BudgetExceededError):
        for _ in range(100):
            door.process(result(a=np.ones(2)), None)
    charged = len(history(door))
    with pytest.raises(BudgetExceededError):
        NoisyUpdates(door.ledger, **SETTINGS).process(result(a=np.ones(2)), None)
    assert len(history(door)) == charged > 3


def test_jobs_must_name_their_tasks(door):
    job = FedJob("job")
    for tasks in ({}, {"tasks": ["*"]}, {"tasks": ["train", "*"]}):
        with pytest.raises(ValueError, match="know no '\\*'"):
            job.to(door, "site-1", filter_type=FilterType.TASK_RESULT, **tasks)
    job.to(door, "site-1", filter_type=FilterType.TASK_RESULT, tasks=["train"])


def test_the_policy_of_the_guide_is_for_all_tasks(tmp_path):
    """As a site reads it: every result goes through the filter, whatever the task is called."""
    text = (ROOT / "docs/user_guide/nvflare.md").read_text(encoding="utf-8")
    (policy,) = re.findall(r"^```json\n(.*?)^```", text, flags=re.M | re.S)
    for folder in ("startup", "local"):
        (tmp_path / folder).mkdir()
    site = tmp_path / "local" / "privacy.json"
    site.write_text(policy.replace("/srv/site.ledger", str(tmp_path / "site.ledger")))
    manager = create_privacy_manager(Workspace(str(tmp_path), "site-1"), names_only=False)
    context = FLContext()
    context.set_prop(FLContextKey.SCOPE_OBJECT, manager.default_scope)
    for task in ("train", "anything"):
        left = apply_filters(
            Scope.TASK_RESULT_FILTERS_NAME, result(a=np.ones(2)), context, {}, task, FilterKey.OUT
        )
        assert (from_shareable(left).data["a"] != 1.0).all()
    assert len(PrivacyAccountant(path=tmp_path / "site.ledger").history) == 2


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_job_in_the_simulator_and_its_restart(tmp_path):
    """Two rounds, then a job of six: each site refuses the round over its ceiling."""
    found = []
    for rounds in ("2", "6"):
        command = [sys.executable, str(EXAMPLE), "--rounds", rounds, "--workspace", str(tmp_path)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert run.returncode == 0, run.stderr[-2000:]
        found.append([line for line in run.stdout.splitlines() if "rounds charged" in line])
        said = run.stdout + run.stderr
    assert [line.split(":")[1].split()[0] for line in found[0]] == ["2"] * 3
    assert [line.split(":")[1].split()[0] for line in found[1]] == ["3"] * 3
    assert "TASK_RESULT_FILTER_ERROR" in said
    for site in ("site-1", "site-2", "site-3"):
        assert PrivacyAccountant(path=tmp_path / f"{site}.ledger").spent.epsilon <= 2.0
