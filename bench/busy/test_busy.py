"""Tests of this folder: python3 -m unittest. They need no peer."""

import contextlib
import io
import itertools
import pathlib
import subprocess
import sys
import time
import unittest
from unittest import mock

import burner
import busy

SUBJECT = busy.measure.Subject(pathlib.Path("m.onnx"), {})
RUNS = busy.measure.Runs(5, 1)


def measurement(median_ms):
    return {"median_ms": median_ms, "load_ms": 1.0, "first_output_ms": 2.0, "peak_rss_bytes": 2**20}


class Burning(unittest.TestCase):
    def test_burners_compute_and_end(self):
        with burner.Burners(1) as burners:
            (process,) = burners.processes
            used, until = 0.0, time.monotonic() + 20
            with burners.metered() as got:
                while not used and time.monotonic() < until:
                    used = burner.cpu_seconds(process.pid)
                    if used is None:
                        self.skipTest("this system has no /proc")
            self.assertGreater(used, 0)
        self.assertIsNotNone(process.returncode)
        self.assertGreaterEqual(got.cores, 0)

    def test_a_burner_ends_with_its_parent(self):
        program = ("import subprocess, sys, burner, os\n"
                   "p = burner.Burners(1).start(0)\nprint(p.pid, flush=True)\nos._exit(0)")
        done = subprocess.run([sys.executable, "-c", program],
                              capture_output=True,
                              text=True,
                              timeout=20,
                              cwd=pathlib.Path(__file__).parent)
        pid, until = int(done.stdout), time.monotonic() + 20
        while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())

    def test_none_burn_alone(self):
        with burner.Burners(0) as burners, burners.metered() as got:
            self.assertEqual(burners.processes, [])
        self.assertEqual(got.cores, 0)


class Taking(unittest.TestCase):
    def test_states_and_sides_alternate(self):
        order, states = [], itertools.count()

        class Counted(burner.Burners):
            def __enter__(self):
                order.append((next(states), "burners", self.count))
                self.count = 0
                return super().__enter__()

        def launch(argv):
            order.append("weir" if "bench" in argv else "ort")
            return measurement(1.0)

        options = busy.make_parser().parse_args(["--rounds", "4", "--burners", "3"])
        with mock.patch.object(busy, "Burners", Counted), \
                mock.patch.object(busy.measure, "launch", launch):
            taken = busy.take("weir", SUBJECT, RUNS, options)
        pair = ["weir", "ort", "ort", "weir"]
        self.assertEqual(order, [(0, "burners", 0), *pair, (1, "burners", 3), *pair,
                                 (2, "burners", 0), *pair, (3, "burners", 3), *pair])
        self.assertEqual({len(ms) for sides in taken.values() for ms in sides.values()}, {4})


class Reporting(unittest.TestCase):
    def result(self, ratio, failed=False):
        taken = {
            state: {
                "weir": [measurement(2 * ratio) | {"burner_cores": 0.5}] * 2,
                "ort": [measurement(2.0) | {"burner_cores": 0.7}] * 2
            }
            for state in busy.STATES
        }
        entry = {
            "model": "a", "inputs": [], "status": "measured",
            "states": busy.summary(taken, RUNS, 2)
        }
        if failed:
            entry = {"model": "a", "status": "failed", "error": "exit 1"}
        options = busy.make_parser().parse_args(["a"])
        with mock.patch.dict(sys.modules, {"compare": mock.Mock()}), \
                mock.patch.object(busy.common, "attempt", lambda *_: entry), \
                mock.patch.object(busy.common, "versions", lambda *_: {"weir": "weir 1"}):
            return busy.measure_all(options, ["a"], "weir")

    def test_the_bound_decides(self):
        for ratio, held in [(0.6, True), (0.75, True), (0.76, False)]:
            got = self.result(ratio)
            self.assertAlmostEqual(got["ratio"], ratio)
            self.assertIs(got["held"], held)
            self.assertIn("held" if held else "MISSED", list(busy.table(got))[-1])

    def test_a_failed_model_holds_no_bound(self):
        got = self.result(0.1, failed=True)
        self.assertFalse(got["held"])
        self.assertIn("a               failed: exit 1", list(busy.table(got)))

    def test_the_table_says_what_the_busy_process_got(self):
        self.assertRegex("\n".join(busy.table(self.result(0.5))),
                         r"a +busy +1\.000 +2\.000 +0\.50 .* weir 0\.50, ORT 0\.70")


class Options(unittest.TestCase):
    def test_rounds_are_even(self):
        modules = {"compare": mock.Mock(), "workloads": mock.Mock(MODELS=["resnet50"])}
        with mock.patch.dict(sys.modules, modules), \
                contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            parser = busy.make_parser()
            busy.run(parser.parse_args(["--rounds", "3"]), parser)
        self.assertIn("even", said.getvalue())


if __name__ == "__main__":
    unittest.main()
