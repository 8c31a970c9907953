// Package trace records what happens when, for a person to look at: which job holds a device, which
// step of a plan runs, how much memory is held.
//
// The type to meet first is [Recorder]. It holds a fixed number of events; each lies on a [Track],
// a line of the picture. [Recorder.WriteJSON] writes them in the Trace Event Format ("Chrome trace
// JSON"), which ui.perfetto.dev opens.
//
// Recording takes no lock, does not allocate and may be done from any goroutine; so may everything
// else. A nil *Recorder is allowed everywhere and records nothing, so code that is traced need not
// ask whether it is.
//
// The package does not aggregate, sample or stream: once the recorder is full, further events are
// dropped and counted, because a picture that begins at the beginning can be trusted and one with
// holes cannot.
package trace
