"""The server's side of a secure sum: who attends, then what they add; it lasts on disk."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skriemdp._errors import PublicRuntimeError
from skriemdp.federated._agreement import Agreement
from skriemdp.federated._attendance import (
    Attempt,
    Attendance,
    Listed,
    answered,
    bytes_of,
    checked_list,
    request,
    unmasked,
    words_of,
)
from skriemdp.federated._cohort import Cohort
from skriemdp.federated._loop import check_checkpoint, check_transport
from skriemdp.federated._masks import KEY_BYTES, pair_keys
from skriemdp.federated._messages import RefusedUpdate, check_release_name
from skriemdp.federated._shares import Shares
from skriemdp.federated._sums import Uploads


class Relay(Protocol):
    """Transport of bytes to clients."""

    def relay(self, messages: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
        """Pairs (client, answer) of some clients in any order, as the transport knows them."""


@dataclass(frozen=True)
class CohortLoop:
    """The server of a secure sum: asks who takes part, shows the list, adds what comes back.

    Parameters
    ----------
    cohort : Cohort
        As at the clients.
    agreement : Agreement
        Of :func:`skriemdp.federated.sums_agreement`.

    Notes
    -----
    *Experimental*: nobody outside the project has reviewed the protocol yet.

    Who does not attend is not in the sum, and costs nothing.  Who attends and does not add makes
    the attempt void, which everybody else has paid for; the next one is a new release.  So any one
    client can cost all others as many charges as there are attempts, and cannot be found out.
    """

    cohort: Cohort
    agreement: Agreement

    def run(
        self, transport: Relay, start: Any, fit_id: str, checkpoint: Any = None
    ) -> tuple[Uploads, list[RefusedUpdate]]:
        """All attempts that it takes.

        Parameters
        ----------
        transport : InProcessTransport, GridTransport or the like
            ``transport.relay({client: message})`` yields pairs (client, answer); clients answer
            with :func:`skriemdp.federated.reply`.
        start : None
            Has no meaning here.
        fit_id : str
        checkpoint : Checkpoint, optional
            A server that starts again with it finishes the attempt that was under way.

        Raises
        ------
        RuntimeError
            Too few clients attended, or some did not add in any attempt; or the masks did not
            cancel, after which nobody is asked again.
        """
        check_checkpoint(checkpoint)
        check_release_name(fit_id)
        kept = None if checkpoint is None else checkpoint.load(fit_id)
        attempts: list[dict] = [] if kept is None else kept["attempts"]

        def save() -> None:
            if checkpoint is not None:
                state = {"fit_id": fit_id, "point": [], "chosen": [], "attempts": attempts}
                checkpoint.save(state)

        refused: list[RefusedUpdate] = []
        for number in range(self.agreement.attempts):
            attempt = Attempt(fit_id, 0, number)
            if number == len(attempts):
                entries = self._attended(transport, attempt, refused)
                # A list that all clients would refuse is not stored, and no attempt.
                checked_list(self.cohort, self.agreement, attempt, entries)
                # Before the first client can see it: a restart must show the same list to all.
                attempts.append({"list": [entry.pack().hex() for entry in entries], "words": {}})
                save()
            state = attempts[number]
            entries = [Attendance.unpack(bytes.fromhex(text)) for text in state["list"]]
            listed = checked_list(self.cohort, self.agreement, attempt, entries)
            if number == len(attempts) - 1:
                for name, words in self._added(transport, attempt, entries, state, refused):
                    state["words"][name] = bytes_of(words).hex()
                    save()
            if len(state["words"]) == len(entries):
                sizes = [len(attempt["list"]) for attempt in attempts[: number + 1]]
                return self._uploads(listed, state["words"], sizes), refused
        absent = sorted(set(listed.names) - state["words"].keys())
        raise PublicRuntimeError(
            f"{', '.join(absent)} attended and did not add, in the last of "
            f"{self.agreement.attempts} attempts; all who added were charged for each."
        )

    def _attended(
        self, transport: Relay, attempt: Attempt, refused: list[RefusedUpdate]
    ) -> list[Attendance]:
        """Valid attendances, sorted."""
        release = attempt.digest(self.cohort, self.agreement)

        def wrong(name: str, entry: Attendance) -> str:
            if entry.name != name:
                return "attended under another name"
            if other := self.agreement.differing(entry.marks):
                return f"has other settings than the server: {other}"
            if not self.cohort.signed(name, entry.signature, entry.message(release)):
                return "did not sign with the identity of the cohort file"
            try:
                pair_keys("", secrets.token_bytes(KEY_BYTES), {name: entry.key}, b"")
            except ValueError:
                return "sent a key of small order, which all others would refuse"
            return ""

        messages = dict.fromkeys(sorted(self.cohort.members), request("attend", attempt))
        answers = _answers(transport, messages, Attendance, wrong, refused)
        found = {name: entry._replace(marks=b"") for name, entry in answers}
        if len(found) <= max(1, self.cohort.colluding):
            raise PublicRuntimeError(
                f"{len(found)} clients attended; a secure sum needs at least two, and more than "
                f"may collude ({self.cohort.colluding})."
            )
        return [found[name] for name in sorted(found)]

    def _added(
        self,
        transport: Relay,
        attempt: Attempt,
        entries: list[Attendance],
        state: dict,
        refused: list,
    ) -> Iterator[tuple[str, np.ndarray]]:
        """The words that are missing, as they come."""

        def wrong(name: str, added: np.ndarray) -> str:
            right = len(added) == self.agreement.length + 1
            return "" if right else "sent a sum of another length"

        missing = sorted({entry.name for entry in entries} - state["words"].keys())
        messages = dict.fromkeys(missing, request("add", attempt, entries))
        return _answers(transport, messages, np.ndarray, wrong, refused)

    def _uploads(self, listed: Listed, words: dict[str, str], sizes: list[int]) -> Uploads:
        uploads = {name: words_of(bytes.fromhex(text)) for name, text in words.items()}
        total = unmasked(self.agreement, listed, uploads)
        attempts = tuple(Shares(size, self.cohort.colluding) for size in sizes)
        return Uploads(total, listed.names, listed.size, attempts)


def _answers(
    transport: Relay,
    messages: dict[str, bytes],
    kind: type,
    wrong: Callable[[str, Any], str],
    refused: list[RefusedUpdate],
) -> Iterator[tuple[str, Any]]:
    """The first good answer of each client, and in `refused` why others are none."""
    waiting = set(messages)
    if messages:
        check_transport(transport, "relay")
    for name, data in transport.relay(messages) if messages else ():
        finding = "was not asked"
        if name in waiting:
            found, finding = _read(data, kind)
            finding = finding or wrong(name, found)
        if finding:
            refused.append(RefusedUpdate(f"client {name!r} {finding}."))
        else:
            waiting.discard(name)
            yield name, found


def _read(data: Any, kind: type) -> tuple[Any, str]:
    """An answer of a client, or what is wrong with it."""
    try:
        found = answered(data)
    except Exception:  # noqa: BLE001  an answer may be anything; none may stop the round
        return None, "failed, or sent something unreadable"
    if found is None:
        return None, "declined"
    return found, "" if isinstance(found, kind) else "sent an answer to another question"
