// Package conformance runs the ONNX project's backend test cases against any way of running a
// model.
//
// Meet first: [Find] lists the cases under some folders, [Run] runs one with a [Runner] and
// compares, [RunAll] runs many and gives the [Report] that weir verify prints; [Reference] is the
// Runner of the operators' definitions, [Engine] that of jobs. unsupported.txt lists the cases that
// do not pass; a test holds it against both, and another runs each case in random ways that must
// not change its results.
//
// A case is a folder with model.onnx and test_data_set_N/{input,output}_K.pb, as in
// onnx/backend/test/data. The project's "light" cases, NAME.onnx next to NAME_output_0.pb, are
// cases too: their inputs are made as the project's runner makes them.
//
// Tolerances are those of the project's runner (onnx/backend/test/runner and loader): relative 1e-3
// and absolute 1e-7 unless the case's data.json, or the project's table for light cases, says
// otherwise, and two units in the last place for bfloat16. Integers, booleans and strings must be
// equal, where that runner lets large integers differ by 1e-3.
//
// Concurrency: the functions share no state; RunAll runs cases on several goroutines, so its Runner
// must allow that.
//
// What it refuses: folders without any case, and data sets whose files do not match the model,
// which fail the case. A panic of a Runner fails the case and nothing else. Cases of models that
// draw random numbers count as unsupported.
package conformance
