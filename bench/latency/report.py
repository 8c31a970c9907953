"""From measurements to a report: JSON and a table. Standard library only."""

import math

import rounds

# How tables name the peers.
PEERS = {"ort": "ORT", "openvino": "OpenVINO"}

FIELDS = [
    "median_ms", "min_ms", "p90_ms", "p99_ms", "load_ms", "first_output_ms",
    "first_output_without_import_ms", "peak_rss_bytes"
]


def by_threads(taken, runs):
    """The report's entries of one model, one for each number of threads, from measure.interleaved's
    result."""
    entries = []
    for threads, sides in taken.items():
        medians = {
            side: [m["median_ms"] for m in measurements]
            for side, measurements in sides.items()
        }
        beside = {"over_openvino": rounds.ratios(medians["weir"], medians["openvino"])
                  } if "openvino" in medians else {}
        entries.append({
            "threads": threads,
            "runs": runs.timed,
            "warmup": runs.warmup,
            **rounds.ratios(medians["weir"], medians["ort"]),
            **beside,
            **{
                side: rounds.median_by_field(measurements, FIELDS)
                for side, measurements in sides.items()
            },
            "rounds": sides,
        })
    return entries


def measured(entries):
    return [e for e in entries if e["status"] == "measured"]


def geometric_means(entries):
    """For each peer and number of threads: over how many models, and the geometric mean of their
    ratios."""
    found = {}
    for entry in measured(entries):
        for part in entry["threads"]:
            found.setdefault(("ort", part["threads"]), []).append(part["ratio"])
            if "over_openvino" in part:
                found.setdefault(("openvino", part["threads"]),
                                 []).append(part["over_openvino"]["ratio"])
    return [{"peer": p, "threads": t, "models": len(r), "ratio": rounds.geometric_mean(r)}
            for (p, t), r in found.items()]


def check_entry(check):
    """What the report keeps of the comparison's entry; JSON has no number for an infinite error, so
    it becomes null."""
    def number(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value

    outputs = [{k: number(v) for k, v in output.items()} for output in check["outputs"]]
    return {"status": check["status"], "outputs": outputs}


def disagreement(check):
    """What is wrong with the compared outputs, empty if nothing is."""
    return "; ".join(f"{o['name']}: {o['problem']}" for o in check["outputs"] if o["problem"])


def shape_text(inputs):
    """The shape of the first input, which is the one that work grows with."""
    return "x".join(map(str, inputs[0]["shape"])) or "scalar"


def pair(part, field, scale=1.0):
    """weir's and the peer's figure of one field, for two columns of 9."""
    return f"{part['weir'][field] / scale:9.1f} {part['ort'][field] / scale:9.1f}"


def openvino_columns(entry, part):
    """OpenVINO's time, the ratio and its quartiles; why there is none; or nothing."""
    if "over_openvino" in part:
        over = part["over_openvino"]
        return (f" {part['openvino']['median_ms']:10.3f} {over['ratio']:8.2f}  "
                f"{over['q1']:.2f} to {over['q3']:.2f}")
    return f"  {entry['openvino']}" if "openvino" in entry else ""


def latency_lines(entries):
    beside = any("over_openvino" in p for e in measured(entries) for p in e["threads"])
    yield (
        f"{'model':15} {'first input':14} {'threads':>7} {'runs':>5} {'weir ms':>10} "
        f"{'ORT ms':>10} {'weir/ORT':>8}  {'of rounds':12}"
        + (f" {'OpenVINO':>10} {'weir/OV':>8}  of rounds" if beside else ""))
    for entry in entries:
        if entry["status"] != "measured":
            yield f"{entry['model']:15} {entry['status']}: {entry['error']}"
            continue
        for part in entry["threads"]:
            yield (
                f"{entry['model']:15} {shape_text(entry['inputs']):14} {part['threads']:7} "
                f"{part['runs']:5} "
                f"{part['weir']['median_ms']:10.3f} {part['ort']['median_ms']:10.3f} "
                f"{part['ratio']:8.2f}  "
                f"{part['q1']:.2f} to {part['q3']:.2f}" + openvino_columns(entry, part))


def start_lines(entries):
    yield (
        f"{'':15} {'':7} {'load ms':>19}  {'first output ms':>19} {'without':>9}  "
        f"{'peak memory MiB':>19}"
    )
    yield (
        f"{'model':15} {'threads':>7} {'weir':>9} {'ORT':>9}  {'weir':>9} {'ORT':>9} {'import':>9} "
        f" "
        f"{'weir':>9} {'ORT':>9}")
    for entry in measured(entries):
        for part in entry["threads"]:
            yield (
                f"{entry['model']:15} {part['threads']:7} {pair(part, 'load_ms')}  "
                f"{pair(part, 'first_output_ms')} "
                f"{part['ort']['first_output_without_import_ms']:9.1f}  "
                f"{pair(part, 'peak_rss_bytes', 2**20)}"
            )


def counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def load_text(averages):
    return " ".join(f"{a:.2f}" for a in averages) if averages else "unknown"


def table(report):
    """The report as lines for people."""
    yield (f"{report['date']}, {report['machine']}, {report['cores']} cores, "
           f"{', '.join(report['versions'].values())}")
    yield (
        f"load average {load_text(report['load_average_before'])} before, "
        f"{load_text(report['load_average_after'])} after; "
        f"{report['settings']['rounds']} rounds, {report['settings']['precision']}, outputs "
        f"{'compared' if report['settings']['check'] else 'not compared'}"
    )
    yield ""
    yield from latency_lines(report["models"])
    for mean in report["geometric_means"]:
        yield (
            f"geometric mean of weir/{PEERS[mean['peer']]} over "
            f"{counted(mean['models'], 'model')}, "
            f"{counted(mean['threads'], 'thread')}: "
            f"{mean['ratio']:.3f}")
    if measured(report["models"]):
        yield ""
        yield from start_lines(report["models"])
