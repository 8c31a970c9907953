"""Tests of the measurement of quantised models; python -m unittest in this folder."""

import unittest

import int8


def taken(weir, ort, f32):
    times = {"weir": weir, "ort": ort, "f32": f32}
    return {side: [{"median_ms": t} for t in ts] for side, ts in times.items() if ts}


class Order(unittest.TestCase):
    def test_the_quantised_model_stands_beside_both_others(self):
        subject = int8.SUBJECTS["resnet50-qdq"]
        self.assertEqual(int8.sides(subject), ["ort", "weir", "f32"])
        self.assertEqual(int8.sides(subject, openvino=True), ["openvino", "ort", "weir", "f32"])
        self.assertEqual(int8.sides(int8.SUBJECTS["moonshine-encoder"]), ["ort", "weir"])

    def test_every_round_measures_every_side_with_every_number_of_threads(self):
        asked = []

        def launch(argv):
            asked.append(argv)
            return {"median_ms": 1.0}

        original, int8.measure.launch = int8.measure.launch, launch
        self.addCleanup(setattr, int8.measure, "launch", original)
        got = int8.measure.interleaved(lambda side, threads: (side, threads), (1, 2), 4,
                                       int8.sides(int8.SUBJECTS["resnet50-qdq"]))
        self.assertEqual({t: {s: len(m) for s, m in by_side.items()} for t, by_side in got.items()},
                         {t: {"ort": 4, "weir": 4, "f32": 4} for t in (1, 2)})
        self.assertEqual(asked[:6], [("ort", 1), ("weir", 1), ("f32", 1), ("ort", 2), ("weir", 2),
                                     ("f32", 2)])


class Bounds(unittest.TestCase):
    def missed(self, name, *times):
        return len(int8.part_of(int8.SUBJECTS[name], 1, taken(*times))["missed"])

    def test_both_bounds(self):
        self.assertEqual(self.missed("resnet50-qdq", [8.9, 8.9], [10, 10], [9, 9]), 0)
        self.assertEqual(self.missed("resnet50-qdq", [9.1, 9.1], [10, 10], [20, 20]), 1)
        self.assertEqual(self.missed("resnet50-qdq", [11, 11], [10, 10], [9, 9]), 2)

    def test_other_models_are_held_to_float32_alone(self):
        self.assertEqual(self.missed("ppocr-det-qdq", [11, 11], [10, 10], [12, 12]), 0)
        self.assertEqual(self.missed("ppocr-det-qdq", [11, 11], [20, 20], [10, 10]), 1)

    def test_models_without_float32(self):
        self.assertEqual(self.missed("moonshine-encoder", [8], [10], []), 0)
        self.assertEqual(self.missed("moonshine-encoder", [9.5], [10], []), 1)


class Outputs(unittest.TestCase):
    def test_disagreement(self):
        near, far = {"name": "y", "relative_l2": 0.1}, {"name": "z", "relative_l2": None}
        self.assertEqual(int8.disagreement([near]), "")
        self.assertIn("z", int8.disagreement([near, far]))

    def test_table(self):
        measured = taken([9.5], [10], [20])
        part = int8.part_of(int8.SUBJECTS["resnet50-qdq"], 1, measured)
        beside = int8.part_of(int8.SUBJECTS["resnet50-qdq"], 1,
                              measured | {"openvino": [{"median_ms": 19}]})
        result = {
            "date": "2026-01-02", "machine": "m", "cores": 2, "versions": {"weir": "weir 1"},
            "load_average_before": None, "load_average_after": [0.5, 1, 2],
            "settings": {"rounds": 1}, "models": [{
                "model": "resnet50-qdq", "status": "measured",
                "outputs": [{"name": "y", "cosine_f32": 0.99}], "threads": [part]
            }, {"model": "broken", "status": "failed", "error": "no kernel"}, {
                "model": "second", "status": "measured",
                "outputs": [{"name": "y"}], "threads": [beside]
            }]
        }
        lines = list(int8.table(result))
        self.assertRegex(
            "\n".join(lines),
            r"(?m)^resnet50-qdq +1 +9\.500 +10\.000 +20\.000 +0\.95 .* 0\.47 +0\.9900  MISSED: "
            r"0\.95"
        )
        self.assertIn("broken                   failed: no kernel", lines)
        self.assertRegex("\n".join(lines), r"(?m)^second .* 0\.47 +19\.000 +0\.50  MISSED")

    def test_cosine(self):
        try:
            import numpy  # noqa: F401
        except ImportError as error:
            self.skipTest(f"ONNX Runtime's environment is not active: {error}")
        self.assertAlmostEqual(int8.cosine([1, 0], [1, 1]), 0.5 ** 0.5)
        self.assertEqual(int8.cosine([0, 0], [0, 0]), 1)
        self.assertEqual(int8.cosine([0, 0], [0, 1]), 0)


if __name__ == "__main__":
    unittest.main()
