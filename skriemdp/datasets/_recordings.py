"""Real recordings of brains, read from a copy that the user names, checked, and kept in a cache."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from skriemdp._errors import PublicFileNotFoundError, PublicValueError
from skriemdp.datasets._home import data_home_of

# Of the numbers, whatever files they came in: person by person, trial by trial.
_DIGEST = "2424e85df5c366a789cbc9477f57c70400494be93e5a0759b091e760abd13662"
_CHANNELS, _SAMPLES, _TRIALS = 64, 256, 924
_COLUMNS = ("trial number", "sensor position", "sample num", "sensor value", "matching condition")
_FILE = "eeg-database-1.npz"
_DESCRIPTION = """EEG Database: trials of one second, 64 electrodes, 256 samples, microvolts.

Sixteen people look at pictures; eight of them are in treatment for alcoholism.  A subset of the
data set of Henri Begleiter, Neurodynamics Laboratory, State University of New York Health Center,
Brooklyn (UCI Machine Learning Repository, data set 121, doi 10.24432/C5TS3D), under the licence
Creative Commons Attribution 4.0.  The files that go by the name of training and test set share 24
trials; each is here once.  Channels "X" and "Y" are the eyes', "nd" is no electrode of the head.
"""


class _Trial(NamedTuple):
    person: str
    number: int
    condition: str
    channels: tuple[str, ...]
    values: np.ndarray  # thousandths of microvolts


def fetch_eeg(
    source: str | os.PathLike[str] | None = None, *, data_home: str | os.PathLike[str] | None = None
) -> Bunch:
    """Load 924 recorded trials of 16 people, from the cache or, the first time, from `source`.

    Nothing is asked of the network unless `source` is an address.

    Parameters
    ----------
    source : path or str, optional
        A folder, a zip archive, or the address of one, that holds the 948 files ``Data*.csv`` of
        the folders ``SMNI_CMI_TRAIN`` and ``SMNI_CMI_TEST``, as public copies of the data set have
        them.  Needed where the cache has no trials yet.
    data_home : path, optional
        Folder of the cache; by default the environment variable ``SKRIEMDP_DATA``, else
        scikit-learn's data home.

    Returns
    -------
    sklearn.utils.Bunch
        ``signals`` of shape (924, 64, 256), microvolts; ``target`` (1: in treatment for
        alcoholism), ``person``, ``trial``, ``condition`` of shape (924,); ``channels``, 64 names;
        ``license`` and ``DESCR``.

    Raises
    ------
    FileNotFoundError
        Where there is neither a cache nor a source.
    ValueError
        Where the source holds other numbers than these, by their SHA-256 digest.
    """
    folder = data_home_of(data_home)
    kept = folder / _FILE
    if not kept.exists():
        if source is None:
            raise PublicFileNotFoundError(
                f"{kept} does not exist: download the CSV files of UCI's data set 121 (EEG "
                "Database, CC BY 4.0), and pass source=, their folder or archive, once."
            )
        trials = _distinct(_read(source))
        folder.mkdir(parents=True, exist_ok=True)
        _keep(kept, trials)
    with np.load(kept) as stored:
        values, person = stored["values"], stored["person"]
        if _digest(values, person, stored["trial"]) != _DIGEST:
            raise PublicValueError(f"{kept} was changed; delete it and pass source= again.")
        return Bunch(
            signals=values / 1000.0,
            target=np.array([name[3] == "a" for name in person.tolist()], dtype=int),
            person=person,
            trial=stored["trial"],
            condition=stored["condition"],
            channels=tuple(stored["channels"].tolist()),
            license="CC BY 4.0",
            DESCR=_DESCRIPTION,
        )


def _read(source: str | os.PathLike[str]) -> Iterator[_Trial]:
    address = os.fspath(source)
    if "://" in address:
        with tempfile.TemporaryFile() as file:
            with urllib.request.urlopen(address) as answer:
                shutil.copyfileobj(answer, file)
            yield from _of_archive(file)
    elif Path(address).is_dir():
        for path in sorted(Path(address).rglob("Data*.csv")):
            yield _trial(path.read_text())
    else:
        yield from _of_archive(address)


def _of_archive(file: Any) -> Iterator[_Trial]:
    if not zipfile.is_zipfile(file) and (not isinstance(file, str) or Path(file).exists()):
        raise PublicValueError("source is no zip file; pass one, or a folder with its CSV files.")
    with zipfile.ZipFile(file) as archive:
        for name in sorted(archive.namelist()):
            if Path(name).match("Data*.csv"):
                yield _trial(archive.read(name).decode())


def _trial(text: str) -> _Trial:
    """One file: a row for each sample of each channel, channel by channel."""
    header, *lines = text.splitlines()
    names = header.split(",")
    try:
        at = [names.index(column) for column in (*_COLUMNS, "channel", "name")]
        wanted = [at[2], at[3], at[5]]
        table = np.loadtxt(lines, delimiter=",", quotechar='"', usecols=wanted)
        samples, values, channels = table.T.reshape(3, _CHANNELS, _SAMPLES)
        if (samples != np.arange(_SAMPLES)).any() or (channels.T != np.arange(_CHANNELS)).any():
            raise PublicValueError
    except ValueError:
        raise PublicValueError(
            "source: a file Data*.csv is no trial of 64 channels and 256 samples, channel by "
            "channel; pass an unchanged copy of UCI's data set 121 as CSV files."
        ) from None
    rows = list(csv.reader(lines[::_SAMPLES]))
    first, places = rows[0], tuple(row[at[1]] for row in rows)
    condition = first[at[4]].rstrip(",")
    whole = np.rint(1000.0 * values).astype(np.int32)
    return _Trial(first[at[6]], int(first[at[0]]), condition, places, whole)


def _distinct(trials: Iterator[_Trial]) -> list[_Trial]:
    found = {(trial.person, trial.number): trial for trial in trials}
    return [found[key] for key in sorted(found)]


def _digest(values: np.ndarray, person: np.ndarray, trial: np.ndarray) -> str:
    state = hashlib.sha256(np.ascontiguousarray(values, dtype="<i4").tobytes())
    state.update(repr((person.tolist(), trial.tolist())).encode())
    return state.hexdigest()


def _keep(file: Path, trials: list[_Trial]) -> None:
    """Write the cache, whole or not at all; only what has the right digest."""
    if len(trials) == _TRIALS and len({trial.channels for trial in trials}) == 1:
        values = np.stack([trial.values for trial in trials])
        person = np.array([trial.person for trial in trials])
        number = np.array([trial.number for trial in trials])
        if _digest(values, person, number) == _DIGEST:
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as made:
                np.savez_compressed(
                    made,
                    values=values,
                    person=person,
                    trial=number,
                    condition=np.array([trial.condition for trial in trials]),
                    channels=np.array(trials[0].channels),
                )
            os.replace(made.name, file)
            return
    raise PublicValueError(
        f"source holds {len(trials)} different trials or other numbers than the {_TRIALS} of the "
        "published subset; pass an unchanged copy, with both folders."
    )
