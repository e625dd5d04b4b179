"""The server's loop: send the point, gather private updates, average them on the manifold."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import numpy as np

from skriemdp._validation import check_count, check_option
from skriemdp.federated.messages import LocalTask, checked_updates

__all__ = ["AGGREGATIONS", "Checkpoint", "ServerLoop", "tangent_mean"]

AGGREGATIONS = ("tangent-mean", "frechet")


def tangent_mean(geometry, point, updates, weights):
    """``exp_x`` of the weighted mean of ``log_x`` of the updates (Huang et al. 2025, eq. 3.1)."""
    weights = np.asarray(weights, dtype=float) / np.sum(weights)
    velocity = np.tensordot(weights, geometry.log(point, np.stack(updates)), axes=(0, 0))
    return geometry.exp(point, velocity)


def _frechet(geometry, point, updates, weights, n_steps=20):
    for _ in range(n_steps):
        point = tangent_mean(geometry, point, updates, weights)
    return point


class Checkpoint:
    """Where a run stands, on disk: a restart continues with the next round.

    The round is written before its tasks go out, so a round that was interrupted is not asked
    again: clients may have released for it already.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path):
        self.path = os.fspath(path)

    def load(self) -> dict | None:
        """The stored state, None if there is none."""
        if not os.path.exists(self.path):
            return None
        with open(self.path) as file:
            state = json.load(file)
        for name in ("point", "chosen"):
            state[name] = np.array(state[name])
        return state

    def save(self, state: dict) -> None:
        """Replace the stored state, atomically."""
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        temporary = f"{self.path}.new"
        with open(temporary, "w") as file:
            json.dump(plain, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)


@dataclasses.dataclass(frozen=True)
class ServerLoop:
    """Settings of the server (Huang et al. 2025, Algorithm 1); it sees private updates only.

    Parameters
    ----------
    geometry : Geometry
    schedule : tuple of tuple
        Clients of each round, drawn in advance.
    weights : dict
        Client to its public number of records.
    aggregation : {"tangent-mean", "frechet"}
    output : {"last", "random"}
        The last point, or one of all rounds drawn uniformly (Options 1 and 2 of the paper).
    pick : int
        Round whose point is the output for "random".
    min_updates : int
        A round with fewer valid updates leaves the point where it is.
    domain : GeodesicBall, optional
        Points are projected on it.
    """

    geometry: Any
    schedule: tuple
    weights: dict
    aggregation: str = "tangent-mean"
    output: str = "last"
    pick: int = -1
    min_updates: int = 1
    domain: Any = None

    def __post_init__(self):
        check_option(AGGREGATIONS, aggregation=self.aggregation)
        check_option(("last", "random"), output=self.output)
        check_count(min_updates=self.min_updates)

    def run(self, transport, start, fit_id, checkpoint=None, callback=None):
        """All rounds; returns the output point and the refusals of all rounds.

        Partial rounds change the estimate and not the bill: everyone who was asked has paid.

        Parameters
        ----------
        transport : Transport
        start : ndarray
            Public.
        fit_id : str
        checkpoint : Checkpoint, optional
        callback : callable, optional
            ``callback(round, n_rounds, point)`` after each round; it sees released points only.
        """
        point = chosen = np.asarray(start, dtype=float)
        first, refusals = 0, []
        state = checkpoint.load() if checkpoint is not None else None
        if state is not None and state["fit_id"] == fit_id:
            point, chosen, first = state["point"], state["chosen"], state["next_round"]
        for t in range(first, len(self.schedule)):
            if checkpoint is not None:
                checkpoint.save(
                    {"fit_id": fit_id, "next_round": t + 1, "point": point, "chosen": chosen}
                )
            tasks = [LocalTask(fit_id, t, client, point) for client in self.schedule[t]]
            updates, refused = checked_updates(self.geometry, tasks, transport.run(tasks))
            refusals.extend(refused)
            if len(updates) >= self.min_updates:
                point = self._aggregate(point, updates)
            if self.output == "last" or t == self.pick:
                chosen = point
            if callback is not None:
                callback(t + 1, len(self.schedule), point)
        if checkpoint is not None:
            checkpoint.save(
                {
                    "fit_id": fit_id,
                    "next_round": len(self.schedule),
                    "point": point,
                    "chosen": chosen,
                }
            )
        return chosen, refusals

    def _aggregate(self, point, updates):
        # In the order of the schedule, never of arrival: floating-point sums depend on it.
        points = [update.point for update in updates]
        weights = [self.weights[update.client] for update in updates]
        combine = tangent_mean if self.aggregation == "tangent-mean" else _frechet
        moved = combine(self.geometry, point, points, weights)
        return moved if self.domain is None else self.domain.project(moved)
