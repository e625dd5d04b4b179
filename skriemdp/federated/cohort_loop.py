"""The server's side of a secure sum: who attends, then what they add; it lasts on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.federated.agreement import Agreement
from skriemdp.federated.attendance import (
    Attempt,
    Attendance,
    Listed,
    answered,
    checked_list,
    request,
    unmasked,
)
from skriemdp.federated.cohort import Cohort
from skriemdp.federated.messages import RefusedUpdate, check_release_name
from skriemdp.federated.shares import Shares
from skriemdp.federated.sums import Uploads

__all__ = ["CohortLoop"]


class Relay(Protocol):
    """What takes bytes to clients."""

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
        check_release_name(fit_id)
        kept = None if checkpoint is None else checkpoint.load(fit_id)
        attempts: list[dict] = [] if kept is None else kept["attempts"]

        def save() -> None:
            if checkpoint is not None:
                state = {"fit_id": fit_id, "point": [], "chosen": [], "attempts": attempts}
                checkpoint.save(state)

        refused: list[RefusedUpdate] = []
        for number in range(self.agreement.attempts):
            asked = Attempt(fit_id, 0, number)
            if number == len(attempts):
                entries = self._attended(transport, asked, refused)
                # Before the first client can see it: a restart must show the same list to all.
                attempts.append({"list": [entry.pack().hex() for entry in entries], "words": {}})
                save()
            state = attempts[number]
            entries = [Attendance.unpack(bytes.fromhex(text)) for text in state["list"]]
            listed = checked_list(self.cohort, self.agreement, asked, entries)
            if number == len(attempts) - 1:
                self._added(transport, asked, entries, state["words"], refused, save)
            if len(state["words"]) == len(entries):
                sizes = [len(attempt["list"]) for attempt in attempts[: number + 1]]
                return self._uploads(listed, state["words"], sizes), refused
        absent = sorted(set(listed.names) - state["words"].keys())
        raise RuntimeError(
            f"{', '.join(absent)} attended and did not add, in the last of "
            f"{self.agreement.attempts} attempts; all who added were charged for each."
        )

    def _attended(
        self, transport: Relay, asked: Attempt, refused: list[RefusedUpdate]
    ) -> list[Attendance]:
        """Valid attendances, sorted."""
        found: dict[str, Attendance] = {}
        release = asked.release(self.cohort, self.agreement)
        message = request("attend", asked)
        for name, data in transport.relay(dict.fromkeys(sorted(self.cohort.members), message)):
            entry, finding = _read(data, Attendance)
            if entry is not None and entry.name != name:
                finding = "attended under another name"
            elif entry is not None and (other := self.agreement.differing(entry.marks)):
                finding = f"has other settings than the server: {other}"
            elif entry is not None and not self.cohort.signed(
                name, entry.signature, entry.message(release)
            ):
                finding = "did not sign with the identity of the cohort file"
            if finding or name in found or name not in self.cohort.members:
                refused.append(RefusedUpdate(f"client {name!r} {finding or 'was not asked'}."))
            else:
                found[name] = entry._replace(marks=b"")
        if len(found) <= max(1, self.cohort.colluding):
            raise RuntimeError(
                f"{len(found)} clients attended; a secure sum needs at least two, and more than "
                f"may collude ({self.cohort.colluding})."
            )
        return [found[name] for name in sorted(found)]

    def _added(
        self,
        transport: Relay,
        asked: Attempt,
        entries: list[Attendance],
        words: dict[str, str],
        refused: list[RefusedUpdate],
        save: Callable[[], None],
    ) -> None:
        """Ask for the words that are missing, and keep each as it comes."""
        message = request("add", asked, entries)
        waiting = {entry.name for entry in entries} - words.keys()
        for name, data in (
            transport.relay(dict.fromkeys(sorted(waiting), message)) if waiting else ()
        ):
            added, finding = _read(data, np.ndarray)
            if added is not None and len(added) != self.agreement.length + 1:
                finding = "sent a sum of another length"
            if finding or name not in waiting:
                refused.append(RefusedUpdate(f"client {name!r} {finding or 'was not asked'}."))
                continue
            waiting.discard(name)
            words[name] = added.astype("<u8").tobytes().hex()
            save()

    def _uploads(self, listed: Listed, words: dict[str, str], sizes: list[int]) -> Uploads:
        uploads = {
            name: np.frombuffer(bytes.fromhex(text), dtype="<u8").astype(np.uint64)
            for name, text in words.items()
        }
        total = unmasked(self.agreement, listed, uploads)
        attempts = tuple(Shares(size, self.cohort.colluding) for size in sizes)
        return Uploads(total, listed.names, listed.size, attempts)


def _read(data: Any, kind: type) -> tuple[Any, str]:
    """An answer of a client, or what is wrong with it."""
    try:
        found = answered(data)
    except Exception:  # noqa: BLE001  an answer may be anything; none may stop the round
        return None, "failed, or sent something unreadable"
    if found is None:
        return None, "declined"
    if not isinstance(found, kind):
        return None, "sent an answer to another question"
    return found, ""
