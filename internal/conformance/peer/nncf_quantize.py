#!/usr/bin/env python3
"""Quantise a model with NNCF: nncf_quantize.py SOURCE.onnx FEEDS.npz TARGET.onnx.

The inputs of one inference calibrate it. Needs the environment of requirements-nncf.txt.
"""

import sys

import nncf
import numpy as np
import onnx
import onnx.version_converter

# The first whose QuantizeLinear has a scale for each channel.
OPSET = 13


def main():
    source, feeds, target = sys.argv[1:]
    model = onnx.load(source)
    if model.opset_import[0].version < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
    dataset = nncf.Dataset([dict(np.load(feeds))])
    quantised = nncf.quantize(model, dataset, preset=nncf.QuantizationPreset.MIXED,
                              subset_size=1)
    onnx.save(quantised, target)


if __name__ == "__main__":
    main()
