// Package checkpoint keeps the state of a training run in files from which it goes on as if it had
// not been interrupted: safetensors files, which other programs read, too.
//
// Meet first: [Folder], which writes and finds them; [Write] and [Read] handle one file.
//
// A file is written as a whole or not at all, so a process that is killed leaves the one before it.
// Its last metadata is a digest of its content: a file that is damaged is told from a whole one.
//
// Concurrency: one run at a time writes to a folder, that which has its lock ([Folder.Lock]).
//
// What it refuses: files that are damaged or hold other values than the run has ([ErrCheckpoint]).
package checkpoint
