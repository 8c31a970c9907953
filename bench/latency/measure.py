"""One measurement: a process that loads a model, warms up and times its runs. Standard library
only."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys

import rounds

PEER_BENCH = pathlib.Path(__file__).resolve().parent / "peer_bench.py"
TIMEOUT_S = 900

# A process begins with the peak resident memory of the one that it was forked from: execve(2) keeps
# the count, so what this script starts directly would report this script's hundreds of megabytes.
# The child of a small shell does not. The exit keeps the shell from replacing itself by its last
# command.
LAUNCHER = ["sh", "-c", '"$@"; exit $?', "sh"]


class Failed(Exception):
    """A measurement ended with an error or printed something else than JSON."""


@dataclasses.dataclass
class Subject:
    """A model file and the .npy file of each of its inputs."""

    model: pathlib.Path
    inputs: dict


@dataclasses.dataclass
class Runs:
    """How one measurement runs: timed runs, runs before them, and the precision of products."""

    timed: int
    warmup: int
    precision: str = "fp32"


def weir_command(binary, subject, runs, threads):
    command = [
        str(binary), "bench",
        str(subject.model), "--json", "--runs",
        str(runs.timed), "--warmup",
        str(runs.warmup), "--threads",
        str(threads), "--precision", runs.precision
    ]
    for name, file in subject.inputs.items():
        command += ["--input", f"{name}={file}"]
    return command


def peer_command(side, subject, runs, threads):
    return [
        sys.executable,
        str(PEER_BENCH), side,
        str(subject.model),
        str(runs.timed),
        str(runs.warmup),
        str(threads), runs.precision, *(f"{name}={file}" for name, file in subject.inputs.items())
    ]


def command(side, binary, subject, runs, threads):
    if side == "weir":
        return weir_command(binary, subject, runs, threads)
    return peer_command(side, subject, runs, threads)


# All sides load a model that they have not seen before: weir keeps no plan, its peers save no
# optimised model.
ENVIRONMENT = {**os.environ, "WEIR_CACHE": "off"}


def launch(argv, timeout_s=TIMEOUT_S):
    """Run one measurement and return the JSON object that it prints; its processes end with it."""
    process = subprocess.Popen([*LAUNCHER, *argv],
                               stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE,
                               text=True,
                               start_new_session=True,
                               env=ENVIRONMENT)
    try:
        out, said = process.communicate(timeout=timeout_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"{pathlib.Path(argv[0]).name}: no result within {timeout_s} s") from None
        raise
    if process.returncode != 0:
        last = said.strip().splitlines()[-1:] or ["no message"]
        raise Failed(f"{pathlib.Path(argv[0]).name}: exit {process.returncode}: {last[0]}")
    try:
        return json.loads(out)
    except ValueError as error:
        raise Failed(f"{pathlib.Path(argv[0]).name} printed no JSON object: {error}") from None


def trial(binary, subject, threads, sides=rounds.SIDES):
    """The latency in ms of the slowest side, from a short measurement of each that counts for
    nothing else.

    It also brings the model's file into the page cache, for all alike.
    """
    return max(
        launch(command(side, binary, subject, Runs(2, 1), threads))["median_ms"]
        for side in sides)


def interleaved(commands, threads, count, sides=rounds.SIDES):
    """Measure in count rounds, with the command lines that commands(side, threads) makes; return
    {threads: {side: [measurement of each round]}}."""
    taken = {t: {side: [] for side in sides} for t in threads}
    for _, t, side in rounds.order(count, threads, sides):
        taken[t][side].append(launch(commands(side, t)))
    return taken
