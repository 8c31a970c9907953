// Package steps puts declared steps in front of and behind a model: pictures and texts become the
// model's inputs, and its outputs what people ask for. They are read from a file and become nodes
// of one graph with the model's; nothing of the user's is run.
//
// Meet first: [Parse], and [File.Join], which makes one model of a model and its steps.
//
// In front: decode (pictures), resize, crop, normalise, layout, reshape, tokenise (WordPiece, and
// BPE of bytes). Behind: slice, transpose, softmax, top, labels, threshold, suppress (of boxes that
// overlap).
//
// Concurrency: a File is not changed once it is parsed, and a model that was made is as safe as
// any.
//
// What it refuses: unknown keys, with the line; steps in an order that cannot be; names that the
// model does not have. Of a request: pictures of more pixels than it says, before they are decoded,
// and bytes that are none.
package steps
