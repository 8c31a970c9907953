"""Tests of the harness itself, without a GPU and without weir: python3 -m unittest discover -s gpu
"""

import json
import os
import sys
import tempfile
import textwrap
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness
import matrix

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


class Caps(unittest.TestCase):
    def test_faults_are_seen(self):
        good = {"total_bytes": 100, "reached_bytes": 90, "nvml_total_bytes": 100}
        self.assertEqual(matrix.cap_holds(good, 100), [])
        for wrong in ({"total_bytes": 101}, {"reached_bytes": 101}, {"reached_bytes": 10},
                      {"nvml_total_bytes": 200}):
            self.assertEqual(len(matrix.cap_holds({**good, **wrong}, 100)), 1, wrong)


if __name__ == "__main__":
    unittest.main()
