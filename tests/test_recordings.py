"""The loader of recordings: the same numbers from folder, archive and address, or a refusal."""

import os
import zipfile

import numpy as np
import pytest

from skriemdp.datasets import _recordings as recordings
from skriemdp.datasets import fetch_eeg

HEADER = (
    ",trial number,sensor position,sample num,sensor value,subject identifier,"
    "matching condition,channel,name,time"
)


def written(person, number, seed=0):
    """The text of one trial, as public copies have it."""
    values = np.random.default_rng(seed + number).integers(-9999, 9999, size=(64, 256)) / 1000.0
    lines = [HEADER] + [
        f'5,{number},C{channel},{sample},{value:.3f},a,"S2 nomatch,",{channel},{person},0.0'
        for channel, row in enumerate(values)
        for sample, value in enumerate(row)
    ]
    return "\n".join(lines), values


TRIALS = [("co2a0000364", 3), ("co2c0000337", 1), ("co2a0000364", 0)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three trials, one of them twice; the loader is told that these are all."""
    source = tmp_path / "copy"
    for part, trials in (("SMNI_CMI_TRAIN/Train", TRIALS), ("SMNI_CMI_TEST/Test", TRIALS[:1])):
        (source / part).mkdir(parents=True)
        for at, trial in enumerate(trials):
            (source / part / f"Data{at}.csv").write_text(written(*trial)[0])
    found = recordings._distinct(recordings._read(source))
    known = [np.stack([t.values for t in found])]
    known += [np.array([t.person for t in found]), np.array([t.number for t in found])]
    monkeypatch.setattr(recordings, "_TRIALS", 3)
    monkeypatch.setattr(recordings, "_DIGEST", recordings._digest(*known))
    return source


def test_each_trial_is_there_once_and_is_kept(folder, tmp_path):
    home = tmp_path / "home"
    eeg = fetch_eeg(folder, data_home=home)
    assert eeg.signals.shape == (3, 64, 256) and eeg.trial.tolist() == [0, 3, 1]
    assert eeg.person.tolist() == ["co2a0000364"] * 2 + ["co2c0000337"]
    assert eeg.target.tolist() == [1, 1, 0] and set(eeg.condition) == {"S2 nomatch"}
    np.testing.assert_allclose(eeg.signals[1], written("", 3)[1], atol=1e-12)
    assert eeg.channels[5] == "C5" and eeg.license == "CC BY 4.0" and "Begleiter" in eeg.DESCR
    again = fetch_eeg(data_home=home)  # from the cache
    np.testing.assert_array_equal(again.signals, eeg.signals)
    assert [path.suffix for path in home.iterdir()] == [".npz"]


def test_archives_and_addresses_hold_the_same(folder, tmp_path):
    archive = tmp_path / "copy.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for path in folder.rglob("*.csv"):
            made.write(path, path.relative_to(folder))
    expected = fetch_eeg(folder, data_home=tmp_path / "a")
    for place, source in (("b", archive), ("c", archive.as_uri())):
        found = fetch_eeg(source, data_home=tmp_path / place)
        np.testing.assert_array_equal(found.signals, expected.signals)


def test_without_a_copy_the_sentence_says_where_one_is(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="UCI's data set 121"):
        fetch_eeg(data_home=tmp_path / "home")
    fetch_eeg(folder, data_home=tmp_path / "home")  # the cure


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Data7.csv", written("co2a0000364", 8)[0]),
        ("Data0.csv", written("co2a0000364", 3, seed=1)[0]),
        ("Data0.csv", written("co2a0000364", 3)[0][:-2000]),
        ("Data0.csv", "a,b\n1,2"),
        ("Data0.csv", written("co2a0000364", 3)[0].replace("sensor value", "value")),
    ],
    ids=["one more", "others", "cut", "no trial", "no column"],
)
def test_other_numbers_are_refused_and_not_kept(name, text, folder, tmp_path):
    for part in ("SMNI_CMI_TRAIN/Train", "SMNI_CMI_TEST/Test"):
        (folder / part / name).write_text(text)
    with pytest.raises(ValueError, match="unchanged copy"):
        fetch_eeg(folder, data_home=tmp_path / "home")
    assert list((tmp_path / "home").glob("*")) == []


def test_a_changed_cache_is_refused(folder, tmp_path):
    fetch_eeg(folder, data_home=tmp_path)
    kept = tmp_path / recordings._FILE
    with np.load(kept) as stored:
        arrays = dict(stored)
    arrays["values"][0, 0, 0] += 1
    np.savez_compressed(kept, **arrays)
    with pytest.raises(ValueError, match="delete it"):
        fetch_eeg(data_home=tmp_path)


def test_the_published_recordings():
    """Where a copy is at hand: SKRIEMDP_EEG names it."""
    source = os.environ.get("SKRIEMDP_EEG")
    try:
        eeg = fetch_eeg(source)
    except FileNotFoundError as reason:
        pytest.skip(str(reason))
    assert eeg.signals.shape == (924, 64, 256) and len(set(eeg.person)) == 16
    assert eeg.target.sum() == 468 and np.abs(eeg.signals).max() == 453.847
