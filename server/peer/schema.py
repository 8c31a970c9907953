"""schemathesis asks weir up what its OpenAPI description allows, and what that does not.

    python3 server/peer/schema.py                       20,000 cases or so
    python3 server/peer/schema.py --cases 100000        as many as the evidence has
    python3 server/peer/schema.py --protocol FILE       holds openapi.py against the protocol's file

A virtual environment with schemathesis is made in the user's cache, weir is built, and asked on a
free port of this machine; models that it unloads are loaded again meanwhile. An answer is wrong if
it is a fault of the server (any 5xx but 501 and 503, which mean that something is not served), has
a status, type or form that openapi.py does not name, or names methods that are not there. The
server must be alive at the end, and must never have had more than --memory MiB. The exit code is 1
if anything went wrong, and 3 where a registry does not answer.
"""

import argparse
import contextlib
import http.client
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "internal" / "conformance" / "peer")]

import environment  # noqa: E402
import openapi  # noqa: E402
import place  # noqa: E402

FLAGS = ["--id", "triton", "--shared-memory", "/weir-schema-"]
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_schema_conformance,unsupported_method,allow_header_conformance")
CONFIG = """[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "501", "503"]
"""
# A server that shares its machine may not run for minutes; schemathesis asks an operation no more
# after its own limit of 10 s, so that a round would have a fraction of its cases.
REQUEST_TIMEOUT_S = 180
LOOK_S, LOOKS_A_LOAD, LOAD_TIMEOUT_S = 0.05, 4, 30


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="about how many")
    parser.add_argument("--round", type=int, default=10_000, metavar="CASES",
                        help="about how many until it says how it went; fewer, where it may be "
                        "stopped")
    parser.add_argument("--seed", type=int, default=1, help="of what is generated")
    parser.add_argument("--workers", type=int, default=1,
                        help="threads that ask; with several, Python 3.11 may fail to compile what "
                        "they generate")
    parser.add_argument("--memory", type=int, default=512, metavar="MIB",
                        help="the most that the server may have")
    parser.add_argument("--weir", type=pathlib.Path, metavar="FILE",
                        help="the command, where it is built already")
    parser.add_argument("--protocol", type=pathlib.Path, metavar="FILE",
                        help="specification/protocol/open_inference_rest.yaml of the protocol")
    return parser.parse_args()


class Beside(threading.Thread):
    """What is done while a server is asked: its memory is looked at, and its models are loaded."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.most, self.over = server, 0, threading.Event()

    def run(self):
        looks = 0
        while not self.over.wait(LOOK_S):
            try:
                self.most = max(self.most, self.server.memory())
                if looks % LOOKS_A_LOAD == 0:
                    self.load(openapi.MODELS[looks // LOOKS_A_LOAD % len(openapi.MODELS)])
            except (OSError, StopIteration, http.client.HTTPException):
                if not self.server.alive():
                    return  # which is found later
            looks += 1

    def load(self, model):
        ask = http.client.HTTPConnection(self.server.http, timeout=LOAD_TIMEOUT_S)
        with contextlib.closing(ask):
            ask.request("POST", f"/v2/repository/models/{model}/load")
            ask.getresponse().read()


def rounds(server, folder, asked):
    """Let schemathesis ask until there were as many cases as wanted, each round from a seed of its
    own, and return how many there were, and whether all went well."""
    cases, well, number = 0, True, 0
    while cases < asked.cases and server.alive():
        some, code = ask(server, folder, asked, min(asked.cases - cases, asked.round), number)
        cases, well, number = cases + some, well and code == 0 and some > 0, number + 1
        print(f"round {number}: {cases} cases until now", flush=True)
        if some == 0:
            break
    return cases, well


def ask(server, folder, asked, cases, number):
    """Let schemathesis ask, and return how many cases there were, and its exit code."""
    paths = openapi.description()
    (folder / "openapi.json").write_text(json.dumps(paths))
    (folder / "schemathesis.toml").write_text(CONFIG)
    operations = sum(len(item.keys() & {"get", "post"}) for item in paths["paths"].values())
    each = max(1, math.ceil(cases / operations))
    # the phases before are the same in each round
    phases = "fuzzing" if number else "examples,coverage,fuzzing"
    command = [
        pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file",
        folder / "schemathesis.toml", "run", folder / "openapi.json", "--url",
        "http://" + server.http, "--checks", CHECKS, "--phases", phases, "--max-examples", each,
        "--seed", asked.seed + number, "--workers", asked.workers, "--suppress-health-check", "all",
        "--no-shrink", "--warnings", "off", "--continue-on-failure", "--no-color",
        "--request-timeout", REQUEST_TIMEOUT_S
    ]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=folder)
    print(done.stdout, done.stderr, flush=True)
    cases = re.search(r"([\d,]+) generated", done.stdout)
    return int(cases[1].replace(",", "")) if cases else 0, done.returncode


def hold(file):
    """Hold the paths of the protocol's own file against those that are described."""
    lines = file.read_text().splitlines()
    named = {re.sub(r"\$?\{MODEL_(\w+)\}", r"{\1}", m[1]).replace("{NAME}", "{MODEL}").rstrip("/")
             for m in (re.match(r"  '?(/v2[^':]*)'?:", line) for line in lines) if m}
    missing = sorted(named - openapi.description()["paths"].keys())
    print(f"{len(named)} paths of the protocol; not described: {', '.join(missing) or 'none'}")
    return not missing and bool(named)


def routes():
    """Whether all that the server answers below /v2 is described."""
    printed = subprocess.run(["go", "run", "-trimpath", "./server/peer/fuzz", "-patterns"],
                             cwd=place.ROOT, check=True, capture_output=True, text=True).stdout
    paths = openapi.description()["paths"]
    known = {f"{method} {path}".upper() for path, item in paths.items() for method in item}
    missing = [p for p in printed.split("\n") if " /v2" in p and p.upper() not in known]
    print(f"endpoints that are not described: {', '.join(missing) or 'none'}")
    return not missing and bool(printed)


def main():
    asked = arguments()
    environment.enter_or_exit(HERE / "requirements-schema.txt")
    well = routes() and (not asked.protocol or hold(asked.protocol))
    with tempfile.TemporaryDirectory(prefix="weir-schema-") as made:
        folder = pathlib.Path(made)
        weir = asked.weir or place.build(folder)
        with place.Server(weir, place.models(folder / "models"), *FLAGS) as server:
            before = server.memory()
            beside = Beside(server)
            beside.start()
            cases, good = rounds(server, folder, asked)
            beside.over.set()
            alive = server.alive()
            after = server.memory() if alive else 0
    print(f"{cases} cases; memory {before >> 20} MiB before, {beside.most >> 20} MiB at most, "
          f"{after >> 20} MiB after; the server is {'alive' if alive else 'DEAD'}")
    well = well and alive and good and beside.most <= asked.memory << 20
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
