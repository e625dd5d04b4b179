"""Decoders in MOABB: people as units, new people recentred, refusals; MOABB itself where it is."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skriemdp import PrivateFrechetMean, PrivateMinimumDistanceToMean, PrivateTangentClassifier
from skriemdp.datasets import make_people
from skriemdp.moabb import SubjectDecoder
from skriemdp.preprocessing import PerGroup, Recenter

X, Y, PERSON = make_people(90, 8, 3, rng=np.random.default_rng(0))
NEW, NEW_Y, NEW_PERSON = make_people(6, 12, 3, rng=np.random.default_rng(1))
MEANS = PrivateMinimumDistanceToMean("spd", classes=[0, 1], epsilon=3.0, random_state=0)
EXAMPLE = Path(__file__).parents[1] / "examples" / "moabb_people.py"


@pytest.fixture
def decoder(recording_accountant):
    return SubjectDecoder(clone(MEANS).set_params(accountant=recording_accountant))


@pytest.mark.parametrize("subjects", [[[]], [math.inf] * len(X), [None] * len(X)])
def test_subjects_that_cannot_be_read_are_refused(decoder, subjects, recording_accountant):
    with pytest.raises(ValueError, match="^subjects "):
        decoder.fit(X, Y, subjects=subjects)
    assert not recording_accountant.spends


def test_subjects_are_the_units(decoder, recording_accountant):
    decoder.fit(X, Y, subjects=PERSON)
    assert decoder.privacy_spent_.unit == "group" and decoder.n_subjects_ == 90
    assert len(recording_accountant.spends) == 1
    by_hand = PerGroup(Recenter("spd"), clone(MEANS)).fit(X, Y, groups=PERSON)
    for person in np.unique(NEW_PERSON):
        own = NEW[NEW_PERSON == person]
        expected = by_hand.predict_proba(own, groups=np.zeros(len(own)))
        assert np.array_equal(decoder.predict_proba(own), expected)
    # Several people are told apart where they are named.
    assert np.array_equal(
        decoder.predict(NEW, groups=NEW_PERSON), by_hand.predict(NEW, groups=NEW_PERSON)
    )


def test_trials_without_labels_recentre_single_ones(decoder):
    own, labels = NEW[NEW_PERSON == 0], NEW_Y[NEW_PERSON == 0]
    decoder.fit(X, Y, subjects=PERSON, X_target_unlabeled=own)
    whole = decoder.predict(own)
    assert np.array_equal(
        np.concatenate([decoder.predict(own[i : i + 1]) for i in range(12)]), whole
    )
    assert np.array_equal(whole, clone(decoder).fit(X, Y, subjects=PERSON).predict(own))
    assert decoder.score(own, labels) == np.mean(whole == labels)


def test_routing_finds_what_is_asked_for(decoder):
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(FunctionTransformer(), decoder, transform_input=["X_target_unlabeled"])
        from sklearn.utils.metadata_routing import get_routing_for_object

        offered = {"subjects", "X_target_unlabeled", "X_target_labeled", "y_target_labeled"}
        asked = get_routing_for_object(pipe).consumes("fit", offered)
        assert set(asked) == {"subjects", "X_target_unlabeled"}
        pipe.fit(X, Y, subjects=PERSON, X_target_unlabeled=NEW[:12])
        assert pipe[-1].target_ is not None and pipe.predict(NEW[:12]).shape == (12,)


def averaged(points):
    """As after an average reference: of rank below the channels."""
    reference = np.eye(3) - 1.0 / 3.0
    return reference @ points @ reference


@pytest.mark.parametrize(
    ("bad", "cure", "words"),
    [
        ({"subjects": None}, {"subjects": PERSON}, "CrossSubjectEvaluation"),
        ({"subjects": np.zeros(len(X))}, {"subjects": PERSON}, "one person"),
        ({"subjects": PERSON[:5]}, {"subjects": PERSON}, "subjects"),
        ({"X": averaged(X)}, {"X": averaged(X) + 0.01 * np.eye(3)}, "average reference"),
        (
            {"X_target_unlabeled": averaged(NEW)},
            {"X_target_unlabeled": NEW},
            "average reference",
        ),
    ],
    ids=["missing", "train and test", "too few", "rank", "rank of the target"],
)
def test_refusals_have_cures_and_spend_nothing(bad, cure, words, decoder, recording_accountant):
    given = {"X": X, "y": Y, "subjects": PERSON}
    with pytest.raises(ValueError, match=words):
        decoder.fit(**given | bad)
    assert recording_accountant.spends == [] and not hasattr(decoder, "estimator_")
    decoder.fit(**given | cure)
    assert len(recording_accountant.spends) == 1


def test_a_single_trial_is_refused_with_cures_that_work(decoder):
    decoder.fit(X, Y, subjects=PERSON)
    with pytest.raises(ValueError, match="single trial of a new person"):
        decoder.predict(NEW[:1])
    with pytest.raises(ValueError, match="average reference"):
        decoder.predict(averaged(NEW))
    assert decoder.predict(NEW[:2]).shape == (2,)


def test_other_transformers_and_none():
    with pytest.raises(ValueError, match="transformer"):
        SubjectDecoder(MEANS, "center").fit(X, Y, subjects=PERSON)
    rows, new = X.reshape(len(X), -1), NEW.reshape(len(NEW), -1)
    plain = PrivateMinimumDistanceToMean(classes=[0, 1], radius=4.0, random_state=0)
    scaled = SubjectDecoder(plain, StandardScaler(with_std=False))
    assert scaled.fit(rows, Y, subjects=PERSON).predict(new[:1]).shape == (1,)
    as_is = SubjectDecoder(PrivateTangentClassifier("spd", classes=[0, 1]), None)
    assert as_is.fit(X, Y, subjects=PERSON).predict(NEW[:1]).shape == (1,)
    assert not isinstance(as_is.estimator_, PerGroup)
    with pytest.raises(AttributeError):
        SubjectDecoder(PrivateFrechetMean("spd")).predict_proba(NEW)


def _example():
    spec = importlib.util.spec_from_file_location("moabb_people", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["moabb_people"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["train", "train_and_target_unlabeled_full"])
def test_moabb_evaluates_all_new_people(mode):
    pytest.importorskip("moabb", reason="the extra 'moabb' is not installed")
    results = _example().evaluate(4, 3.0, mode, random_state=0)
    counts = results.groupby("pipeline")["score"].count()
    assert len(counts) == 3 and (counts == 4).all()
    assert results["score"].between(0.0, 1.0).all()
