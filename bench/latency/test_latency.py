"""Tests of the measurement; python -m unittest in this folder. Those of inputs need the peer's
environment (README.md)."""

import argparse
import contextlib
import io
import json
import pathlib
import resource
import sys
import tempfile
import unittest
from unittest import mock

import common
import latency
import measure
import report
import rounds


class Machine(unittest.TestCase):
    def named(self, text):
        with mock.patch.object(common.pathlib.Path, "read_text", return_value=text), \
                mock.patch.object(common.platform, "machine", return_value="aarch64"):
            return common.machine_model()

    def test_a_processor_goes_by_its_name(self):
        self.assertEqual(self.named("processor\t: 0\nmodel name\t: EPYC\nmodel name\t: Xeon\n"),
                         "EPYC")

    def test_one_of_arm64_goes_by_its_numbers(self):
        self.assertEqual(self.named("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"),
                         "aarch64, CPU implementer 0x41, CPU part 0xd40")
        self.assertEqual(self.named("processor\t: 0\n"), "aarch64")


class Order(unittest.TestCase):
    def test_sides_alternate_who_is_first(self):
        got = [side for _, _, side in rounds.order(4, [1])]
        self.assertEqual(got, ["weir", "ort", "ort", "weir", "weir", "ort", "ort", "weir"])

    def test_every_round_has_every_thread_count_with_its_sides_adjacent(self):
        got = list(rounds.order(3, [1, 2]))
        self.assertEqual(len(got), 3 * 2 * 2)
        for first, second in zip(got[::2], got[1::2]):
            self.assertEqual(first[:2], second[:2])
            self.assertEqual({first[2], second[2]}, set(rounds.SIDES))

    def test_even_rounds_cancel_a_steady_drift(self):
        moments = {"weir": [], "ort": []}
        for moment, (_, _, side) in enumerate(rounds.order(6, [1])):
            moments[side].append(moment)
        self.assertEqual(sum(moments["weir"]), sum(moments["ort"]))


class Processor(unittest.TestCase):
    def ask(self, stdout):
        with mock.patch("subprocess.run", return_value=mock.Mock(stdout=stdout)) as run:
            got = common.processor("weir")
        self.assertEqual(run.call_args.args[0], ["weir", "device", "list", "--json"])
        return got

    def test_it_is_what_weir_tells(self):
        self.assertEqual(self.ask('{"devices": [], "processor": {"avx512": "half rate"}}'),
                         {"avx512": "half rate"})

    def test_a_weir_that_does_not_tell(self):
        self.assertIsNone(self.ask('{"devices": []}'))
        self.assertIsNone(self.ask(""))


class Statistics(unittest.TestCase):
    def test_runs_within(self):
        for latency_ms, want in [(10, 100), (0.001, 500), (5000, 5), (0, 500), (300, 5),
                                 (2.5, 400)]:
            with self.subTest(latency_ms=latency_ms):
                self.assertEqual(rounds.runs_within(latency_ms, 1000, least=5, most=500), want)

    def test_ratios_of_equal_sides_are_one(self):
        got = rounds.ratios([3.0, 5.0, 9.0], [3.0, 5.0, 9.0])
        self.assertEqual((got["ratio"], got["q1"], got["q3"], got["by_round"]),
                         (1, 1, 1, [1, 1, 1]))

    def test_ratios(self):
        got = rounds.ratios([2.0, 4.0, 6.0, 100.0], [1.0, 2.0, 4.0, 50.0])
        self.assertAlmostEqual(got["ratio"], 5 / 3)
        self.assertEqual(got["by_round"], [2, 2, 1.5, 2])
        self.assertEqual((got["q1"], got["q3"]), (1.875, 2))

    def test_a_round_that_slows_both_sides_moves_no_round_ratio(self):
        calm = rounds.ratios([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
        noisy = rounds.ratios([2.0, 8.0, 2.0], [1.0, 4.0, 1.0])
        self.assertEqual(calm, noisy)

    def test_one_round_has_no_spread(self):
        got = rounds.ratios([3.0], [2.0])
        self.assertEqual((got["ratio"], got["q1"], got["q3"]), (1.5, 1.5, 1.5))

    def test_rounds_must_pair(self):
        with self.assertRaises(ValueError):
            rounds.ratios([1.0, 2.0], [1.0])

    def test_geometric_mean(self):
        self.assertAlmostEqual(rounds.geometric_mean([2.0, 0.5]), 1)
        self.assertAlmostEqual(rounds.geometric_mean([1.0, 10.0, 100.0]), 10)
        values = [0.7, 1.3, 2.9]
        self.assertAlmostEqual(rounds.geometric_mean(values),
                               1 / rounds.geometric_mean([1 / v for v in values]))

    def test_median_by_field_leaves_out_what_a_side_does_not_tell(self):
        got = rounds.median_by_field([{"a": 1, "b": 5}, {"a": 3, "b": 7}, {"a": 2}],
                                     ["a", "b", "c"])
        self.assertEqual(got, {"a": 2})


class Commands(unittest.TestCase):
    subject = measure.Subject(pathlib.Path("m.onnx"),
                              {"x": pathlib.Path("in0.npy"), "a=b": pathlib.Path("in1.npy")})

    def test_both_sides_are_told_the_same(self):
        weir = measure.command("weir", "bin/weir", self.subject, measure.Runs(7, 3), 2)
        self.assertEqual(weir, [
            "bin/weir", "bench", "m.onnx", "--json", "--runs", "7", "--warmup", "3", "--threads",
            "2", "--precision", "fp32", "--input", "x=in0.npy", "--input", "a=b=in1.npy"
        ])
        ort = measure.command("ort", "bin/weir", self.subject, measure.Runs(7, 3), 2)
        self.assertEqual(ort, [
            sys.executable,
            str(measure.PEER_BENCH), "ort", "m.onnx", "7", "3", "2", "fp32", "x=in0.npy",
            "a=b=in1.npy"
        ])

    def test_precision_is_told_to_both(self):
        runs = measure.Runs(7, 3, "bf16")
        weir = measure.command("weir", "bin/weir", self.subject, runs, 2)
        self.assertEqual(weir[weir.index("--precision") + 1], "bf16")
        openvino = measure.command("openvino", "bin/weir", self.subject, runs, 2)
        self.assertEqual((openvino[2], openvino[7]), ("openvino", "bf16"))

    def commands(self, side, threads):
        return measure.command(side, "weir", self.subject, measure.Runs(5, 1), threads)

    def test_interleaved_keeps_each_round(self):
        def launch(argv):
            return {"median_ms": 2.0 if "bench" in argv else 1.0, "argv": argv}

        with mock.patch.object(measure, "launch", launch):
            taken = measure.interleaved(self.commands, [1, 2], 4)
        self.assertEqual({t: {s: len(m) for s, m in sides.items()} for t, sides in taken.items()},
                         {1: {"weir": 4, "ort": 4}, 2: {"weir": 4, "ort": 4}})
        self.assertTrue(all("--threads" in m["argv"] and "2" in m["argv"]
                            for m in taken[2]["weir"]))

    def test_three_sides_are_measured_with_weir_in_the_middle(self):
        asked = []

        def launch(argv):
            asked.append("weir" if "bench" in argv else argv[2])
            return {"median_ms": 1.0}

        with mock.patch.object(measure, "launch", launch):
            taken = measure.interleaved(self.commands, [1], 2, rounds.THREE_SIDES)
        self.assertEqual(asked, ["openvino", "weir", "ort", "ort", "weir", "openvino"])
        self.assertEqual({s: len(m) for s, m in taken[1].items()},
                         {"openvino": 2, "weir": 2, "ort": 2})

    def test_a_model_that_openvino_refuses_says_why(self):
        with mock.patch.object(measure, "launch", side_effect=measure.Failed("no such layer")):
            self.assertEqual(common.refusal("weir", self.subject, 1), "no such layer")
        with mock.patch.object(measure, "launch", return_value={}):
            self.assertIsNone(common.refusal("weir", self.subject, 1))

    def test_the_slower_side_decides_how_long_is_measured(self):
        with mock.patch.object(measure, "launch",
                               lambda argv: {"median_ms": 2.0 if "bench" in argv else 30.0}):
            self.assertEqual(measure.trial("weir", self.subject, 1), 30)


class Launch(unittest.TestCase):
    def python(self, program, **keywords):
        return measure.launch([sys.executable, "-c", program], **keywords)

    def test_json_comes_back(self):
        self.assertEqual(self.python("print('{\"a\": 1}')"), {"a": 1})

    def test_failures_say_why(self):
        for program, words in [("import sys; sys.exit('no such model')", "exit 1: no such model"),
                               ("print('hello')", "no JSON"),
                               ("import sys; sys.exit(3)", "exit 3: no message")]:
            with self.subTest(program=program), self.assertRaisesRegex(measure.Failed, words):
                self.python(program)

    def test_a_measurement_without_end_is_ended(self):
        with self.assertRaisesRegex(measure.Failed, "no result within 0.2 s"):
            self.python("import time; time.sleep(600)", timeout_s=0.2)

    @unittest.skipUnless(sys.platform == "linux", "kilobytes on Linux only")
    def test_peak_memory_is_the_measured_process_own(self):
        block = bytearray(b"\1") * (200 << 20)
        program = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        self.assertGreater(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(block) >> 10)
        self.assertLess(self.python(program), 100 << 10)


def measurement(median_ms, **more):
    return {
        "median_ms": median_ms, "load_ms": 1.0, "first_output_ms": 2.0, "peak_rss_bytes": 2**20,
        **more
    }


def entry(model, ratio, openvino=None):
    ort = [measurement(1.0, first_output_without_import_ms=1.5)] * 2
    taken = {1: {"weir": [measurement(ratio)] * 2, "ort": ort}}
    if openvino:
        taken[1]["openvino"] = [measurement(openvino)] * 2
    return {
        "model": model, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 8]}],
        "status": "measured", "threads": report.by_threads(taken, measure.Runs(5, 1))
    }


class Report(unittest.TestCase):
    failed = {"model": "broken", "status": "failed", "error": "exit 1: no kernel"}

    def test_geometric_mean_leaves_out_failed_models(self):
        got = report.geometric_means([entry("a", 2.0), self.failed, entry("b", 0.5)])
        self.assertEqual([(m["peer"], m["threads"], m["models"]) for m in got], [("ort", 1, 2)])
        self.assertAlmostEqual(got[0]["ratio"], 1)

    def test_openvino_has_a_mean_of_its_own(self):
        got = report.geometric_means([entry("a", 2.0, 4.0), entry("b", 2.0), entry("c", 2.0, 1.0)])
        self.assertEqual([(m["peer"], m["models"]) for m in got], [("ort", 3), ("openvino", 2)])
        self.assertAlmostEqual(got[1]["ratio"], 1)

    def test_nothing_measured_has_no_mean(self):
        self.assertEqual(report.geometric_means([self.failed]), [])

    def test_table_and_json(self):
        refused = entry("c", 2.0) | {"openvino": "exit 1: no layer"}
        entries = [entry("a", 2.0), self.failed, entry("b", 2.0, 4.0), refused]
        whole = {
            "date": "2026-01-02", "machine": "m", "cores": 2, "versions": {"weir": "weir 1"},
            "load_average_before": None, "load_average_after": [0.5, 1, 2],
            "settings": {"rounds": 2, "check": True, "precision": "fp32"},
            "geometric_means": report.geometric_means(entries), "models": entries
        }
        self.assertEqual(json.loads(json.dumps(whole, allow_nan=False)), whole)
        lines = list(report.table(whole))
        self.assertRegex("\n".join(lines),
                         r"(?m)^a +1x8 +1 +5 +2\.000 +1\.000 +2\.00  2\.00 to 2\.00$")
        self.assertRegex("\n".join(lines),
                         r"(?m)^b .* 2\.00 to 2\.00 +4\.000 +0\.50  0\.50 to 0\.50$")
        self.assertRegex("\n".join(lines), r"(?m)^c .* 2\.00 to 2\.00  exit 1: no layer$")
        self.assertIn("broken          failed: exit 1: no kernel", lines)
        self.assertIn("geometric mean of weir/ORT over 3 models, 1 thread: 2.000", lines)
        self.assertIn("geometric mean of weir/OpenVINO over 1 model, 1 thread: 0.500", lines)

    def test_check(self):
        check = {
            "status": "failed",
            "outputs": [{"name": "y", "relative_l2": float("inf"), "problem": "dtype"},
                        {"name": "z", "relative_l2": 1e-6, "problem": ""}]
        }
        self.assertEqual(report.disagreement(check), "y: dtype")
        kept = report.check_entry(check)["outputs"]
        self.assertEqual([o["relative_l2"] for o in kept], [None, 1e-6])


class Options(unittest.TestCase):
    def parse(self, *arguments):
        return latency.make_parser().parse_args(arguments)

    def test_effort(self):
        self.assertEqual(latency.effort_of(self.parse()), latency.FULL)
        self.assertEqual(latency.effort_of(self.parse("--quick")), latency.QUICK)
        given = latency.effort_of(self.parse("--quick", "--rounds", "4", "--threads", "2"))
        self.assertEqual((given.rounds, given.threads, given.budget_ms),
                         (4, (2, ), latency.QUICK.budget_ms))
        for effort in latency.FULL, latency.QUICK:
            self.assertEqual(effort.rounds % 2, 0)

    def test_threads(self):
        self.assertEqual(self.parse("--threads", "1,4").threads, (1, 4))
        for text in ["", "0", "1,1", "two", "-1", "1,"]:
            with self.subTest(text=text), self.assertRaises(argparse.ArgumentTypeError):
                common.thread_counts(text)

    def test_numbers(self):
        for text in ["0", "-3", "1.5", "many", ""]:
            with self.subTest(text=text), contextlib.redirect_stderr(
                    io.StringIO()), self.assertRaises(SystemExit) as ended:
                self.parse("--rounds", text)
            self.assertEqual(ended.exception.code, common.EXIT_USAGE)

    def test_a_peer_that_cannot_be_installed_is_said_by_the_exit_code(self):
        error = common.environment.NotInstallable("no registry")
        with mock.patch.object(sys, "argv", ["latency.py"]), \
                mock.patch.object(common.environment, "enter", side_effect=error), \
                mock.patch.object(common.signal, "signal"), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(common.command(latency.make_parser(), latency.run),
                             common.EXIT_UNREACHABLE)
        self.assertIn("no registry", said.getvalue())


class Workloads(unittest.TestCase):
    def setUp(self):
        try:
            import workloads
        except ImportError as error:
            self.skipTest(f"ONNX Runtime's environment is not active: {error}")
        self.workloads = workloads

    def test_trained_models_get_one_item_at_the_shapes_of_use(self):
        want = {
            "ppocr-det": (1, 3, 640, 640), "ppocr-rec": (1, 3, 48, 320),
            "ppocr-cls": (1, 3, 48, 192), "silero-vad-v5": (1, 512),
            "ddddocr-common": (1, 1, 64, 160), "ddddocr-det": (1, 3, 416, 416),
            "moonshine-encoder": (1, 16000), "minilm": (1, 128), "magika": (1, 2048),
            "digits": (1, 1, 8, 8)
        }
        self.assertEqual(set(want), set(self.workloads.TRAINED))
        for name, shape in want.items():
            with self.subTest(name=name):
                feeds = self.workloads.first_inference(name, None)
                self.assertEqual(next(iter(feeds.values())).shape, shape)

    def test_standard_models(self):
        session = mock.Mock()
        for name, inputs, want in [
            ("resnet50", {"x": ["n", 3, 224, 224]}, (1, 3, 224, 224)),
            ("yolov8n", {"images": [None, 3, None, None]}, (1, 3, 640, 640)),
            ("bert-base", {"input_ids": ["n", "t"], "attention_mask": ["n", "t"]}, (1, 128)),
        ]:
            session.get_inputs.return_value = [mock.Mock(shape=s) for s in inputs.values()]
            for declared, input_name in zip(session.get_inputs.return_value, inputs):
                declared.name = input_name
            with self.subTest(name=name):
                feeds = self.workloads.first_inference(name, session)
                self.assertEqual({k: v.shape
                                  for k, v in feeds.items()}, dict.fromkeys(inputs, want))

    def test_light_models_get_weights_that_tell_classes_apart(self):
        import onnx

        light = self.workloads.light
        for name in "squeezenet", "shufflenet", "densenet121":
            with self.subTest(name=name), tempfile.TemporaryDirectory() as scratch:
                file = pathlib.Path(scratch) / "model.onnx"
                light.write(name, file)
                graph = onnx.load(file).graph
                self.assertNotIn("ConstantOfShape", {n.op_type for n in graph.node})
                session = self.workloads.compare.peer_session(file)
                (scores,) = session.run(None, self.workloads.first_inference(name, session))
                self.assertGreater(len(set(scores.ravel().tolist())), scores.size // 2)

    def test_light_refuses_operators_whose_weights_it_does_not_know(self):
        with self.assertRaises(ValueError):
            self.workloads.light.weights(None, ("Div", 1), [3])

    def test_peer_bench_on_a_real_model(self):
        feeds = self.workloads.first_inference("digits", None)
        with tempfile.TemporaryDirectory() as scratch:
            subject = measure.Subject(self.workloads.compare.DIGITS,
                                      self.workloads.save(feeds, scratch))
            got = measure.launch(measure.peer_command("ort", subject, measure.Runs(9, 2), 1))
        self.assertLessEqual(got["min_ms"], got["median_ms"])
        self.assertLessEqual(got["median_ms"], got["p99_ms"])
        self.assertLess(got["load_ms"], got["first_output_without_import_ms"])
        self.assertLess(got["first_output_without_import_ms"], got["first_output_ms"])
        self.assertEqual((got["runs"], got["threads"]), (9, 1))


if __name__ == "__main__":
    unittest.main()
