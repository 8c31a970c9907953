"""Runs programs, alone and together, under a share and without, and keeps the books of the checks.
"""

import contextlib
import datetime
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

import outside
import probe
from outcome import Failed, Skip

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOADS = os.path.join(HERE, "workloads")
READY_S = 120  # a framework's first import and compilation can take most of a minute
GRACE_S = 20  # for a program to end after its time



# What a check may raise that went wrong.
FAULTS = (Failed, OSError, subprocess.SubprocessError, KeyError, IndexError, TypeError, ValueError,
          ZeroDivisionError, outside.Unavailable)


class Share:
    """The flags of weir exec."""

    def __init__(self, memory="8GiB", compute=None, limit=None, kind="standard"):
        if not memory.endswith("B"):
            raise ValueError(f"memory {memory} has no unit")
        self.flags = ["--memory", memory, "--class", kind]
        if compute is not None:
            self.flags += ["--compute", str(compute)]
        if limit is not None:
            self.flags += ["--limit", str(limit)]


class Program:
    """A workload that runs; see workloads/meter.py for how it speaks."""

    def __init__(self, host, argv, share=None, env=None):
        self.name = " ".join(os.path.basename(a) for a in argv[:4])
        self.errors = tempfile.TemporaryFile()
        self.buffer = b""
        self.lines = []
        argv = host.under(share) + argv if share else argv
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**host.env, **(env or {})},
            cwd=host.scratch,
            start_new_session=True,
        )

    def read(self, until, deadline):
        """Read lines until one for which until holds; None at the end of the output."""
        while True:
            line, newline, rest = self.buffer.partition(b"\n")
            if newline:
                self.buffer = rest
                text = line.decode(errors="replace")
                self.lines.append(text)
                if until(text):
                    return text
                continue
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.kill()
                raise Failed(f"{self.name}: not done in time; {self.tail()}")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return None
            self.buffer += chunk

    def ready(self, deadline):
        if self.read(lambda line: line == "READY", deadline) is None:
            self.process.wait()
            raise Failed(
                f"{self.name}: ended with {self.process.returncode} before it was ready; "
                f"{self.tail()}"
            )

    def go(self):
        self.say("go\n")

    def say(self, text):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()

    def stage(self, deadline):
        """The stage that the program comes to next."""
        line = self.read(lambda text: text.startswith('{"stage"'), deadline)
        if not line:
            raise Failed(f"{self.name}: ended before its next stage; {self.tail()}")
        return json.loads(line)

    def staged(self, deadline, at):
        """Call at with each stage that the program comes to, let it go on, and return its result.
        """
        while line := self.read(lambda text: text.startswith('{"stage"'), deadline):
            at(json.loads(line))
            self.go()
        return self.result(deadline)

    def result(self, deadline):
        """The JSON object of the last line, once the program has ended well."""
        self.read(lambda line: False, deadline)
        try:
            code = self.process.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name}: did not end; {self.tail()}") from None
        if code:
            raise Failed(f"{self.name}: ended with {code}; {self.tail()}")
        try:
            return json.loads(self.lines[-1])
        except (IndexError, ValueError):
            raise Failed(f"{self.name}: no result; {self.tail()}") from None

    def tail(self):
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip().splitlines()
        return " | ".join(text[-6:])[-1500:] or "nothing on standard error"

    def kill(self):
        """End the program and what it started; once it has been waited for, its number may be
        another's."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self):
        """End the program and forget it."""
        self.kill()
        for f in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(OSError):
                f.close()


class Host:
    """Where the checks run: the binaries, the environment, the agent."""

    def __init__(self, options, scratch):
        self.weir, self.shim, self.fake = options.weir, options.shim, options.fake
        self.scratch = scratch
        self.python, self.rounds_per_us = options.python, 1.0
        self.env = {
            **os.environ, "WEIR_RUNTIME_DIR": os.path.join(scratch, "run"), "PYTHONUNBUFFERED": "1",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID"
        }
        self.outside = None  # the management library, once it is asked for
        self.end = float("inf")  # when all must be over
        self.agent, self.solo = None, {}

    def exec_flags(self):
        flags = ["--fake-gpu"] if self.fake else []
        return flags + (["--shim", self.shim] if self.shim else [])

    def under(self, share):
        return [self.weir, "exec", *self.exec_flags(), *share.flags, "--"]

    def start_agent(self, *flags):
        """Start the agent of these checks, in a runtime folder of their own, so that they can end
        it too."""
        os.makedirs(self.env["WEIR_RUNTIME_DIR"], mode=0o700, exist_ok=True)
        log = open(os.path.join(self.scratch, "agent.log"), "ab")
        fake = ["--fake-gpu"] if self.fake else []
        self.agent = subprocess.Popen([self.weir, "agent", *fake, *flags],
                                      env=self.env,
                                      stdout=log,
                                      stderr=log,
                                      start_new_session=True)
        log.close()
        socket, deadline = os.path.join(self.env["WEIR_RUNTIME_DIR"],
                                        "agent.sock"), time.monotonic() + 15
        while not os.path.exists(socket):
            if self.agent.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"weir agent does not serve: {self.agent_log()}")
            time.sleep(0.02)

    def kill_agent(self):
        if self.agent and self.agent.poll() is None:
            self.agent.kill()
            self.agent.wait()

    def stop_agent(self):
        if self.agent and self.agent.poll() is None:
            self.agent.terminate()
            try:
                self.agent.wait(5)
            except subprocess.TimeoutExpired:
                self.kill_agent()

    def agent_log(self):
        with open(os.path.join(self.scratch, "agent.log"), "rb") as f:
            return f.read().decode(errors="replace")[-1500:]

    def workload(self, name, *arguments):
        return [self.python, os.path.join(WORKLOADS, name + ".py"), *map(str, arguments)]

    def kernels(self, us, *arguments):
        """The driver workload, with kernels of that length."""
        return self.workload("driver", "loop", "--kernel-us", us, "--rounds-per-us",
                             self.rounds_per_us, *arguments)

    def needs(self, module):
        """Skip when Python lacks a module."""
        found = subprocess.run([self.python, "-c", f"import {module}"],
                               capture_output=True,
                               env=self.env,
                               timeout=READY_S,
                               check=False)
        if found.returncode:
            raise Skip(f"no {module} here")

    def deadline(self, seconds):
        """So long from now, and never later than all must be over."""
        return min(time.monotonic() + seconds, self.end)

    def nvml(self):
        """The management library; Skip where there is none."""
        try:
            self.outside = self.outside or outside.of_host(self)
        except outside.Unavailable as e:
            raise Skip(f"no management library: {e}") from None
        return self.outside

    def staged(self, argv, at, share=None, env=None, seconds=60):
        """Run a program that comes to stages; at is called with the program and each of them."""
        p = Program(self, argv, share, env)
        try:
            return p.staged(self.deadline(seconds), lambda stage: at(p, stage))
        finally:
            p.close()

    def one(self, argv, share=None, env=None, seconds=60):
        """Run a program that does not wait for the word, and return its result."""
        p = Program(self, argv, share, env)
        try:
            return p.result(self.deadline(seconds))
        finally:
            p.close()

    def together(self, *programs, seconds, during=None):
        """Run programs, each (argv, share), from one word on; return their results in order.

        during, if given, is called with the programs once they run.
        """
        running = []
        try:
            for argv, share in programs:
                running.append(Program(self, argv, share))
            deadline = self.deadline(READY_S)
            for p in running:
                p.ready(deadline)
            for p in running:
                p.go()
            if during:
                during(running)
            deadline = self.deadline(seconds + GRACE_S)
            return [p.result(deadline) for p in running]
        finally:
            for p in running:
                p.close()


def completed(r, start, end):
    """How many steps of a loop ended in a window of the common clock, whole buckets only."""
    first, last = int(start / r["bucket_s"]) + 1, int(end / r["bucket_s"])
    return sum(r["counts"][max(0, first - r["first_bucket"]) : max(0, last - r["first_bucket"])])


def common_rates(results, skip=0.5):
    """Steps per second of loops that ran together, over the time in which all of them ran."""
    start = max(r["start_s"] for r in results) + skip
    end = min(r["end_s"] for r in results)
    if end - start < 1:
        raise Failed(f"the programs ran side by side for {end - start:.1f} s only")
    whole = (int(end / results[0]["bucket_s"]) - int(start / results[0]["bucket_s"]) -
             1) * results[0]["bucket_s"]
    return [completed(r, start, end) / whole for r in results]


class Book:
    """The checks, what came of them, what they settled, and the time that is left."""

    def __init__(self, options):
        self.options, self.items, self.facts = options, [], {}
        self.about = {}
        self.begin = time.monotonic()
        self.listing = getattr(options, "list", False)
        self.names = []

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def wanted(self, name, settles, needs):
        """Whether a check is to be made. Skip where too little time is left."""
        if self.listing:
            self.names.append({"name": name, "settles": list(settles), "needs_s": needs})
            return False
        return not self.options.only or any(o in name for o in self.options.only)

    def check(self, name, run, *arguments, settles=None, needs=15):
        """Run one check: it returns (holds, detail, values), or raises. What it settles is a fact's
        name with what tells of it: a function of holds and values."""
        settles = settles or {}
        if not self.wanted(name, settles, needs):
            return
        began, values = time.monotonic(), {}
        try:
            self.spare(needs)
            holds, detail, values = run(*arguments)
            status = "PASS" if holds else "FAIL"
            for fact, told in settles.items():
                self.settle(fact, told(holds, values), detail, name)
        except Skip as e:
            status, detail = "SKIP", str(e)
        except FAULTS as e:
            status, detail = "FAIL", f"{type(e).__name__}: {e}"
        for fact in settles:
            if fact not in self.facts:
                self.settle(fact, None, detail, name)
        self.enter(name, status, detail, values, began)

    def probe(self, one, host):
        """Run a probe. On the fake driver a belief that it refutes is no fault, but in the profile
        of hardware, unless the fake is otherwise on purpose; the host may have been late once."""
        if not self.wanted(one.name, one.settles, one.needs):
            return
        began, values = time.monotonic(), {}
        try:
            self.spare(one.needs)
            found = probe.perform(one, host)
            unmeant = self.unmeant(one, found, host)
            if unmeant:
                found = probe.perform(one, host)
                unmeant = self.unmeant(one, found, host)
            states, values = {s for s, _ in found.facts.values()}, found.values
            detail = found.summary()
            refuted = unmeant or (probe.REFUTED in states and not host.fake)
            status = "FAIL" if refuted or "fault" in values else (
                "PASS" if states - {probe.UNKNOWN} else "SKIP")
            for fact, (state, words) in found.facts.items():
                self.facts[fact] = {"state": state, "detail": words, "check": one.name}
        except Skip as e:
            status, detail = "SKIP", str(e)
        except FAULTS as e:
            status, detail = "FAIL", f"{type(e).__name__}: {e}"
        for fact in one.settles:
            if fact not in self.facts:
                self.settle(fact, None, detail, one.name)
        self.enter(one.name, status, detail, values, began)

    def unmeant(self, one, found, host):
        if not host.fake or host.env.get("WEIR_FAKE_PROFILE") != "hardware":
            return []
        return probe.otherwise(one, found, probe.meant_otherwise())

    def spare(self, needs):
        if self.left() < needs:
            raise Skip(f"out of time: it takes up to {needs} s, of {self.options.budget} s in all "
                       f"{max(0, self.left()):.0f} are left")

    def settle(self, fact, holds, detail, name):
        state = probe.STATES[None if holds is None else bool(holds)]
        self.facts[fact] = {"state": state, "detail": detail, "check": name}

    def enter(self, name, status, detail, values, began):
        item = {
            "name": name, "status": status, "detail": detail, "values": values,
            "seconds": round(time.monotonic() - began, 1)
        }
        self.items.append(item)
        print(f"{status}  {name}: {detail}  ({item['seconds']} s)", file=sys.stderr, flush=True)
        self.write()

    def write(self):
        """Write what is known so far, so that nothing is lost if the time runs out."""
        if self.options.out:
            with open(self.options.out + ".part", "w", encoding="utf-8") as f:
                f.write(json.dumps(self.report(), indent=2) + "\n")
            os.replace(self.options.out + ".part", self.options.out)

    def report(self):
        counts = {s: sum(i["status"] == s for i in self.items) for s in ("PASS", "FAIL", "SKIP")}
        states = {s: sum(f["state"] == s for f in self.facts.values())
                  for s in probe.STATES.values()}
        return {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            **self.about,
            "passed": counts["PASS"],
            "failed": counts["FAIL"],
            "skipped": counts["SKIP"],
            **states,
            "seconds": round(time.monotonic() - self.begin, 1),
            "facts": self.facts,
            "items": self.items,
        }
