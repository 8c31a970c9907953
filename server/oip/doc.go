// Package oip speaks the Open Inference Protocol, version 2, with the extensions of NVIDIA's Triton
// Inference Server: what a request and its answer are, how they are written in JSON with binary
// data behind it, and how as messages of gRPC.
//
// The protocol is specified in kserve/open-inference-protocol, specification/protocol
// (inference_rest.md, open_inference_rest.yaml); the extensions for binary data and classification
// in triton-inference-server/server, docs/protocol (extension_binary_data.md,
// extension_classification.md).
//
// Meet first: [Request] and [Decode], or [Message] and [DecodeMessage] for gRPC; [Response] and its
// methods Append and AppendMessage; and [Datatype], which names types of elements. [Metadata]
// describes a model.
//
// Concurrency: everything here is plain data and pure functions.
//
// What it refuses, with an error of kind [ErrRequest]: JSON that is not well-formed (RFC 8259) or
// deeper than [MaxDepth]; shapes with negative dimensions or more elements than there is data;
// elements that their type does not hold; FP16 and BF16 in JSON, which are binary only; names given
// twice; binary data that is too short, or left over. It never allocates more than a small multiple
// of the bytes that it was given, and asks a [Holder] before it does.
package oip

import (
	"errors"
	"unsafe"
)

// ErrRequest is the kind of every error about what a client sent, or asked to be sent.
var ErrRequest = errors.New("bad request")

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 100

// MaxValues is how many inputs, outputs, and parameters of one of them, a request may have: no
// model has as many, and each takes more memory than its bytes.
const MaxValues = 4096

// mostParameters bounds the parameters of all of them together.
const mostParameters = 4 * MaxValues

// MaxRank is how many dimensions a tensor of a request may have, which is as many as NumPy's have.
const MaxRank = 64

// Holder bounds the memory that requests have beside the bytes in which they came: of few of those
// a client can make much of it.
type Holder interface {
	// Hold is asked before so many bytes are taken. Its error is that of the request.
	Hold(bytes int64) error
}

// textBytes is how many bytes an element of BYTES has beside its own.
const textBytes = int(unsafe.Sizeof(""))

// held asks for memory where somebody bounds it.
func held(by Holder, bytes int) error {
	if by == nil {
		return nil
	}
	return by.Hold(int64(bytes))
}
