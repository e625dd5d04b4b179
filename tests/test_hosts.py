"""Other packages, run as their own documentation runs them, with the person as the unit."""

import importlib.util
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "tools" / "hosts.py"
SPEC = importlib.util.spec_from_file_location("hosts", PLACE)
hosts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hosts)

# What a person can be there: nobody protects less without saying so.
PEOPLE = {"person", "client", "site", "row; people are refused"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("host", hosts.HOSTS, ids=lambda host: host.package)
def test_a_host_runs_by_its_own_idiom(host):
    if hosts.installed(host) is None:
        pytest.skip(f"{host.package} is not installed (make test-hosts)")
    if not hosts.imports(host):
        pytest.skip(f"{host.package} cannot be imported beside the others")
    assert host.run() in PEOPLE


def test_the_page_has_a_row_for_each_host_and_none_fails():
    text = (PLACE.parents[1] / "docs" / "hosts.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    cells = {row.split("|")[1].strip(): row.split("|")[4].strip() for row in rows}
    assert set(cells) == {host.package for host in hosts.HOSTS}
    assert set(cells.values()) <= PEOPLE | {
        "not installed here",
        "cannot be imported beside the others",
    }
