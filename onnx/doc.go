// Package onnx reads models in the ONNX format into graphs and writes graphs as ONNX models.
//
// Meet first: [Open] maps a file and gives a [Model], whose Graph is ready to evaluate, optimise or
// plan; [Decode] does the same for bytes in memory; [Write] and [WriteFile] are the way back;
// [DecodeTensor], [EncodeTensor], [DecodeValue] and [EncodeValue] handle the single values that
// ONNX keeps in .pb files.
//
// Weights are not copied: the tensors of a graph are views of the mapped file, or of the mapped
// files of external data, so a model of many gigabytes opens in milliseconds and its pages are
// shared by all processes that map it. They are valid until [Model.Close].
//
// Reading brings models to one form, so that the rest of weir meets no other: initialisers and
// Constant nodes become constant values; initialisers that are also listed as inputs are constants;
// sub-graphs become closed graphs whose captures are explicit inputs; model-local functions are
// expanded where they are called; nodes without a name get one; the operators that opset 7 changed
// (NumPy's broadcasting) are rewritten from older models where that is exact.
//
// On the way out captures become references to outer names again, constants that several graphs
// share are written once, weir's fused operators come with functions that define them in ONNX's own
// operators, and weights that one file cannot hold go to a file next to it.
//
// The format is that of onnx.proto3 of the ONNX project (IR version 3 and later); the wire format
// is read with protowire, since generated messages would copy every weight.
//
// Concurrency: reading and writing share no state. A Model may be used by any number of goroutines
// until Close.
//
// What it refuses, each with the file and the node, tensor or operator in the error: bytes that are
// not an ONNX model ([ErrFormat]), external data that is missing, short or outside of the model's
// folder ([ErrExternalData]), operator sets that are not declared ([ErrOpset]), and what weir has
// no notion of, such as opaque types, sparse tensors of unreasonable size, and operators or
// versions without a row in internal/op (op.ErrUnsupported). No input, however broken, makes it
// panic or allocate out of proportion to its size.
//
// Files are mapped, unless [Options] ask for a copy. So they are replaced by renaming, never
// written in place while a model is open. Bytes that are written in place show up in the mapping:
// opening checks for such writes, and [Model.Unchanged] detects later ones. Bytes that are cut off
// cannot be read any more. Whatever part of weir reads them then fails with an error of kind
// [ErrChanged] that names the file, in place of the signal that would end the process.
package onnx
