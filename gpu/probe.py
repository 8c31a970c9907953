"""Checks that settle what weir believes of the driver; facts.json has the beliefs.

A probe is a function that runs programs, measures them from outside, and tells what it found of
each belief that it settles: it holds, it does not, or it is not known, with a few words. On the
fake driver the same is run and says nothing of a GPU: there it shows where the fake differs from
what is believed.
"""

import json
import os

from outcome import Failed, Skip

CONFIRMED, REFUTED, UNKNOWN = "confirmed", "refuted", "unknown"
STATES = {True: CONFIRMED, False: REFUTED, None: UNKNOWN}

ALL = "all"  # that a probe settles

PROBES = []  # in the order in which they run, the most valuable first


class Probe:
    """A check that settles beliefs; needs is how many seconds it takes at most. What it says of the
    timed ones depends on how busy the host is."""

    def __init__(self, run, name, settles, needs, timed=()):
        self.run, self.name, self.settles, self.needs = run, name, settles, needs
        self.timed = timed


def probe(name, settles, needs=20, timed=()):
    """Add a probe; timed may be ALL."""

    def add(run):
        PROBES.append(Probe(run, name, tuple(settles), needs, settles if timed == ALL else timed))
        return run

    return add


class Findings:
    """What a probe found of each belief."""

    def __init__(self, settles):
        self.facts = {i: (UNKNOWN, "not looked at") for i in settles}
        self.values = {}

    def tell(self, belief, holds, detail):
        """holds is None where it could not be seen."""
        if belief not in self.facts:
            raise Failed(f"{belief} is not for this check to settle")
        self.facts[belief] = (STATES[None if holds is None else bool(holds)], detail)

    def summary(self):
        parts = [f"{i} {s}: {d}" for i, (s, d) in self.facts.items() if s != CONFIRMED]
        confirmed = sum(s == CONFIRMED for s, _ in self.facts.values())
        return "; ".join([f"{confirmed} of {len(self.facts)} confirmed", *parts])


def perform(one, host):
    """Run a probe; what it found before something went wrong counts."""
    found = Findings(one.settles)
    try:
        one.run(host, found)
    except Skip as e:
        untold(found, str(e))
    except Failed as e:
        untold(found, str(e))
        found.values["fault"] = str(e)
    return found


def otherwise(one, found, meant):
    """The beliefs that the fake driver's profile of hardware refutes and that no row says it is
    otherwise in on purpose."""
    return [i for i, (state, _) in found.facts.items()
            if state == REFUTED and i not in meant and i not in one.timed]


def meant_otherwise():
    """The beliefs in which the fake is otherwise on purpose."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts.json")
    with open(path, encoding="utf-8") as f:
        return {fact["id"] for fact in json.load(f)["facts"] if fact.get("fake")}


def untold(found, why):
    for i, (_, detail) in found.facts.items():
        if detail == "not looked at":
            found.facts[i] = (UNKNOWN, why)


def mib(n):
    return f"{n / (1 << 20):.1f} MiB"
