"""What assistance can bring, before it is measured: the expected speed of arXiv 2211.17192."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

LOW, HIGH = 0.6, 0.8  # acceptance that pairs of one family commonly show; an assumption until it is measured
LONGEST = 16  # candidates a round


@dataclass(frozen=True, slots=True)
class Prediction:
    """Expected speed relative to plain generation, between a low and a high acceptance rate.

    `cost` is the time of an assistant's pass over that of a target's; both lengths are the best ones at their
    rate.
    """

    low: float
    high: float
    low_length: int
    high_length: int
    cost: float
    rates: tuple[float, float]
    measured: bool = False

    @property
    def words(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f} x plain"

    @property
    def assumptions(self) -> str:
        """The formula with what was put into it."""
        source = (
            "measured on this machine" if self.measured else "as is common; yours is measured as you chat"
        )
        return (
            f"Reckoned as (1 - a^(k+1)) / ((1 - a)(kc + 1)), arXiv 2211.17192, with a = {self.rates[0]:.0%} to "
            f"{self.rates[1]:.0%} of judged candidates accepted ({source}), the draft length k that is best then, "
            f"{self.low_length} to {self.high_length}, and an assistant's pass c = {self.cost:.2f} of the target's, "
            "by the number of weights."
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """Candidates of one pair that were judged here, and those accepted."""

    judged: int
    accepted: int

    @property
    def rate(self) -> float:
        return self.accepted / self.judged if self.judged else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate (Wilson 1927)."""
        if not self.judged:
            return 0.0, 1.0
        z, n = 1.96, self.judged
        middle = (self.rate + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * sqrt(self.rate * (1 - self.rate) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


def speed_up(acceptance: float, length: int, cost: float) -> float:
    """Expected speed relative to plain generation: (1 - a^(k+1)) / ((1 - a)(kc + 1)), arXiv 2211.17192, 3.8.

    `acceptance` below 1; `cost` is the time of an assistant's pass over that of a target's.
    """
    return (1 - acceptance ** (length + 1)) / ((1 - acceptance) * (length * cost + 1))


def best_length(acceptance: float, cost: float) -> int:
    """The draft length, 0 to LONGEST, that is fastest."""
    return max(range(LONGEST + 1), key=lambda length: speed_up(acceptance, length, cost))


def promise(cost: float | None, verdict: str, measured: Measured | None) -> Prediction | None:
    """None where nothing can be told: a translated draft costs and loses what the formula does not know."""
    if cost is None or (verdict == "other-tokenizer" and measured is None):
        return None
    return predict(cost, measured)


def predict(cost: float, measured: Measured | None = None) -> Prediction:
    """From the sizes, and this machine's own acceptance once there is any."""
    low, high = measured.interval if measured else (LOW, HIGH)
    high = min(high, 0.99)
    lengths = best_length(low, cost), best_length(high, cost)
    speeds = [speed_up(rate, length, cost) for rate, length in zip((low, high), lengths, strict=True)]
    return Prediction(speeds[0], speeds[1], *lengths, cost, (low, high), measured is not None)
