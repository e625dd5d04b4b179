"""The script that uses everything once: its own asserts are the test."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "examples" / "mission.py"


def test_the_mission(capsys):
    runpy.run_path(str(SCRIPT))["main"]()
    assert capsys.readouterr().out.count("PrivacySpent(") == 8
