"""High-precision privacy profiles of Riemannian Gaussian and Laplace pairs; mpmath only.

Run:  python benchmarks/reference_profiles.py [--digits 50] > tests/data/riemannian_profiles.json

Independent of the library: the two probabilities ``P1(A)`` and ``P2(A)`` are computed apart, each
in polar coordinates around its own centre, with thresholds from the plain law of cosines;
cancellation is met by digits, not by algebra.  ``delta = P1(A) - exp(epsilon) P2(A)``.
"""

import argparse
import json
import sys
import time

import mpmath as mp


def space_functions(kind):
    if kind > 0:
        return mp.sin, mp.cos
    if kind < 0:
        return mp.sinh, mp.cosh
    return (lambda x: x), None


def cosine(kind, a, r, other):
    """Cosine of the angle at a centre between the direction of the other one and a point.

    The point is at distance r from this centre and `other` from the other one.
    """
    S, C = space_functions(kind)
    if kind == 0:
        return (r * r + a * a - other * other) / (2 * r * a)
    if kind > 0:
        return (C(other) - C(r) * C(a)) / (S(r) * S(a))
    return (C(r) * C(a) - C(other)) / (S(r) * S(a))


def cap(u, order):
    """Share of the sphere with (1 + cos) / 2 below u."""
    if u <= 0:
        return mp.mpf(0)
    if u >= 1:
        return mp.mpf(1)
    if order == 0:
        return mp.mpf("0.5")
    half = mp.mpf(order) / 2
    if u > mp.mpf("0.5"):
        return 1 - cap(1 - u, order)
    series = mp.hyp2f1(2 * half, 1, half + 1, u)
    return u**half * (1 - u) ** half / (half * mp.beta(half, half)) * series


class Pair:
    def __init__(self, law, kind, dim, a, s, digits):
        mp.mp.dps = digits
        self.law, self.kind, self.order = law, kind, dim - 1
        self.a, self.s = mp.mpf(a), mp.mpf(s)
        self.S, _ = space_functions(kind)
        self.end = mp.pi if kind > 0 else None
        self.Z = self.integral(lambda r: mp.mpf(1), [mp.mpf(0)])

    def potential(self, r):
        return r / self.s if self.law == "laplace" else r * r / (2 * self.s**2)

    def weight(self, r):
        return mp.exp(-self.potential(r)) * self.S(r) ** self.order

    def integral(self, share, kinks):
        """Integral of weight * share over r > 0; `kinks` are where the share is not analytic."""
        kinks = sorted(k for k in kinks if k >= 0 and (self.end is None or k < self.end))
        top = self.end
        if top is None:  # the weight has decayed long before
            top = 4 * (max(kinks) + 1)
            while self.weight(top) > mp.mpf(10) ** (-mp.mp.dps) * self.weight(top / 2) or (
                self.law == "gaussian" and top < 4 * (self.order * self.s**2 + 20 * self.s)
            ):
                top *= 2
                if top > 1e9:
                    break
        total = mp.mpf(0)
        points = sorted({mp.mpf(0), *kinks, top})
        for low, high in zip(points, points[1:], strict=False):
            total += self._piece(share, low, high)
        return total

    def _piece(self, share, low, high):
        # Where the integrand counts, on a grid that is fine at both ends and everywhere relative.
        length = high - low
        shares = [mp.mpf(2) ** (-k / 4) for k in range(4, 240)]
        grid = sorted(
            {low + length * x for x in shares} | {high - length * x for x in shares[:200]}
        )
        value = {}

        def f(r):
            if r not in value:
                value[r] = self.weight(r) * share(r)
            return value[r]

        for _ in range(5):  # refine around the peak
            peak = max(range(len(grid)), key=lambda i: f(grid[i]))
            around = grid[max(peak - 2, 0) : peak + 3]
            extra = [
                x + (y - x) * k / 5
                for x, y in zip(around, around[1:], strict=False)
                for k in range(1, 5)
            ]
            grid = sorted(set(grid) | set(extra))
        best = max(f(r) for r in grid)
        if best == 0:
            return mp.mpf(0)
        floor = best * mp.exp(-85)
        alive = [i for i, r in enumerate(grid) if f(r) * 1 > floor]
        first, last = alive[0], alive[-1]
        left = low if first == 0 else grid[first - 1]
        right = high if last == len(grid) - 1 else grid[last + 1]
        peak = max(range(len(grid)), key=lambda i: f(grid[i]))
        mid = min(max(grid[peak], left), right)
        cuts = {left, right, mid}
        for fraction in (0.03, 0.12, 0.3, 0.6):
            cuts.add(mid + (right - mid) * mp.mpf(fraction))
            cuts.add(mid - (mid - left) * mp.mpf(fraction))
        cuts = sorted(cuts)
        cuts = [c for i, c in enumerate(cuts) if i == 0 or c - cuts[i - 1] > 0]
        scaled, error = mp.quad(
            lambda r: self.weight(r) * share(r) / best, cuts, error=True, maxdegree=9
        )
        if scaled > 0 and error / scaled > mp.mpf(10) ** -20:
            raise ArithmeticError(f"reference not converged: {mp.nstr(error / scaled, 3)}")
        return scaled * best

    def log_delta(self, epsilon):
        """log delta and log(1 - delta) at epsilon >= 0."""
        e, a, s = mp.mpf(epsilon), self.a, self.s
        first, second, kinks1, kinks2 = self._sets(e, a, s)
        p1 = self.integral(first, kinks1) / self.Z
        p2 = self.integral(second, kinks2) / self.Z
        delta = p1 - mp.exp(e) * p2
        return mp.log(delta), mp.log(1 - delta)

    def _sets(self, e, a, s):
        far = 2 * mp.pi - a
        if self.law == "laplace":
            c = s * e
            kinks1, kinks2 = [(a - c) / 2], [(a + c) / 2]
            if self.kind > 0:
                kinks1.append((far - c) / 2)
                kinks2.append((far + c) / 2)

            def first(r):  # around the first centre: the other distance is >= r + c
                if r + c >= a + r:
                    return mp.mpf(0)
                if a - r >= r + c:
                    return mp.mpf(1)
                if self.kind > 0 and r + c >= far - r:
                    return mp.mpf(0)
                return cap((1 + cosine(self.kind, a, r, r + c)) / 2, self.order)

            def second(R):  # around the second centre: the other distance is <= R - c
                r = R - c
                if r < abs(R - a):
                    return mp.mpf(0)
                if self.kind > 0 and r >= far - R:
                    return mp.mpf(1)
                return cap((1 - cosine(self.kind, a, R, r)) / 2, self.order)

            return first, second, kinks1, kinks2
        c = 2 * s * s * e
        r0 = (a * a - c) / (2 * a)
        kinks1, kinks2 = [abs(r0)], [(a * a + c) / (2 * a)]
        if self.kind > 0:
            kinks1.append((far * far - c) / (2 * far))
            kinks2.append((far * far + c) / (2 * far))

        def first(r):
            R = mp.sqrt(r * r + c)
            if R <= abs(a - r):
                return mp.mpf(1)
            if R >= a + r or (self.kind > 0 and R >= far - r):
                return mp.mpf(0)
            return cap((1 + cosine(self.kind, a, r, R)) / 2, self.order)

        def second(R):
            if R * R <= c:
                return mp.mpf(0)
            r = mp.sqrt(R * R - c)
            if r <= abs(R - a):
                return mp.mpf(0)
            if self.kind > 0 and r >= far - R:
                return mp.mpf(1)
            return cap((1 - cosine(self.kind, a, R, r)) / 2, self.order)

        return first, second, kinks1, kinks2


def epsilon_max(law, kind, a, s):
    if law == "laplace":
        return a / s
    return a * (2 * float(mp.pi) - a) / (2 * s * s)


def cases():
    """(law, kind, dim, distance, scale, epsilon); every number is an exact double."""
    top = epsilon_max
    for dim, a, s in ((2, 1.0, 1.0), (3, 0.3, 0.5), (5, 2.5, 0.7), (10, 1.0, 2.0), (50, 0.5, 0.3)):
        m = top("gaussian", 1, a, s)
        for fraction in (0.0, 0.3, 0.9, 0.999):
            yield "gaussian", 1, dim, a, s, fraction * m
    for dim, fraction in ((2, 0.9994), (3, 0.99994), (7, 0.9999), (4, 0.99999)):
        yield "gaussian", 1, dim, 1.0, 1.0, fraction * top("gaussian", 1, 1.0, 1.0)
    yield "gaussian", 1, 200, 1.0, 0.5, 1.0
    yield "gaussian", 1, 200, 1.0, 0.05, 30.0
    yield "gaussian", 1, 2, 3.1, 0.8, 2.0
    yield "gaussian", 1, 2, 1.0, 0.05, 650.0
    yield "gaussian", 1, 3, 0.1, 0.01, 350.0
    yield "gaussian", 1, 1, 1.0, 1.0, 2.6
    yield "gaussian", 1, 1, 0.2, 0.3, 1.5
    yield "gaussian", 1, 2, 1e-4, 1.0, 1e-5
    for dim, a, s, epsilons in (
        (2, 1.0, 1.0, (0.0, 1.0, 10.0, 22.0)),
        (2, 1.0, 30.0, (0.0, 0.5, 0.9)),
        (3, 8.0, 1.0, (0.0, 20.0, 100.0, 220.0)),
        (5, 0.3, 0.5, (0.0, 0.7, 5.0, 18.0)),
        (10, 2.0, 0.2, (30.0, 90.0, 250.0)),
        (50, 0.5, 0.3, (0.3, 20.0, 60.0)),
        (200, 0.1, 0.4, (0.0, 4.0, 13.0)),
        (200, 1.0, 5.0, (10.0, 190.0)),
        (2, 1e-4, 1.0, (0.0, 3e-4)),
    ):
        for epsilon in epsilons:
            yield "gaussian", -1, dim, a, s, epsilon
    for dim, a, s in ((2, 1.0, 0.5), (3, 0.3, 2.0), (20, 2.0, 0.1), (200, 1.0, 0.01)):
        for fraction in (0.0, 0.5, 0.99, 0.9999):
            yield "laplace", 1, dim, a, s, fraction * top("laplace", 1, a, s)
    for dim, a, s in (
        (2, 1.0, 0.5),
        (3, 3.0, 0.49),
        (5, 0.1, 0.2),
        (2, 1.0, 0.999),
        (10, 1.0, 0.111),
        (200, 0.5, 0.005),
    ):
        for fraction in (0.0, 0.7, 0.999):
            yield "laplace", -1, dim, a, s, fraction * top("laplace", -1, a, s)
    for dim, a in ((2, 1.0), (3, 10.0), (7, 0.1), (200, 5.0)):
        for fraction in (0.0, 0.5, 0.999):
            yield "laplace", 0, dim, a, 1.0, fraction * a


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=50)
    options = parser.parse_args()
    rows = []
    for law, kind, dim, a, s, epsilon in cases():
        clock = time.perf_counter()
        pair = Pair(law, kind, dim, a, s, options.digits)
        log_delta, log_complement = pair.log_delta(epsilon)
        rows.append(
            {
                "law": law, "kind": kind, "dim": dim, "distance": a, "scale": s, "epsilon": epsilon,
                "log_delta": mp.nstr(log_delta, 25), "log_complement": mp.nstr(log_complement, 25),
            }
        )  # fmt: skip
        seconds = time.perf_counter() - clock
        print(f"{seconds:6.1f} s", *rows[-1].values(), file=sys.stderr, flush=True)
    json.dump(rows, sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    main()
