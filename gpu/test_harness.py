"""Tests of the harness itself, without a GPU and without weir: python3 -m unittest discover -s gpu
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "workloads")]

import check
import facts_process
import harness
import libcuda
import matrix
import outside
import probe
import probes_libraries

WORKLOAD = """
import sys, time
sys.path.insert(0, {workloads!r})
import meter
meter.loop(lambda: time.sleep({step}), {seconds})
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        weir = self.write("weir",
                          '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
        os.chmod(weir, 0o755)
        self.options = types.SimpleNamespace(weir=weir,
                                             shim="",
                                             fake=False,
                                             python=sys.executable,
                                             budget=60,
                                             only=None,
                                             out="")
        self.host = harness.Host(self.options, self.scratch.name)

    def write(self, name, text):
        path = os.path.join(self.scratch.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(text))
        return path

    def loop(self, step, seconds=1.5):
        text = WORKLOAD.format(workloads=harness.WORKLOADS, step=step, seconds=seconds)
        return [sys.executable, self.write(f"loop-{step}.py", text)]


class Programs(Case):
    def test_together(self):
        slow, fast = self.host.together((self.loop(0.02, 2), None),
                                        (self.loop(0.01, 2), harness.Share()),
                                        seconds=2)
        rates = harness.common_rates([slow, fast])
        self.assertLess(rates[0], 51)
        self.assertGreater(rates[1], rates[0])
        self.assertGreaterEqual(slow["p99_ms"], 20)

    def test_failures_name_the_program_and_its_words(self):
        broken = self.write("broken.py", "import sys; sys.exit('no such device')")
        with self.assertRaisesRegex(harness.Failed, "broken.py.*no such device"):
            self.host.together(([sys.executable, broken], None), seconds=1)
        with self.assertRaisesRegex(harness.Failed, "no result"):
            self.host.one([sys.executable, "-c", "print('hello')"])

    def test_a_program_that_hangs_is_ended(self):
        with self.assertRaisesRegex(harness.Failed, "not done in time"):
            self.host.one([sys.executable, "-c", "import time; time.sleep(60)"], seconds=0.5)

    def test_side_by_side_is_required(self):
        first, second = ({
            "start_s": s, "end_s": s + 1.0, "bucket_s": 0.05, "first_bucket": 0, "counts": []
        } for s in (0.0, 0.9))
        with self.assertRaisesRegex(harness.Failed, "side by side"):
            harness.common_rates([first, second])


class Staged(Case):
    def test_stages_and_result(self):
        """The harness measures at each stage while the program waits."""
        program = self.write("staged.py", """
            import sys
            sys.path.insert(0, {workloads!r})
            import meter
            meter.stage("one", pid=1)
            meter.stage("two")
            meter.result(done=True)
            """.format(workloads=harness.WORKLOADS))
        seen = []
        r = self.host.staged([sys.executable, program],
                             lambda p, stage: seen.append((stage["stage"], p.process.poll())))
        self.assertEqual(seen, [("one", None), ("two", None)])
        self.assertEqual(r, {"done": True})

    def test_a_program_that_ends_early_is_named(self):
        p = harness.Program(self.host, [sys.executable, "-c", "import sys; sys.exit('no memory')"])
        self.addCleanup(p.close)
        with self.assertRaisesRegex(harness.Failed, "before its next stage; .*no memory"):
            p.stage(harness.time.monotonic() + 10)


class Probes(Case):
    """What becomes of what a probe finds."""

    def book(self, run, settles, fake=False):
        self.host.fake = fake
        book = harness.Book(self.options)
        book.probe(probe.Probe(run, "facts: x", settles, 1), self.host)
        return book

    def states(self, book):
        return {i: f["state"] for i, f in book.facts.items()}

    def test_states(self):
        def run(host, found):
            found.tell("a", True, "as believed")
            found.tell("b", 0, "otherwise")
            found.tell("c", None, "not to be seen")

        for fake, status in ((False, "FAIL"), (True, "PASS")):
            book = self.book(run, ("a", "b", "c", "d"), fake=fake)
            self.assertEqual(self.states(book), {
                "a": "confirmed", "b": "refuted", "c": "unknown", "d": "unknown"
            })
            self.assertEqual(book.items[0]["status"], status)
        report = book.report()
        self.assertEqual([report[s] for s in ("confirmed", "refuted", "unknown")], [1, 1, 2])
        self.assertEqual(report["facts"]["b"], {
            "state": "refuted", "detail": "otherwise", "check": "facts: x"
        })

    def test_the_fake_is_otherwise_on_purpose_or_not_at_all(self):
        meant = sorted(probe.meant_otherwise())[0]

        def run(host, found):
            found.tell(belief, False, "otherwise")

        for belief, profile, status in ((meant, "hardware", "PASS"), ("a", "hardware", "FAIL"),
                                        ("a", "plain", "PASS")):
            self.host.env["WEIR_FAKE_PROFILE"] = profile
            book = self.book(run, (belief,), fake=True)
            self.assertEqual((belief, book.items[0]["status"]), (belief, status))
        timed = probe.Findings(("a",))
        timed.tell("a", False, "late")
        self.assertEqual(probe.otherwise(probe.Probe(run, "x", ("a",), 1, ("a",)), timed, ()), [])

    def test_what_was_found_before_a_fault_counts(self):
        def run(host, found):
            found.tell("a", True, "as believed")
            raise harness.Failed("it hung")

        book = self.book(run, ("a", "b"))
        self.assertEqual(self.states(book), {"a": "confirmed", "b": "unknown"})
        self.assertEqual((book.items[0]["status"], book.facts["b"]["detail"]), ("FAIL", "it hung"))

    def test_a_fault_of_the_probe_settles_nothing(self):
        book = self.book(lambda host, found: found.tell("other", True, ""), ("a",))
        self.assertEqual((self.states(book), book.items[0]["status"]), ({"a": "unknown"}, "FAIL"))

    def test_checks_settle_too(self):
        book = harness.Book(self.options)
        book.check("x", lambda: (False, "off", {"y": True}), settles={
            "fails": lambda holds, values: holds, "holds": lambda holds, values: values["y"]
        })
        book.check("z", lambda: 1 / 0, settles={"fault": lambda holds, values: holds})
        self.assertEqual(self.states(book), {
            "fails": "refuted", "holds": "confirmed", "fault": "unknown"
        })

    def test_every_fact_is_settled_once(self):
        self.options.list = True
        book = harness.Book(self.options)
        check.run_checks(book, self.host, matrix.Bounds(False), 1 << 30, all_of_them=True)
        settled = [i for c in book.names for i in c["settles"]]
        self.assertGreater(len(settled), 100)
        self.assertEqual(len(settled), len(set(settled)))


class Libraries(unittest.TestCase):
    """What is made of what the libraries did."""

    def test_public_calls(self):
        bare, full = {"loaded": 0}, {"context": 2, "loaded": None}
        for tight, module, told in ((full, {"loaded": 2}, True), ({"context": 0}, {}, False),
                                    (full, {"loaded": 0}, None), (full, {"loaded": None}, None)):
            self.assertEqual(probes_libraries.public(bare, tight, module), told)
        self.assertIsNone(probes_libraries.public({"loaded": 209}, full, {"loaded": 2}))

    def test_collectives(self):
        def ranks(called, done, init=0):
            return [{"init": init, "code": 0, "called_s": called, "done_s": done}] * 2

        for told, found in ((True, ranks(0.1, 2)), (False, ranks(0.1, 0.2)), (None, ranks(1.9, 2)),
                            (None, ranks(0.1, 2, init=5)), (None, [{"hung": True}] * 2)):
            self.assertEqual(probes_libraries.stays(found)[0], told)


class Signatures(unittest.TestCase):
    """The parameters that the workloads declare are those of the driver's calls."""

    # C types by what libcuda.KINDS calls them; a handle is a pointer, an enumeration an int.
    KINDS = {
        "unsigned char": "B", "int": "I", "unsigned int": "U", "size_t": "D", "handle": "P",
        "unsigned long long": "D", "uint32_t": "U", "uint64_t": "D"
    }

    def kind(self, parameter, types):
        if "*" in parameter:
            return "P"
        declared = " ".join(parameter.replace("const ", "").split()[:-1])
        return self.KINDS[types.get(declared, declared)]

    def test_against_the_table_of_calls(self):
        table = os.path.join(os.path.dirname(HERE), "internal", "shim", "calls.tab")
        types, calls = {}, {}
        with open(table, encoding="utf-8") as f:
            for line in f:
                words = line.split(maxsplit=2)
                if line.startswith("type "):
                    types[words[1]] = words[2].strip()
                elif "(" in line and not line.startswith("#"):
                    calls[words[0]] = line[line.index(" (") + 2:line.rindex(")")]
        for name, kinds in libcuda.SIGNATURES.items():
            parameters = [p for p in calls[name].split(", ") if p and p != "void"]
            self.assertEqual("".join(self.kind(p, types) for p in parameters), kinds, name)


class Outside(unittest.TestCase):
    def test_no_library(self):
        with self.assertRaises(outside.Unavailable):
            outside.Outside("libno-such-library.so.1")

    def test_peak(self):
        """The most is kept, whenever it was seen."""
        figures = iter((10, 40, 20))
        library = types.SimpleNamespace(used=lambda: next(figures))
        seen = outside.Seen(library)
        seen.look()
        seen.look()
        self.assertEqual((seen.base, seen.peak), (10, 40))

    def test_settled(self):
        """What still changes is waited for."""
        figures = iter((30, 20, 10))
        library = types.SimpleNamespace(used=lambda: next(figures, 10))
        self.assertEqual(outside.Outside.settled(library, quiet=0.03), 10)


class Counting(unittest.TestCase):
    def test_completed(self):
        # 10.0 to 15.0 s, one step each 0.1 s
        r = {"bucket_s": 0.1, "first_bucket": 100, "counts": [1] * 50}
        self.assertEqual(harness.completed(r, 10.95, 12.05), 10)
        self.assertEqual(harness.completed(r, 0, 100), 50)
        self.assertEqual(harness.completed(r, 20, 21), 0)


class Bookkeeping(Case):
    def test_report(self):
        def skip():
            raise harness.Skip("not here")

        def fail():
            raise harness.Failed("it broke")

        self.options.out = os.path.join(self.scratch.name, "report.json")
        book = harness.Book(self.options)
        book.check("holds", lambda: (True, "fine", {"x": 1}))
        book.check("does not", lambda: (False, "off", {}))
        book.check("skipped", skip)
        book.check("broken", fail)
        book.about["driver"] = "1.2"
        report = json.loads(json.dumps(book.report()))
        self.assertEqual((report["passed"], report["failed"], report["skipped"], report["driver"]),
                         (1, 2, 1, "1.2"))
        self.assertEqual([i["status"] for i in report["items"]], ["PASS", "FAIL", "SKIP", "FAIL"])
        with open(self.options.out, encoding="utf-8") as f:
            self.assertEqual(json.load(f)["items"], report["items"])

    def test_budget(self):
        self.options.budget = 1
        book = harness.Book(self.options)
        book.check("late", lambda: (True, "", {}))
        self.assertEqual(book.items[0]["status"], "SKIP")

    def test_only(self):
        self.options.only = ["torch"]
        book = harness.Book(self.options)
        book.check("driver: cap", lambda: (True, "", {}))
        self.assertEqual(book.items, [])


class Start(Case):
    def test_what_does_not_start_is_in_the_result(self):
        out = os.path.join(self.scratch.name, "report.json")
        late = subprocess.TimeoutExpired("weir", 120)
        argv = ["check.py", "--weir", self.options.weir, "--no-agent", "--out", out]
        with mock.patch.object(check, "prepare", side_effect=late), \
                mock.patch.object(sys, "argv", argv):
            self.assertEqual(check.main(), 1)
        with open(out, encoding="utf-8") as f:
            items = json.load(f)["items"]
        self.assertEqual([(i["name"], i["status"]) for i in items], [("start", "FAIL")])


class Ends(unittest.TestCase):
    def end(self, driver, body):
        """How a process ends that opens the driver and runs body."""
        said, say = os.pipe()
        child = os.fork()
        if not child:
            with mock.patch.object(libcuda, "Driver", driver):
                facts_process.run_and_exit(7, body, say)
        os.close(say)
        os.close(said)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_only_who_finds_no_memory_is_left_out(self):
        def fails(code):
            def call(*_):
                raise libcuda.Error("call", code)

            return call

        def well(*_):
            return None

        self.assertEqual(self.end(well, well), 7)
        full = fails(libcuda.OUT_OF_MEMORY)
        for driver, body in ((full, well), (well, full)):
            self.assertEqual(self.end(driver, body), matrix.NO_MEMORY)
        for driver, body in ((fails(700), well), (well, fails(700)), (well, lambda _: 1 / 0)):
            self.assertEqual(self.end(driver, body), facts_process.FAILED)


class Frameworks(Case):
    """A framework's word is not enough: what it had is seen from outside."""

    def ran(self, most, **said):
        seen = types.SimpleNamespace(base=10, peak=10 + most)
        self.host.outside = types.SimpleNamespace(settled=lambda: 10,
                                                  peak=lambda: contextlib.nullcontext(seen))
        self.host.together = lambda *programs, seconds: [{"correct": True, "total_bytes": 100,
                                                          **said}]
        return matrix.framework(self.host, 100, "json", "jax_loop")

    def test_faults_are_seen(self):
        self.assertTrue(self.ran(100)[0])
        for most, said in ((101, {}), (50, {"correct": False}), (50, {"total_bytes": 101}),
                           (50, {"total_bytes": None})):
            holds, detail, values = self.ran(most, **said)
            self.assertFalse(holds, said)
            self.assertNotIn(";", detail)
            self.assertEqual(values["outside_peak_bytes"], most)


class Shares(unittest.TestCase):
    def test_sizes_have_units(self):
        """weir exec refuses one that has none."""
        self.assertEqual(harness.Share("5B").flags[:2], ["--memory", "5B"])
        with self.assertRaisesRegex(ValueError, "no unit"):
            harness.Share("5")


class Caps(unittest.TestCase):
    def test_faults_are_seen(self):
        good = {"total_bytes": 100, "reached_bytes": 90, "nvml_total_bytes": 100}
        self.assertEqual(matrix.cap_holds(good, 100), [])
        for wrong in ({"total_bytes": 101}, {"reached_bytes": 101}, {"reached_bytes": 10},
                      {"nvml_total_bytes": 200}):
            self.assertEqual(len(matrix.cap_holds({**good, **wrong}, 100)), 1, wrong)


if __name__ == "__main__":
    unittest.main()
