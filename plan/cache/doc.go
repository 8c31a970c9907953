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
//   - The model. The SHA-256 of its file, and of the files of its external data, decides. To spare
//     reading them at each start, a record notes that hash beside the path, device, inode, size,
//     modification and change time of each file; while these are the same, so is the content. A
//     file that is written in place changes its change time, which no program sets. Two writes
//     within one tick of the file system's clock give equal times, so no record is written of a
//     file that changed less than [Settled] before it was read. What goes unnoticed: a program that
//     goes on writing through a shared memory mapping which it dirtied before, until the system has
//     written those pages back; and a clock set back to the very nanosecond. The hash is computed
//     when an entry of a model of that size is there, and when one is written: not before the first
//     output of a model that is new.
//   - The program, by the build ID that the Go linker makes of all that is in it; without one, by
//     size, times and inode of the executable.
//   - The processor, by the features that kernels are chosen by.
//
// # Measured choices
//
// The ways of computing that package internal/tune measured to be the fastest ([Cache.KeepChoices])
// lie beside the plans, in one file for a version of weir and a target, which names the processor:
// for programs built of a version of the module that is the version, for others the build. Plans
// are made with them ([Compiled].Options); a plan that was made with others has another fingerprint
// and is made anew. The rate of bfloat16, which plans in mixed precision want, is among them.
//
// # Who is trusted
//
// Whoever writes an entry decides what a model answers, so entries are used where nobody but this
// user, and root, could have written them. The folder belongs to one of the two and nobody else may
// write it; the same holds of every folder on the way to it, except that others may write a sticky
// one and one that they cannot reach. It is checked on the open folder, and everything is done
// through that. Each file is a regular one, no link, of such an owner and with such a mode, which
// is checked on the open file. A folder that fails is left alone, one that would fail is not made:
// models start without it.
//
// An entry is bound to its model: its name and its key hold the SHA-256 of the model's content, and
// its digest is a SHA-256 over that key, the graph and the SHA-256 of each mebibyte of constants
// and weights. All of it is compared before use. Once it has been, a receipt notes the digest
// together with what identifies the file, as records of models do (inode, times and so on). While
// the file is the very same one, a start compares only the digest of key and graph, and the CRC-32C
// of the rest, on several cores, at about the speed of memory. That suffices, because nobody else
// has written the file since. Of damage, it misses one case in 2^32, and never a burst of up to 32
// bits.
//
// The bytes that are used are those that were compared. A mapped file is held by a lease (fcntl(2),
// F_SETLEASE), which makes whoever opens it for writing wait until this program has a copy of its
// own. The file is copied at once, which makes a start slower by the time of reading it, where the
// file system has no leases, on systems other than Linux, and where the file is already open for
// writing. There is no defence against a harmful program of the same user, which could replace
// programs, too.
//
// On Linux the package listens for SIGIO once it has mapped its first entry, since that is how the
// system tells of a waiting writer. A program that ignores or resets SIGIO afterwards
// (signal.Ignore, signal.Reset, foreign code) is not told: the writer goes on after 45 s, and the
// job that uses the entry sees what the writer writes, or ends with an error of kind fault.ErrFile
// where the file was cut short. Programs can share the signal with this package through
// signal.Notify and signal.Stop, which leave its listening alone; programs that cannot share it run
// without a cache.
//
// # Damage
//
// Files are written under another name and renamed, so readers see whole entries or none, and two
// processes that write the same entry leave one of two equal ones. The plan made of the graph must
// have the fingerprint of the plan that was kept (plan.Plan.Fingerprint). A file that is damaged,
// that belongs to another plan or that another user could have written is removed and made anew,
// with one line of warning in the log; so are records of models and measured choices, which are
// covered by a SHA-256 as well.
//
// # Space
//
// Entries are readable by the user alone, since they hold weights, in plain form: graph, constants
// and packed weights of a model can be read from its entry as from its file. A model that is stored
// encrypted comes from memory ([Wrap]), and nothing of it is kept.
//
// When the bytes of all entries pass the bound, those unused for longest go; programs that have one
// mapped keep it. Nothing is written that the file system has not ample room for, and a failure to
// write is never the failure of the run: the log has one line of warning when the folder cannot be
// written or the disk is full, and what was begun is removed.
//
// Concurrency: a Cache and a Model may be used by many goroutines; a Compiled is immutable but for
// Save, which is called once.
//
// What it refuses: plans made with options for tests and dumps, models from memory, and systems
// that are no Unix, where it keeps nothing.
package cache
