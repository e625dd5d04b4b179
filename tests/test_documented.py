"""The picture of an estimator in a notebook links to the reference, where that has an address."""

import pytest

from skriemdp import PrivateFrechetMean, PublicTable, _documented
from skriemdp.federated import FederatedEstimator
from skriemdp.preprocessing import Recenter


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(_documented, "_site", lambda: "https://docs.example/v1")


@pytest.mark.parametrize(
    "estimator, name",
    [
        (PrivateFrechetMean(), "skriemdp.PrivateFrechetMean"),
        (PublicTable(), "skriemdp.PublicTable"),
        (Recenter(), "skriemdp.preprocessing.Recenter"),
        (FederatedEstimator(PrivateFrechetMean()), "skriemdp.federated.FederatedEstimator"),
    ],
)
def test_pictures_link_to_the_reference(site, estimator, name):
    address = f"https://docs.example/v1/api/generated/{name}.html"
    assert f'href="{address}"' in estimator._repr_html_()


def test_without_an_address_there_is_no_link(monkeypatch):
    monkeypatch.setattr(_documented, "_site", str)
    text = PrivateFrechetMean()._repr_html_()
    assert "PrivateFrechetMean" in text and "generated" not in text


def test_the_address_is_that_of_the_release(monkeypatch):
    class Metadata:
        def get_all(self, name):
            return ["Source, https://code.example/x", "Documentation, https://docs.example/"]

    monkeypatch.setattr("importlib.metadata.metadata", lambda name: Metadata())
    _documented._site.cache_clear()
    assert _documented._site() == "https://docs.example"
    _documented._site.cache_clear()
