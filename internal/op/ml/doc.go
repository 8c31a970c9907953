// Package ml holds the operators of ONNX's domain of classical machine learning, ai.onnx.ml: trees,
// linear models, vector machines, and what prepares features and names classes for them.
//
// Meet first: [Forest], the checked model in the attributes of a tree ensemble, which definition
// and fast kernels share; then the tables of rows, one family a file.
//
// Results are those of ONNX Runtime to the bit where ONNX's text leaves a choice: sums are in
// float32 and scores are compared with thresholds, where a last bit decides.
//
// An import registers the rows with package op; package graph does so for everyone.
//
// Concurrency: as package op has it; a [Forest] is immutable.
//
// What it refuses: models whose lists do not fit each other, indices out of range and trees with a
// cycle, as errors of kind op.ErrAttr, in time in proportion to the attributes.
package ml
