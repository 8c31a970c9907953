// Package inferencepb is the messages of the Open Inference Protocol, version 2, over gRPC, with
// those of NVIDIA's Triton Inference Server: inference.proto and config.proto are weir's own text,
// whose names, numbers and types are the protocol's.
//
// Meet first: inference.proto, which lists the calls. Package server/rpc answers them. Requests for
// inferences are not read by this package but by server/oip, in place.
//
// After a change of one of the two files, "go generate ./server/oip/inferencepb" writes the code
// anew, with nothing but the Go command and the module's own dependencies.
//
// Concurrency: as protobuf has it: messages are data.
//
// What it refuses: nothing; whoever reads a message bounds it.
package inferencepb

//go:generate go -C _generate run . ..
