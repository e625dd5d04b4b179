"""Decoders in MOABB's evaluation of new people, with the person as the unit of privacy.

    pip install 'skriemdp[moabb]'
    python examples/moabb_people.py              # two minutes; also --people 20 --epsilon 3

MOABB's ``CrossSubjectEvaluation`` hands over who gave each trial, and ``SubjectDecoder`` makes that
the unit of privacy.  The recordings are MOABB's ``FakeDataset`` with a rhythm: imagining a hand
makes the other side of the head quieter, and everybody mixes sources in a way of their own.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings

import mne
import numpy as np
from moabb.datasets.fake import FakeDataset
from moabb.evaluations import CrossSubjectEvaluation
from moabb.paradigms import LeftRightImagery
from moabb.utils import set_log_level
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from sklearn.pipeline import make_pipeline

from skriemdp import PrivateMinimumDistanceToMean, PrivateTangentClassifier
from skriemdp.moabb import SubjectDecoder


class Hands(FakeDataset):
    """MOABB's made-up recordings, in which classes differ."""

    def __init__(self, n_people: int):
        super().__init__(
            event_list=("left_hand", "right_hand"),
            n_sessions=1,
            n_runs=1,
            n_subjects=n_people,
            n_events=24,
            duration=100,
            seed=1,
        )

    def _generate_raw(self, n_events, duration):
        raw = super()._generate_raw(n_events, duration)
        signals = raw.get_data()
        length = int(self.interval[1] * self.sfreq)
        (starts,) = np.nonzero(signals[-1])
        for at, hand in zip(starts, signals[-1, starts], strict=True):
            quiet = 2 if hand == 1 else 0  # C4 for the left hand, C3 for the right
            signals[quiet, at : at + length] *= 0.93
        mixing = np.eye(3) + 0.3 * np.random.randn(3, 3)  # MOABB seeds it for each person
        signals[:3] = mixing @ signals[:3]
        return mne.io.RawArray(signals, raw.info, verbose=False)


def pipelines(epsilon, **settings):
    private = {"manifold": "spd", "classes": [0, 1], "epsilon": epsilon} | settings
    decoders = {
        "class means": PrivateMinimumDistanceToMean(**private),
        "tangent": PrivateTangentClassifier(**private),
    }
    return {"MDM, no privacy": make_pipeline(Covariances("oas"), MDM())} | {
        f"{name}, epsilon = {epsilon:g}": make_pipeline(
            # A part of a new person's trials without labels goes through the same covariances.
            Covariances("oas"),
            SubjectDecoder(decoder),
            transform_input=["X_target_unlabeled"],
        )
        for name, decoder in decoders.items()
    }


def evaluate(n_people, epsilon, cs_mode="train", **settings):
    """MOABB's results, one row for each new person and pipeline."""
    set_log_level("error")
    mne.set_log_level("error")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = CrossSubjectEvaluation(
            paradigm=LeftRightImagery(),
            datasets=[Hands(n_people)],
            hdf5_path=folder,
            overwrite=True,
            cs_mode=cs_mode,
        )
        return evaluation.process(pipelines(epsilon, **settings))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--epsilon", type=float, default=3.0)
    args = parser.parse_args()
    results = evaluate(args.people, args.epsilon)
    scores = results.groupby("pipeline")["score"]
    print(f"area under the ROC curve, {args.people} new people in turn")
    print(scores.agg(["mean", "sem", "count"]).round(3))


if __name__ == "__main__":
    main()
