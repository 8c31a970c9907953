// What the files of the fake libcuda share: the process's state, its objects, and how an operation
// reaches the device.
//
// One lock, fk.lock, guards the process's objects and the tails of its queues. It comes before the
// model's lock (fk_lock), is never held while sleeping, and never while a program's own code runs.
#ifndef WEIR_FAKE_INTERNAL_H
#define WEIR_FAKE_INTERNAL_H

#include "../fakecuda.h"
#include "../model/model.h"
#include "content.h"

#define FK_API __attribute__((visibility("default"))) CUresult

enum { // the first word of each object, so that a foreign pointer is an error and not a crash
	FK_CONTEXT = 0x43545800,
	FK_STREAM,
	FK_EVENT,
	FK_MODULE,
	FK_FUNCTION,
	FK_GRAPH,
	FK_EXEC,
	FK_POOL,
	FK_ARRAY,
	FK_MIPMAP,
	FK_EXTERNAL,
	FK_LINK,
};

#define FK_IS(object, kind) \
	((uintptr_t)(object) > 0xffff && *(const uint32_t *)(const void *)(object) == (kind))

struct CUctx_st {
	uint32_t kind, flags;
	CUdevice device;
	bool primary;
	uint32_t width; // multiprocessors that it may use
	uint32_t retained; // of a primary context
	uint32_t attached; // of another, beside its creation
	uint64_t id;
	uint64_t bytes;    // of device memory that it takes by itself
	uint64_t code;     // of these: loaded functions
	struct CUstream_st *legacy, *streams; // streams: all of the context, by next
	uint64_t legacy_seq;                  // last operation of the legacy default stream
	size_t limits[16];
	// of a green context: the primary context that it is part of; NULL for others
	struct CUctx_st *of;
	struct CUctx_st *greens, *next; // greens: all ever made of a primary context, by next
	uint32_t holder, holds;         // the thread on whose stack it is, and how often
};

struct CUstream_st {
	uint32_t kind, flags;
	CUcontext context;
	struct CUstream_st *next;
	int32_t priority;
	uint32_t id;
	uint64_t seq; // its last operation
	bool per_thread, idle; // idle: a per-thread stream whose thread has ended
	bool detached;         // its green context has gone
	struct fk_capture *capture;
	CUgraphNode *front; // while capturing: what the next node depends on
	size_t fronts;
};

struct CUevent_st {
	uint32_t kind, flags;
	CUdevice device;
	uint64_t context; // its id
	uint64_t seq;    // of its last record, 0 for none
	uint64_t end_ns; // of that, once done
	bool done;
	struct fk_capture *captured; // the capture that it was last recorded in
	CUgraphNode *front; // what it marked there
	size_t fronts;
	uint32_t export; // 1 + index of its export, 0 for none
	uint64_t foreign; // serial of the export that it was opened from
	uint32_t foreign_index;
};

struct CUfunc_st {
	uint32_t kind;
	// which kernel parameter holds the duration in microseconds, -1 for none
	int32_t argument;
	uint64_t least_ns, most_ns;
	fk_action does;
	bool loaded; // on the device
	bool faults;
	struct CUmod_st *module;
	char *name;
	int attributes[16]; // by CUfunction_attribute
	uint32_t params;    // known of those of a real kernel
	struct fk_param *param;
};

struct CUmod_st {
	uint32_t kind, count;
	CUcontext context; // NULL: a library, which belongs to none
	struct CUfunc_st *functions;
	struct CUmod_st *next;
	// of a real image (image.h)
	struct fk_variable *variables;
	uint32_t variable_count;
	uint64_t bytes; // of all variables, as they lie in a block
	uint64_t code;  // bytes of instructions
	struct fk_placement *placements;
	const void *unread; // a library's image, until something of it is asked for
	CUresult unreadable; // why nothing of it can be had
};

// fk_queue is a process's end of one device's queue.
typedef struct {
	fk_device device;
	uint64_t next;      // next sequence number
	uint64_t head;      // the oldest not known to be done
	uint64_t solo_from; // as in fk_op
	uint32_t stream;    // of the last operation
	struct CUevent_st *marks[FK_RING];
	struct {
		CUhostFn call;
		bool (*until)(void *data);
		void *data;
	} host[FK_RING];
	_Atomic uint32_t host_waiting; // host operations queued
	_Atomic uint64_t calling;      // the one whose function is being called, 0 for none
	_Atomic uint32_t calls;        // word on which the thread that calls them sleeps
	bool caller;                   // it has been started
	// operations with effects that were not performed, in the order of their numbers
	struct {
		uint64_t seq;
		fk_effect *effect;
		bool seen;
	} pending[FK_RING];
	_Atomic uint32_t pendings; // their number
	_Atomic uint32_t seen;     // how many of them are seen without a call
	_Atomic uint32_t shared;   // other processes can see memory or events of this one
	_Atomic uint32_t lingering; // memory that exported descriptors alone hold, in pieces
	_Atomic uint32_t leaving;   // frees that the device may not have come to
	_Atomic uint32_t work;         // word on which the service thread sleeps
	// word that changes when the service thread has taken a slot or found none
	_Atomic uint32_t attached;
	struct CUctx_st *primary;
	unsigned int primary_flags;
	struct CUmemPoolHandle_st *pools; // all of the device, the default one last
	struct CUmemPoolHandle_st *pool;  // the one that cuMemAllocAsync takes from
	uint64_t graph_used, graph_used_high, graph_reserved, graph_reserved_high;
} fk_queue;

typedef struct {
	pthread_mutex_t lock;
	_Atomic uint32_t ready;  // cuInit has been called
	_Atomic uint32_t forked; // in a child of a process that had called it
	_Atomic uint32_t exiting; // the driver is being taken down, or was
	_Atomic uint32_t faults;  // kernels that fault were launched
	// word on which waits for operations sleep; changed when a host operation ends
	_Atomic uint32_t kick;
	uint32_t count;
	uint32_t stream_ids;
	uint32_t server; // of which it is a client: the MPS server's pid, 0: it is none
	uint32_t width;  // multiprocessors that its contexts may use at most
	bool per_context; // each may have a limit of its own
	uint64_t context_ids;
	uint64_t random;
	// streams of ended threads' destroyed contexts, which those threads may still name
	struct CUstream_st *retired;
	struct fk_capture *captures; // in progress
	struct fk_capture *ended;    // over; events may still name them
	_Atomic uint32_t capturing;  // their number
	struct CUgraphExec_st *execs; // that hold memory
	struct CUmod_st *modules;
	fk_queue queues[FK_DEVICES];
} fk_process;

extern fk_process fk;

#define FK_TRY(call) \
	do { \
		CUresult fk_result = (call); \
		if (fk_result) \
			return fk_result; \
	} while (0)

static inline void fk_enter(void) { pthread_mutex_lock(&fk.lock); }
static inline CUresult fk_leave(CUresult r) {
	pthread_mutex_unlock(&fk.lock);
	return r;
}

// fk_usable is what every call after cuInit begins with.
CUresult fk_usable(void);

// fk_exit_with registers the handler of exit, if it comes with contexts or, as context says, not.
void fk_exit_with(bool context);

// fk_current is the calling thread's context, which is in no error. fk_device_ok checks an ordinal.
CUresult fk_current(CUcontext *c);

// fk_sound is what calls begin with that name no context: that of the thread, if any, is in no
// error.
CUresult fk_sound(void);

// fk_ended is the error of a context that a kernel's fault has ended. All its calls give it until
// it is destroyed or reset, or the process ends (CUDA_ERROR_ILLEGAL_ADDRESS). The lock is held or
// not.
CUresult fk_ended(CUdevice d, uint64_t context);

// fk_root is what the context's memory and events belong to: of a green context, the primary one.
static inline CUcontext fk_root(CUcontext c) { return c && c->of ? c->of : c; }

// fk_thread is the calling thread's number.
uint32_t fk_thread(void);
CUresult fk_device_ok(CUdevice d);

// fk_context_take adds to what a context takes by itself, fk_context_give takes from it. Called
// with fk.lock held.
CUresult fk_context_take(CUcontext c, uint64_t bytes);
void fk_context_give(CUcontext c, uint64_t bytes);

// fk_join attaches the process to the device, which starts its service thread. Called with fk.lock
// held.
CUresult fk_join(CUdevice d);

// What is queued with fk_push.
typedef struct {
	uint32_t kind;        // FK_WORK, FK_MARK, FK_HOST
	uint64_t duration_ns; // of FK_WORK
	uint64_t after;       // also follows this operation of the same device
	// of FK_HOST: a function to call; or what ends it when it is true, asked with fk.lock held, and
	// then frees data
	CUhostFn call;
	bool (*until)(void *data);
	void *data;
	fk_effect *effect; // taken
	bool waited;       // the caller waits for it
	struct CUevent_st *mark; // takes the operation's end
	bool copy;               // runs on no multiprocessor
	bool faults;             // a kernel that ends in a fault
} fk_item;

// fk_push queues an operation; *seq (may be NULL) is its number. It sleeps while the queue is full,
// without the lock, which the caller holds. fk_wait sleeps until the operation is done; the caller
// does not hold the lock.
void fk_push(CUstream s, fk_item item, uint64_t *seq);
void fk_wait(fk_queue *q, uint64_t seq);

// fk_push_record queues the record of an event.
void fk_push_record(CUstream s, CUevent e);

// fk_perform performs the effects of what is done. Called with fk.lock held.
void fk_perform(fk_queue *q);

// fk_backings_settle gives back memory whose last exported descriptor has been closed, which
// nobody tells the process (vmm.c). Called with fk.lock held.
void fk_backings_settle(CUdevice d);

// fk_share is called before other processes can see memory or events of this one.
void fk_share(fk_queue *q);

// fk_wait_all sleeps until all is done that the process has queued by now. The caller does not hold
// the lock.
void fk_wait_all(fk_queue *q);

// fk_poll reports whether the operation is done, fk_seen whether it was when the device was looked
// at last. Called with fk.lock held.
bool fk_seen(fk_queue *q, uint64_t seq);
bool fk_poll(fk_queue *q, uint64_t seq);

// fk_settle notes an event's end if it is done. Called with fk.lock held.
bool fk_settle(CUevent e);
void fk_forget(CUevent e);

// fk_stream resolves a handle: NULL is the legacy default stream.
CUresult fk_stream(CUstream handle, CUstream *s);
CUstream fk_new_stream(CUcontext c, uint32_t flags, int32_t priority);
static inline CUstream fk_ptsz(CUstream s) { return s ? s : CU_STREAM_PER_THREAD; }

static inline fk_queue *fk_queue_of(CUstream s) { return &fk.queues[s->context->device]; }

enum { FK_URGENT = -5 }; // the most urgent stream priority

// fk_task is work as a stream or a graph takes it.
typedef struct {
	CUgraphNodeType type;
	uint64_t least_ns, most_ns; // of kernels, copies and sets; drawn anew at each launch
	CUfunction function;
	unsigned int shape[7]; // grid, block, shared memory
	uint32_t argument;     // value of the kernel parameter that holds the duration
	uint64_t arguments[4]; // of a kernel with an effect
	fk_motion motion;
	bool mark; // takes no time
	CUhostFn call;
	bool (*until)(void *data);
	void *data;
	bool waited; // as in fk_item
	bool once; // cannot be captured, because it runs only once
	CUevent event;
	CUgraph child;
	CUdeviceptr address;
	size_t bytes;
} fk_task;

// fk_submit gives a stream a task, or adds it to the graph that the stream captures. *q and *seq
// (may be NULL) say what to wait for; *q is NULL if captured. fk_draw is a task's duration this
// time.
CUresult fk_submit(CUstream handle, const fk_task *task, fk_queue **q, uint64_t *seq);
uint64_t fk_draw(const fk_task *task);

// fk_arguments reads the parameters of a launch that the task needs: the duration, and what an
// effect is on. fk_task_effect finds a task's memory, of which a kernel faults if it is not there.
CUresult fk_arguments(CUfunction f, void **params, void **extra, fk_task *t);
CUresult fk_task_effect(const fk_task *t, bool later, fk_effect **out, bool *faults);

// fk_load_function loads a function, and the module of a library, on the device, which its first
// launch does otherwise. It takes the lock.
CUresult fk_load_function(CUfunction f);

// fk_spend keeps the calling thread busy, as the driver's own work does. fk_rest is for a call that
// has waited for what is done now, with the flags of its context and CU_EVENT_BLOCKING_SYNC or 0.
void fk_spend(uint64_t ns);
void fk_rest(fk_queue *q, unsigned int context_flags, unsigned int event_flags);

// Events of other devices and processes (ipc.c). All are called with fk.lock held.
CUresult fk_wait_other(CUstream s, CUevent e);
CUresult fk_wait_foreign(CUstream s, CUevent e);
bool fk_foreign_done(CUevent e);
void fk_export_record(CUevent e);
void fk_unexport(fk_device *d, uint32_t export);

// MPS (mps.c). fk_mps_join makes the process a client if there is a control daemon. fk_mps_width is
// how many multiprocessors a context that is made now may use; fk_mps_affinity the same where the
// program asks for fewer. All are called with fk.lock held.
void fk_mps_join(void);
uint32_t fk_mps_width(void);
CUresult fk_mps_affinity(const CUexecAffinityParam *p, int count, uint32_t *width);

// fk_primary is the device's primary context, which has one handle for the life of the process;
// while it is not active its kind is 0. NULL when the host has no memory. fk.lock is held.
CUcontext fk_primary(CUdevice d);

// fk_storage_of_context ends what libraries keep for a context that is being destroyed (storage.c).
// It takes the lock.
void fk_storage_of_context(CUcontext c);

// fk_cluster_of is the shape of the clusters of a launch, 1 where there are none (launch.c).
void fk_cluster_of(CUfunction f, const CUlaunchConfig *c, unsigned int shape[3]);

// Memory. fk_memory_of_context frees all that was allocated in a context, fk_arrays_of_context all
// arrays and fk_imports_of_context all that was imported; fk.lock is held.
// fk_pools_settle gives unused pool memory above the thresholds back to the device, as
// synchronising does; it takes the lock. fk_frees_settle gives back what streams have come to the
// frees of, fk_frees_seen what they had when the device was looked at last.
void fk_memory_of_context(CUcontext c);
void fk_arrays_of_context(CUcontext c);
void fk_imports_of_context(CUcontext c);
void fk_pools_settle(fk_queue *q);
void fk_frees_settle(void);
void fk_frees_seen(void);

// Graphs (graph.c). fk_add appends a node; *node may be NULL. All are called with fk.lock held.
CUresult fk_add(
	CUgraph g, const CUgraphNode *from, size_t count, const fk_task *task, CUgraphNode *node);
CUgraph fk_new_graph(void);
bool fk_behind(CUgraphNode a, CUgraphNode b); // b is a, or a depends on b
void fk_free_graph(CUgraph g);

// Capture (capture.c). fk_unsafe is what calls begin with that a capture in this process may
// forbid; it takes the lock, the others are called with it. fk_capture_break invalidates a capture
// and returns the error.
CUresult fk_unsafe(void);
CUresult fk_capture_break(struct fk_capture *c, CUresult error);
CUresult fk_capture_add(CUstream s, const fk_task *task, CUgraphNode *node);
CUresult fk_capture_record(CUstream s, CUevent e, unsigned int flags);
CUresult fk_capture_wait(CUstream s, CUevent e);
CUresult fk_capture_conflict(CUstream s);

#endif
