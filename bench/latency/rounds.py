"""The order of measurements and what is made of their numbers. Standard library only."""

import math
import statistics

SIDES = ("weir", "ort")
# The one in the middle stands beside both that it is compared with.
THREE_SIDES = ("openvino", "weir", "ort")


def order(rounds, threads, sides=SIDES):
    """Yield (round, threads, side) for one model.

    The sides run one right after the other, and which comes first
    alternates (A B, B A, A B, ...): a load on the machine that grows or falls
    steadily then adds as much to one side as to the other.
    """
    for number in range(rounds):
        for count in threads:
            for side in sides if number % 2 == 0 else sides[::-1]:
                yield number, count, side


def runs_within(latency_ms, budget_ms, least, most):
    """How many runs of a latency fill the budget, no fewer than least and no more than most."""
    if latency_ms <= 0:
        return most
    return max(least, min(most, round(budget_ms / latency_ms)))


def median_by_field(measurements, fields):
    """The median over the rounds of each field that all measurements have."""
    return {
        f: statistics.median(m[f] for m in measurements)
        for f in fields if all(f in m for m in measurements)
    }


def quartiles(values):
    """(first, third) quartile by linear interpolation; of one value, that value twice."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def ratios(ours, theirs):
    """Ratio of two lists of per-round medians, and its spread.

    ratio divides the medians of the lists. by_round divides round by round,
    where both sides met about the same load, and q1 and q3 are its quartiles.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds of one side, {len(theirs)} of the other")
    by_round = [a / b for a, b in zip(ours, theirs)]
    first, third = quartiles(by_round)
    return {
        "ratio": statistics.median(ours) / statistics.median(theirs), "q1": first, "q3": third,
        "by_round": by_round
    }


def geometric_mean(values):
    """The geometric mean of positive numbers: the only mean under which a/b and b/a agree about who
    is faster."""
    return math.exp(statistics.fmean(map(math.log, values)))
