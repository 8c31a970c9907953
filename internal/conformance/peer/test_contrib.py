"""Tests of the comparison operator by operator, in the environment of the peer; exit code 3 says
that it cannot be had."""

import pathlib
import tempfile
import unittest

import environment

if __name__ == "__main__":
    environment.enter_or_exit()

try:
    import numpy as np

    import contrib
    from contrib_cases import RECIPES, Call, pack
except ImportError as error:
    raise unittest.SkipTest(f"ONNX Runtime's environment is not active: {error}") from None


class Difference(unittest.TestCase):
    def test_values(self):
        for got, want, steps, agrees in [
            (np.float32([1, 2]), np.float32([1, 2 + 1e-5]), 0, True),
            (np.float32([1, 2]), np.float32([1, 2.1]), 0, False),
            (np.float32([np.nan]), np.float32([np.nan]), 0, True),
            (np.float32([1]), np.float64([1]), 0, False),
            (np.float32([1]), np.float32([[1]]), 0, False),
            (np.uint8([3, 9]), np.uint8([3, 10]), 1, True),
            (np.uint8([3, 9]), np.uint8([3, 10]), 0, False),
            (np.uint8([0]), np.uint8([255]), 1, False),
            (np.int64([3]), np.int64([4]), 1, False),
        ]:
            with self.subTest(got=got, want=want, steps=steps):
                self.assertEqual(
                    contrib.difference(Call([], steps=steps), [got], [want]) == "", agrees)

    def test_only_valid_elements_count(self):
        call = Call([], valid=np.array([True, False]))
        self.assertEqual(contrib.difference(call, [np.float32([1, 5])], [np.float32([1, 6])]), "")
        self.assertIn("differ", contrib.difference(call, [np.float32([2, 5])],
                                                   [np.float32([1, 5])]))


class Recipes(unittest.TestCase):
    def test_models_are_the_same_each_time(self):
        for operator in RECIPES:
            a, b = (contrib.build(operator, RECIPES[operator](np.random.default_rng(3)))[0]
                    for _ in range(2))
            self.assertEqual(a.SerializeToString(), b.SerializeToString(), operator)

    def test_left_out_operands(self):
        model, feeds = contrib.build(
            "X", Call([np.float32(1), None, np.float32(2), None], constant=(2, )))
        self.assertEqual(list(model.graph.node[0].input), ["x0", "", "x2"])
        self.assertEqual(list(feeds), ["x0"])
        self.assertEqual([t.name for t in model.graph.initializer], ["x2"])

    def test_pack(self):
        self.assertEqual(pack(np.array([1, 2, 3]), 4).tolist(), [0x21, 0x03])
        self.assertEqual(pack(np.array([7, 9]), 8).tolist(), [7, 9])


class Isolated(unittest.TestCase):
    def test_results_and_failures(self):
        self.assertEqual(contrib.isolated(lambda: [1]), [1])
        with self.assertRaisesRegex(contrib.Refused, "no such thing"):
            contrib.isolated(self.fail, "no such thing")

    def test_write_case(self):
        with tempfile.TemporaryDirectory() as scratch:
            call = Call([np.float32([1])])
            model, feeds = contrib.build("Gelu", call)
            contrib.write_case(
                pathlib.Path(scratch) / "case", model, call, feeds, [np.float32([1])])
            self.assertEqual(len(list(pathlib.Path(scratch).rglob("*.pb"))), 2)


if __name__ == "__main__":
    unittest.main()
