#!/usr/bin/env python3
"""Fetch ONNX's own backend tests out of the onnx package of PyPI, and print their folder.

The version and the SHA-256 of the wheel are those of requirements-cases.txt; no
code of the package runs. The folder lies in the user's cache and is what
WEIR_ONNX_TESTDATA wants to name. Standard library only.

Exit codes: 0 the folder is printed; 1 the package is not what it was; 3 the
registry does not answer, or there is no pip.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import environment
import fetch

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements-cases.txt"
DATA = "onnx/backend/test/data/"
# The host's own system and Python do not matter, so that one checksum is enough.
WHEEL = [
    "--no-deps", "--only-binary=:all:", "--platform=manylinux_2_27_x86_64",
    "--platform=manylinux_2_28_x86_64", "--python-version=3.12", "--implementation=cp"
]


def directory():
    """One folder per version."""
    return environment.cache_directory(
    ) / f"onnx-cases-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]}"


def unpack(wheel, to):
    """Write what lies below DATA into a folder. ZipFile.extract keeps names within it."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(DATA):
                archive.extract(name, to)


def fetched():
    """The folder of the cases, fetched if it is not there. Raises fetch.Unreachable or
    fetch.Changed."""
    place = directory()
    if (place / "node").is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", *WHEEL,
                   "--dest", scratch, "--requirement", str(REQUIREMENTS)]
        try:
            done = subprocess.run(command,
                                  capture_output=True,
                                  text=True,
                                  timeout=fetch.TOOL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise fetch.Unreachable(f"no answer within {fetch.TOOL_TIMEOUT_S} s") from None
        if done.returncode != 0:
            kind = fetch.Changed if "DO NOT MATCH" in done.stderr else fetch.Unreachable
            raise kind(fetch.gist(done.stderr))
        unpack(next(pathlib.Path(scratch).glob("*.whl")), scratch)
        try:
            os.rename(pathlib.Path(scratch) / DATA, place)
        except OSError:
            if not (place / "node").is_dir():  # another process may have been quicker
                raise
    return place


def main():
    try:
        print(fetched())
    except fetch.Changed as error:
        print(f"the onnx package is not the one that is pinned: {error}", file=sys.stderr)
        return fetch.EXIT_CHANGED
    except fetch.Unreachable as error:
        print(f"ONNX's own cases cannot be fetched: {error}", file=sys.stderr)
        return fetch.EXIT_UNREACHABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
