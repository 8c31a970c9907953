// Package audit keeps who did what to a server: a chain of records in its state, and signed
// checkpoints of it elsewhere.
//
// Meet first: [Open]; [Log.Append] for a change of the state, in whose transaction the record is
// written; [Log.Record] for other changes; [Log.Refused] for a right that was refused; and
// [Verify].
//
// # What it shows
//
// Each record has the hash of the one before it. Whoever edits, drops or moves a record must make
// all hashes after it anew, and then contradicts the next checkpoint: the number and hash of a
// record, signed by Ed25519, in a file that is best kept where the server cannot change what is
// there. Against who takes the signing key too, only that file protects, and only if its old lines
// stay. Records after the last checkpoint have no such protection: they can be cut off or written
// anew, and [Report.Protected] says where they begin.
//
// # Refusals
//
// A client can ask for what it may not have, or what fails, as often as it likes. Such events are
// gathered for a second and equal ones become one record with their number ([Log.Often]). Those of
// one account that differ are told apart up to a bound, so that a flood takes a bounded part of the
// disk in a time, and does not hide what others did.
//
// Concurrency: every method of Log may be called by any number of goroutines.
//
// What it refuses: a chain that does not hold ([ErrBroken]). A record's texts are cut at 512 bytes.
package audit
