// The simulated device as processes share it: one file per device in $WEIR_FAKE_DIR, mapped by each
// process that uses the fake libcuda or the fake NVML. The file holds the ledger of device memory,
// the queues of work, and one timeline.
//
// Nobody plays the device. Whoever holds the lock first advances the timeline to the present
// (timeline.c), which is a pure computation over the queues, and commits the result through a
// journal. So the simulation needs no process of its own and costs nothing between calls.
//
// kill -9 at any instruction leaves the file consistent:
//   - the lock is a robust mutex; its next owner replays the journal, whose records are complete or
//     not marked valid;
//   - each field outside the journal has one writer, or holds its whole meaning in a single store;
//   - a process holds its slot's robust mutex `alive` for as long as it lives, through its service
//     thread. The kernel marks the mutex when the process dies, however it dies, and whoever looks
//     next empties the slot.
//
// Lock order: fk_lock is taken last, and no code of the program runs under it.
#ifndef WEIR_FAKE_MODEL_H
#define WEIR_FAKE_MODEL_H

#include "knobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FK_VERSION = 9,
	FK_DEVICES = 8,      // at most, from $WEIR_FAKE_GPUS
	FK_PROCS = 512,      // processes on one device
	FK_RING = 1024,      // operations that one process may have queued, as a driver's channel
	FK_RUN = 16,         // bound of $WEIR_FAKE_CONCURRENT
	FK_EXPORTS = 1024,   // allocations and events open to other processes
	FK_OPENS = 256,      // of these, those that one process has open and are noted
	FK_SEGMENTS = 65536, // of the record of who ran when; the oldest are overwritten
	FK_GROUP = 256,      // bytes of the name of a control group
	FK_LIMITS = 64,      // groups that have a limit of memory
	FK_SMS = 64,         // multiprocessors of a device
	FK_CLIENTS = FK_PROCS, // whose turn it is when it is that of all clients of MPS
	FK_NONE = UINT32_MAX,
};

#define FK_MAGIC UINT64_C(0x5745495246414b45)
#define FK_MIB (UINT64_C(1) << 20)
#define FK_NEVER UINT64_MAX

// Kinds of operation.
enum {
	FK_WORK, // occupies the device for a duration
	FK_MARK, // takes no time: event records, event waits, markers
	// ends when the owning process says so: host functions, waits for other devices and processes
	FK_HOST,
};

// Flags of an operation.
enum {
	FK_BLOCKING = 1, // in a stream that synchronises with the legacy default stream
	FK_LEGACY = 2,   // in the legacy default stream: follows every earlier FK_BLOCKING operation
	FK_FAULT = 4,    // a kernel that ends in a fault: nothing of its context runs after it
	FK_LOST = 8,     // ended by the fault of another; set by the timeline
};

// fk_op is one entry of a process's queue. The owner writes all but start_ns and end_ns, which the
// timeline writes; they count only once the operation is done. Sequence numbers start at 1; those
// named here are lower than the operation's own.
typedef struct {
	uint64_t enqueued_ns;
	uint64_t duration_ns; // of FK_WORK, at least 1
	uint64_t prev;        // the operation before it in its stream, 0 for none
	uint64_t after;       // one more that must be done first, 0 for none
	uint64_t barrier;     // the last one of the legacy default stream, 0 for none
	uint64_t solo_from;   // from this one on, all operations are of one stream
	uint64_t start_ns, end_ns;
	uint32_t kind, flags;
	int32_t priority; // lower is more urgent, as CUDA has it
	uint32_t stream;
	// of a client of MPS: multiprocessors that it may use, 0 for what runs on none
	uint32_t width;
	uint32_t context; // its context's number
} fk_op;

typedef struct {
	uint64_t seq, left_ns;
	uint32_t started, pad;
} fk_run;

// fk_lane is how far the device has come with one process's queue. Written through the journal
// only.
typedef struct {
	uint64_t head;                // all operations before it are done
	uint64_t done[FK_RING / 64];  // by sequence number modulo FK_RING, from head on
	uint64_t device_ns;           // time that the device spent on the process
	uint64_t waited_ns;           // and for which it had work while others had the device
	uint64_t finished;            // FK_WORK operations done
	uint32_t runs;
	uint32_t faulted; // the last context that a kernel's fault has ended, 0 for none
	fk_run run[FK_RUN];
} fk_lane;

// fk_segment says that the device worked for one process between two times, for busy_ns in all.
// What it does for clients of MPS is the server's, as monitoring tools have it ("System
// Considerations" in NVIDIA's guide).
typedef struct {
	uint64_t start_ns, end_ns, busy_ns;
	uint32_t pid, turn;
} fk_segment;

// fk_clock is the device's own state. Written through the journal only.
typedef struct {
	uint64_t now_ns;       // the timeline is computed up to here
	uint64_t slice_end_ns; // of the current process
	uint64_t switch_until_ns;
	uint64_t busy_ns, switches;
	uint64_t segments; // closed ones ever; the last FK_SEGMENTS are kept
	fk_segment open;
	uint32_t current; // whose turn it is: a slot, FK_CLIENTS, or FK_NONE at first
	uint32_t pad;
} fk_clock;

// fk_limit is that of a control group, FK_NEVER for none. Written under the lock; group last.
typedef struct {
	char group[FK_GROUP]; // its folder; empty: free
	uint64_t inode;       // of that
	uint64_t soft, hard;
} fk_limit;

// fk_export is an allocation or event that other processes may open. Written by its owner under the
// lock; serial last.
typedef struct {
	uint64_t serial; // 0: free
	uint64_t address, size;
	uint64_t bytes;        // that an allocation takes
	uint64_t offset;       // of its contents in the file
	uint64_t recorded_seq; // of an event
	uint32_t slot, pid;
	int32_t fd; // of the owner's, with the contents
	// the process has ended, and the slot is that of another that has the allocation open
	uint32_t adopted;
} fk_export;

typedef struct {
	pthread_mutex_t alive; // robust; held while the slot is in use
	_Atomic uint32_t pid;  // in its own namespace; 0: free
	// when its process was found to have ended, whose memory still counts; 0: it lives
	_Atomic uint64_t gone_ns;
	uint32_t server;       // pid of the MPS server whose client it is, 0: none's
	uint64_t pids;         // inode of its namespace of pids; 0: not known
	uint64_t born_ns;      // when it took the slot
	_Atomic uint64_t memory;         // bytes allocated; written by the owner under the lock
	_Atomic uint64_t context_memory; // bytes for contexts; likewise
	_Atomic uint64_t tail;           // next sequence number; written by the owner
	// what ended until then has had its effect on memory's contents; FK_NEVER: all has
	_Atomic uint64_t settled_ns;
	char group[FK_GROUP];      // its control group's folder; empty: not known
	uint64_t opened[FK_OPENS]; // serials of exports that it has open; written under the lock
	fk_lane lane;
	fk_op ring[FK_RING];
} fk_slot;

// fk_terms are the properties of a device, fixed by the process that first uses it.
typedef struct {
	uint64_t memory;       // $WEIR_FAKE_MEMORY, bytes with an optional MiB or GiB; 16 GiB
	uint64_t context;      // $WEIR_FAKE_CONTEXT, memory that one context takes; 256 MiB
	uint64_t slice_ns;     // $WEIR_FAKE_SLICE_US, time slice between processes; 2000
	uint64_t switch_ns;    // $WEIR_FAKE_SWITCH_US, cost of changing between processes; 20
	uint64_t device_bps;   // bytes a second within the device
	uint64_t host_bps;     // bytes a second to and from the host
	uint32_t concurrent;   // $WEIR_FAKE_CONCURRENT, operations of one process at a time; 1
	uint32_t ordinal;
	fk_knobs knobs; // $WEIR_FAKE_PROFILE and theirs
} fk_terms;

typedef struct {
	uint64_t magic;
	uint32_t version, bytes;
	fk_terms terms;
	pthread_mutex_t lock; // robust
	uint64_t serial;      // last one given to an export
	uint32_t exports_high; // exports from here on were never used
	_Atomic uint32_t high; // slots from here on were never used
	uint64_t peak;         // the most memory that was ever held
	fk_clock clock;
	struct {
		_Atomic uint32_t valid;
		uint32_t count;
		fk_clock clock;
		struct {
			uint32_t slot, pad;
			fk_lane lane;
		} record[FK_PROCS];
	} journal;
	fk_limit limits[FK_LIMITS];
	fk_export exports[FK_EXPORTS];
	fk_segment segments[FK_SEGMENTS];
	fk_slot slots[FK_PROCS];
} fk_file;

// fk_device is a process's view of one device.
typedef struct {
	fk_file *file; // NULL until opened
	uint32_t slot; // FK_NONE until attached
	uint32_t server; // what to attach as: client of this MPS server, 0: of none
	// the file; attached with knobs.forks, it holds the lock of the slot's byte, which forked
	// children inherit
	int fd;
	struct fk_sim *sim;
} fk_device;

// FK_KNOB is one knob of an open device.
#define FK_KNOB(d, name) ((d)->file->terms.knobs.name)

// fk_now is the time of all timelines: CLOCK_MONOTONIC in nanoseconds.
uint64_t fk_now(void);

// fk_sleep_until returns at the time or when *word is no longer value; a NULL word never changes.
void fk_sleep_until(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns);

// fk_wake ends the sleeps of this process on the word, whose value it changes.
void fk_wake(_Atomic uint32_t *word);

// FK_NAME is what every device calls itself, so that no result of it passes for a real one. FK_BUS
// is its place on the PCI bus.
#define FK_NAME "weir fake GPU"
#define FK_BUS(ordinal) (0x41u + (unsigned)(ordinal))

// fk_uuid is the device's, made of its ordinal.
void fk_uuid(const fk_device *d, unsigned char out[16]);

// fk_count is the number of devices, from $WEIR_FAKE_GPUS.
uint32_t fk_count(void);

// fk_visible fills in the devices that CUDA_VISIBLE_DEVICES leaves, in its order, and returns how
// many they are.
uint32_t fk_visible(uint32_t ordinals[FK_DEVICES]);

// fk_folder is the folder of the devices' files, which is made if it is not there.
void fk_folder(char *path, size_t size);

// fk_open maps the device's file, which it creates on first use. It reports false, with a line on
// standard error, when it cannot.
bool fk_open(fk_device *d, uint32_t ordinal);

// fk_attach takes a slot for the calling thread, whose end ends it. False when all are in use.
bool fk_attach(fk_device *d);

// fk_lock and fk_unlock bracket everything below. fk_lock repairs what a dead owner left.
void fk_lock(fk_device *d);
void fk_unlock(fk_device *d);

// fk_reap stops the work of dead processes and empties their slots when their memory is free.
void fk_reap(fk_device *d);

// fk_bury does that for one slot.
void fk_bury(fk_device *d, uint32_t slot);

// fk_take adds bytes to the process's memory, or reports false and adds none if the device, or a
// limit of its control group, has fewer left.
bool fk_take(fk_device *d, uint64_t bytes, bool context);
void fk_give(fk_device *d, uint64_t bytes, bool context);

// fk_opened notes that the process has opened an export, fk_closed that it has closed it once. What
// a process has open outlives the process that allocated it, and is listed as its own from then on
// (LMCache/LMCache, issue 4014).
void fk_opened(fk_device *d, uint64_t serial);
void fk_closed(fk_device *d, uint64_t serial);

// fk_adopted is the memory of ended processes that a slot's process has open, FK_NONE: that any
// has. It is not part of what the slot holds itself.
uint64_t fk_adopted(const fk_device *d, uint32_t slot);

// fk_lives tells whether a slot is in use by a process that has not ended.
// fk_pid is the number by which the process that calls knows the one of a slot, which may live in a
// container, as the driver tells it; 0 where it has none. Called under fk_lock.
uint32_t fk_pid(fk_device *d, uint32_t slot);

// fk_pids is the inode of this process's namespace of pids; 0: not known.
uint64_t fk_pids(void);

static inline bool fk_lives(const fk_slot *s) { return s->pid && !s->gone_ns; }

// fk_used is the memory that all processes hold.
uint64_t fk_used(fk_device *d);

// fk_group is the folder of the calling process's control group: $WEIR_FAKE_CGROUP or, unless that
// is set, what the kernel says; empty if that is not known.
void fk_group(char path[FK_GROUP]);

// fk_set_limit sets a group's limit, 0 and FK_NEVER for none. False: there is no such group, or too
// many have one. fk_limit_of is the limit that was set of a group, NULL for none.
bool fk_set_limit(fk_device *d, const char *group, uint64_t soft, uint64_t hard);
fk_limit *fk_limit_of(fk_device *d, const char *group);

// fk_group_used is what the processes of a group and of those below it hold.
uint64_t fk_group_used(const fk_device *d, const char *group);

// fk_room is what the limits of its groups leave to the process, and *hard the lowest of them; both
// FK_NEVER for none.
uint64_t fk_room(const fk_device *d, uint64_t *hard);

// fk_advance computes the timeline up to the present.
void fk_advance(fk_device *d);

// fk_done reports whether an operation of the process is done, as of the last fk_advance, and when
// it ended.
bool fk_done(fk_device *d, uint32_t slot, uint64_t seq);

// fk_settled reports whether an operation that is done has had its effect, and all before it.
bool fk_settled(fk_device *d, uint32_t slot, uint64_t seq);

// fk_forecast is when the first of the process's operations will be done if nothing else arrives;
// at most 100 ms from now.
enum { FK_GOALS = 8 };
uint64_t fk_forecast(fk_device *d, const uint64_t *seqs, uint32_t count);

// fk_host_turns fills in the process's FK_HOST operations whose turn has come, as many as there is
// room for. If there are none, *when is the forecast of when there will be one, at most 100 ms from
// now.
uint32_t fk_host_turns(fk_device *d, uint64_t *seqs, uint32_t room, uint64_t *when);


// fk_finish_host ends a FK_HOST operation now.
void fk_finish_host(fk_device *d, uint64_t seq);

// fk_faulted is the process's context that a fault has ended, as of the last fk_advance, 0 for
// none.
uint32_t fk_faulted(fk_device *d);

// fk_head is the process's oldest operation that is not done.
uint64_t fk_head(fk_device *d);

#endif
