// Package cache keeps compiled plans on disk, so that a second start of a model skips parsing,
// optimising and packing: the optimised graph is read, the plan made of it in a millisecond, and
// the packed weights are used where the file maps them.
//
// Meet first: [Open] makes a [Cache] of a folder; [Cache.Model] opens a model file through it;
// [Model.Compile] returns a [Compiled], from the cache or made now; [Compiled.Save] keeps one that
// was made now. A nil *Cache keeps nothing and finds nothing.
//
// # What an entry is for
//
// An entry serves one model content, build of the program, processor, precision and choice of
// passes, and set of input shapes, whatever the number of threads. All of these make its name, and
// it holds their hash.
//
//   - The model. The SHA-256 of its file, and of the files of its external data, decides. To spare reading them at each start, a record
//     notes that hash beside the path, device, inode, size, modification and change time of each file; while these are the same, so is
//     the content. A file that is written in place changes its change time, which no program sets. Two writes within one tick of the
//     file system's clock give equal times, so no record is written of a file that changed less than [Settled] before it was read.
//     What goes unnoticed: a program that goes on writing through a shared memory mapping which it dirtied before, until the system
//     has written those pages back; and a clock set back to the very nanosecond.
//     The hash is computed when an entry of a model of that size is there, and when one is written: not before the first output of a model
//     that is new.
//   - The program, by the build ID that the Go linker makes of all that is in it; without one, by size, times and inode of the
//     executable.
//   - The processor, by the features that kernels are chosen by.
//
// # Measured choices
//
// The ways of computing that package engine/tune measured to be the fastest ([Cache.KeepChoices])
// lie beside the plans, in one file for a version of weir, system and path of instructions, which
// names the processor: for programs built of a version of the module that is the version, for
// others the build. Plans are made with them ([Compiled].Options); a plan that was made with others
// has another fingerprint and is made anew.
//
// # Damage
//
// Files are written under another name and renamed, so readers see whole entries or none, and two
// processes that write the same entry leave one of two equal ones. Every byte is covered by a
// CRC-32C and checked before use: graph and tables at once, weights in chunks of a mebibyte on
// several cores, at about the speed of memory. That finds every burst of up to 32 bits and, of
// other damage, all but one in 2^32. It is no defence against whoever can write the folder as this
// user: that one can replace programs, too. The plan made of the graph must have the fingerprint of
// the plan that was kept (plan.Plan.Fingerprint). An entry that is stale, damaged or foreign is
// removed and the plan made anew, without a word but to the log.
//
// # Space
//
// Entries are readable by the user alone, since they hold weights. When their bytes pass the bound,
// those unused for longest go; programs that have one mapped keep it. (A file that somebody cuts
// short in place takes them down with it, as a model file does.) Nothing is written that the file
// system has not ample room for, and a failure to write is never the failure of the run.
//
// Concurrency: a Cache and a Model may be used by many goroutines; a Compiled is immutable but for
// Save, which is called once.
//
// What it refuses: plans made with options for tests and dumps, models from memory, and systems
// that are no Unix, where it keeps nothing.
package cache
