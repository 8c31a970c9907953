// Package feed makes what a model is run on: inputs from files, from text and from seeds, in the
// shapes that are asked for, and tells which of them a model does not take.
//
// Meet first: [Reader], which reads inputs in all forms that commands and scenarios take; [Shapes],
// which chooses a shape for each input; and [Make], which makes up those that are not given.
//
// Inputs are described by graph values of which the names and types count, so that a model on a
// server, of which only its metadata are known, is fed like one in a file.
//
// Concurrency: the functions share no state; a [Reader] is read from by one goroutine at a time.
//
// What it refuses: inputs that a model does not have, values of another type or shape than it takes
// ([ErrInput]), and files that are none of the forms that a [Reader] knows.
package feed

import "errors"

// ErrInput is the kind of error about inputs that a model does not take.
var ErrInput = errors.New("wrong input")
