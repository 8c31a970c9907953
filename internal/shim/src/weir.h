/*
 * The library that weir loads into a CUDA program.
 *
 * It stands between the program and the driver: memory is counted (ledger.c), launches wait at a
 * gate that the agent opens and closes (gate.c), and what is in flight is bounded in time
 * (inflight.c). It decides nothing: all terms come from the agent, through a page of shared memory
 * (wire.h).
 *
 * What holds everywhere:
 *  - The program is never ended, and no signal, locale or allocator state of it is changed.
 *  - A call that the driver lacks gives CUDA_ERROR_NOT_FOUND; a call that calls.tab lacks is not
 *    touched.
 *  - Without WEIR_JOB in the environment every call goes straight to the driver.
 *  - A launch with the gate open costs no system call, no lock, no allocation and no look at a
 *    clock.
 *  - No call that waits for the device is made on the program's threads, whose next launch may be
 *    what the device waits for: they look, and sleep for bounded times in between (room.c).
 *  - No lock is held while the driver is called on the program's behalf, but for the turn to make a
 *    context, for which nobody waits without end; and none is shared between processes, so that a
 *    kill at any instruction leaves nothing locked. A stream's own is held while an event is put on
 *    it, for which the driver waits while the device's queue is full: nothing but a launch on the
 *    same stream, which would wait as well, waits for that lock without end. For the same reason
 *    the program's threads put events on a stream only where the program puts something there.
 *  - No thread is cancelled with a lock held.
 *  - After fork() a child is not attached; it attaches with a slot of its own at its first call.
 *  - While a stream is being captured nothing of weir's own is put on it, and its launches pass;
 *    they are metered when the graph is launched. Weir's own calls are made in relaxed mode.
 *  - Once the process exits weir calls the driver only within the program's calls (own.c).
 *  - Without the agent (its socket closed and its heartbeat old, or the heartbeat very old) the
 *    gate counts as open and the memory cap still holds.
 */
#ifndef WEIR_H
#define WEIR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.gen.inc"
#include "wire.h"

#define WEIR_EXPORT __attribute__((visibility("default")))
#define weir_likely(x) __builtin_expect(!!(x), 1)
#define weir_unlikely(x) __builtin_expect(!!(x), 0)

/* Fields of the page are plain integers for wire.h; all access goes through these. */
#define weir_get(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define weir_peek(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define weir_set(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define weir_add(p, v) __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST)
#define weir_sub(p, v) __atomic_sub_fetch(p, v, __ATOMIC_SEQ_CST)

/* ---- the driver: real.c, lookup.c ---- */

struct weir_entry {
	const char *symbol, *base;
	int since, per_thread, pass;
	void *wrapper;
};

struct weir_alias {
	const char *base;
	int since;
	enum weir_call call;
};

extern void *weir_reals[WEIR_CALLS];

void *weir_resolve(enum weir_call call);

/* weir_real gives the driver's function, NULL if it has none. */
static inline void *weir_real(enum weir_call call)
{
	void *p = __atomic_load_n(&weir_reals[call], __ATOMIC_ACQUIRE);
	return weir_likely(p) ? p : weir_resolve(call);
}

/* WEIR_DRIVER(symbol) is the driver's function with its type. */
#define WEIR_DRIVER(symbol) ((weir_fn_##symbol)weir_real(WEIR_##symbol))

CUresult weir_missing(void);
void weir_driver_reset(void);
bool weir_own_address(const void *p);
bool weir_driver_address(const void *p);
void *weir_dlsym_real(void *handle, const char *name);
int weir_find(const char *symbol); /* index in enum weir_call, or -1 */
void *weir_wrapper(int call);
void *weir_choose(const char *base, void *found, void *at_newest, int version, bool per_thread);
void weir_learn(int call, void *real);

/* ---- this process in its job: attach.c ---- */

enum weir_state { WEIR_UNKNOWN, WEIR_OFF, WEIR_ATTACHED, WEIR_FAILED };

struct weir_process {
	/* NULL: not attached; a page stays mapped for the life of the process */
	struct weir_header *page;
	struct weir_slot *slot;
	uint32_t slot_number;
	int state;           /* enum weir_state */
	uint32_t generation; /* of the agent that gave the slot */
	int sock;            /* -1: closed; used under sock_lock */
	bool agent_gone;     /* its heartbeat is old: the gate counts as open */
	bool notes;          /* the agent takes notes */
	bool measures;       /* it says what the process holds */
	bool stopping;       /* the process is exiting: weir calls the driver no more by itself */
	uint32_t expired;    /* a gate value whose lease has run out, 0 if none */
	uint32_t asleep;     /* the watcher waits until it is woken */
	bool watched;        /* there is a watcher */
	bool movable;        /* memory is to be such as can be moved to the host */
	uint32_t captures;   /* streams being captured */
	bool begun;          /* the driver is initialised */
	bool outside;        /* no client of MPS, which it must be: it gets no context */
	uint32_t threads;    /* percentage that it began with as a client of MPS, 0: it is none */
	/* bumped when a stream goes, so that threads drop what they remember */
	uint32_t streams_generation;
	uint64_t inflight_ns; /* predicted time of all marks not seen complete, */
	uint64_t aside_ns;    /* and that of those on streams set aside, which are not among them */
	uint32_t aside;       /* streams set aside, */
	uint64_t stuck_since; /* and since when there are such, and the device has come to no mark */
	uint32_t strangers;   /* launches that could take any time, let in since then, */
	uint32_t uncertain;   /* launches not seen complete, nor set aside, that could take any time */
	uint32_t overlooked;  /* so many of them no launch waits to see, as one did in vain */
	uint64_t looked_ns;   /* when it was looked last for what stalls, */
	uint64_t unseen_since; /* and since when not all could be looked at, 0: all could */
	struct weir_stream *longer; /* the one whose open batch may be longer, or NULL */
	uint64_t progress_ns; /* when the last mark was seen complete, or the first one made */
	uint64_t let_ns;      /* when a launch was let in last that had waited */
	uint64_t unknown_ns;  /* how long first launches took lately, at most, */
	uint64_t waited_ns;   /* the same of those that seem to have waited, in part */
	uint32_t firsts;      /* and how many were measured */
	uint32_t needed;      /* launches for which the device is known to wait at once, 0: none */
	/* where what has passed the closed gate is: NULL: nothing has, or it is complete */
	struct weir_stream *passing;
	uint64_t passing_ns; /* since when */
	uint32_t wants;      /* the slot's waiting counts one for what passes */
	uint32_t wanted_at;  /* the gate's value at which the agent was told so last, */
	uint64_t wanted_ns;  /* and when a launch came last that may pass */
};

extern struct weir_process weir;

struct weir_stream;
int weir_attach(void); /* enum weir_state */
bool weir_job_named(void);
void weir_send(uint32_t kind, uint32_t gate);
bool weir_reconnect(void);
bool weir_socket_open(void);
uint64_t weir_now(void);
bool weir_device_is_ours(CUdevice dev);
void weir_unknown(const char *call);
bool weir_unknowns(void);
void weir_tell_unknown(void);
void weir_unknown_reset(void);
bool weir_send_note(const char *call);
bool weir_send_message(const void *message);
void weir_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline struct weir_header *weir_page(void)
{
	return __atomic_load_n(&weir.page, __ATOMIC_ACQUIRE);
}

static inline struct weir_slot *weir_slot(void)
{
	return __atomic_load_n(&weir.slot, __ATOMIC_ACQUIRE);
}

/* weir_ready tells whether calls are counted. */
static inline bool weir_ready(void)
{
	int s = __atomic_load_n(&weir.state, __ATOMIC_ACQUIRE);
	if (weir_likely(s == WEIR_ATTACHED))
		return true;
	return s != WEIR_OFF && weir_attach() == WEIR_ATTACHED;
}

CUresult weir_init(weir_fn_cuInit real, unsigned int flags); /* mps.c */

/* ---- calls of weir's own, and exit: own.c ---- */

bool weir_own_begin(void);
void weir_own_end(void);
void weir_own_thread(void);
void weir_own_reset(void);
void weir_at_exit(void);

/* ---- memory: ledger.c, sizes.c, take.c, pool.c ---- */

enum weir_kind {
	WEIR_KIND_POINTER = 1, /* device pointer; with: which allocation it is (alloc.c) */
	WEIR_KIND_POOLED,      /* device pointer from a pool; with: the pool's record */
	WEIR_KIND_ARRAY,
	WEIR_KIND_MIPMAP,
	WEIR_KIND_EXTERNAL,
	WEIR_KIND_PHYSICAL, /* cuMemCreate handle; with: its record */
	WEIR_KIND_MAPPING,  /* mapped range; with: the record of what is mapped */
	WEIR_KIND_GRAPH,    /* graphExec with memory nodes; with: launched */
	WEIR_KIND_BLOCK,    /* of the driver's, shared by small allocations; size: how many */
	WEIR_KIND_CONTEXT,  /* seen current since tables of undocumented calls were asked for */
	WEIR_KIND_ATTACHED, /* context; size: how often it was attached to (cuCtxAttach) */
	WEIR_KIND_MADE,     /* context; size: what it took, where that is certain */
	WEIR_KIND_MOVABLE,  /* device pointer to memory that can be moved; with: its record */
	WEIR_KIND_ALIVE,    /* context of a program whose memory can be moved */
	WEIR_KIND_OPENED,   /* device pointer to another process's memory, where own can be moved */
};

bool weir_reserve(uint64_t bytes);
bool weir_reserve_at_once(uint64_t bytes);
bool weir_would_fit(uint64_t bytes, uint64_t less);
void weir_overdraw(uint64_t bytes);
void weir_count(uint64_t bytes);
void weir_release(uint64_t bytes);
uint64_t weir_counted(void);
uint64_t weir_contexts(void);
void weir_contexts_are(uint64_t bytes);
bool weir_waits_begin(void);
void weir_waits_end(void);
void weir_ledger_adopt(struct weir_header *h, struct weir_slot *slot);
void weir_ledger_reset(void);
void weir_release_to_context(uint64_t bytes, uint64_t context);
uint64_t weir_reserve_rest(void);
bool weir_take_over(void);
void weir_decided(uint64_t bytes);
uint64_t weir_used(void);
uint64_t weir_cap(void);
uint64_t weir_granted(void);
CUresult weir_deny(void);

bool weir_sizes_put(enum weir_kind kind, uint64_t key, uint64_t size, void *with);
bool weir_sizes_take(enum weir_kind kind, uint64_t key, uint64_t *size, void **with);
bool weir_sizes_take_same(enum weir_kind kind, uint64_t key, uint64_t *size, const void *with);
bool weir_sizes_get(enum weir_kind kind, uint64_t key, uint64_t *size, void **with);
uint64_t weir_sizes_count(enum weir_kind kind, uint64_t key, int64_t more);
uint64_t *weir_sizes_keys(enum weir_kind kind, size_t *count);
uint64_t weir_sizes_sum(enum weir_kind kind, uintptr_t bits);
void weir_sizes_reset(void);

/* what is given back of a device pointer once the driver has freed it */
struct weir_freed {
	CUdeviceptr at;
	uint64_t bytes, size;
	void *mark;
};
bool weir_pointer_forget(CUdeviceptr at, struct weir_freed *f);
bool weir_pointer_take(CUdeviceptr at, struct weir_freed *f);
void weir_pointer_untake(struct weir_freed *f);
void weir_pointer_reached(struct weir_freed *f);
void weir_pointers_gone(void);
void *weir_context_id(CUcontext ctx);
void weir_handles_gone(const void *context);
void weir_pointer_restore(struct weir_freed *f);
uint64_t weir_loose(void);

uint64_t weir_pools_held(void);
void weir_pools_refresh(bool trim);
void weir_pools_reset(void);
void weir_pool_reached(void *pool);
bool weir_pools_slack(void);
uint64_t weir_pools_loose(void);
uint64_t weir_pools_leaving(void);

/* what is to be taken: take.c */
struct weir_want {
	bool (*claim)(struct weir_want *w); /* counts it, or says what the cap lacks for that */
	uint64_t bytes;                     /* it takes no less */
	uint64_t lacks;
};
bool weir_find_room(struct weir_want *w);
bool weir_take(uint64_t bytes);

/* frees in stream order: freeing.c */
struct weir_freed_to {
	uint64_t bytes;
	void *pool;                   /* they go back to this one, */
	struct weir_movable *movable; /* or are freed with this, */
	struct weir_freed pointer;    /* or else given up with this */
};
struct weir_freeing;
struct weir_freeing *weir_freeing_begin(const struct weir_freed_to *to, struct weir_stream *s);
void weir_freeing_called(struct weir_freeing *f, CUresult r);
uint64_t weir_freeing_elsewhere(const void *pool, const struct weir_stream *s);
uint64_t weir_freeing_bytes(void);
uint64_t weir_freeing_given(void);
void weir_freeing_gave(void);

/* how long an allocation waits for them */
struct weir_patience {
	uint64_t since;   /* when it began, 0: it has not */
	uint64_t given;   /* weir_freeing_given before it last looked for room */
	uint64_t trimmed; /* when pools were last to be trimmed */
	bool trim;        /* they are to be now */
	bool over;
};
bool weir_freeing_wait(struct weir_patience *p, uint64_t lacks);
void weir_freeing_look(void);
bool weir_freeing_any(void);
void weir_freeing_going(CUcontext ctx);
void weir_freeing_gone(CUcontext ctx, bool went);
void weir_freeing_reset(void);

void weir_vmm_reset(void);
void weir_contexts_reset(void);
void weir_graphs_captured_alloc(void);
void weir_graphs_refresh(void);
uint64_t weir_graphs_waiting(void);
void weir_graphs_reset(void);

/* ---- memory that is moved to the host and back: movable.c, hold.c, move.c, spill.c ---- */

/* what a file has of memory */
struct weir_spilled {
	bool there;
	uint64_t at;      /* from where on */
	uint64_t sums[4]; /* its checksum */
};

void weir_spill_begin(void);
void weir_spill_reset(void);
void weir_spill_adopt(struct weir_slot *slot);
bool weir_spills(void);
int weir_spill_out(
	struct weir_spilled *p, CUdeviceptr at, uint64_t bytes, CUstream s, CUresult *driver);
int weir_spill_in(
	const struct weir_spilled *p, CUdeviceptr at, uint64_t bytes, CUstream s, CUresult *driver);
void weir_spill_free(struct weir_spilled *p, uint64_t bytes);
void weir_spill_trim(void);

/* pinned memory of the host: pinned.c */
struct weir_pinned {
	void *at;
	bool mapped; /* by weir, and not by the driver */
};

CUresult weir_pinned_take(struct weir_pinned *p, uint64_t bytes);
void weir_pinned_give(struct weir_pinned *p, uint64_t bytes);

/* smaller allocations are left to the driver */
#define WEIR_MOVABLE_LEAST (UINT64_C(1) << 20)

/* an allocation; its context is that of its allocation, and id what weir_context_id gave for it */
struct weir_movable {
	CUdeviceptr at;
	uint64_t size, bytes; /* as asked for, and taken */
	CUcontext context;
	const void *id;
	uint64_t buffer, block; /* the driver's numbers of its first memory, which are the program's */
	CUdevice device;
	bool late;     /* it is to be freed when that can be, */
	bool reached;  /* which is at once: the device has come to where that was said */
	uint64_t seen; /* weir_touches when it came back last: what the host has is right until then */
	struct weir_movable *next, **link;
	uint32_t count;
	struct weir_piece {
		struct weir_pinned host;     /* its bytes; at NULL: none */
		struct weir_spilled spilled; /* or in a file */
		bool here;                   /* memory of the device is mapped */
	} pieces[];
};

bool weir_movable_alloc(CUdeviceptr *at, uint64_t size, CUresult *result);
bool weir_movable_free(CUdeviceptr at);
bool weir_movable_free_later(CUdeviceptr at, struct weir_stream *s);
void weir_movable_reached(struct weir_movable *m, bool seen);
bool weir_is_movable(CUdeviceptr at);
struct weir_movable *weir_movables(void);
uint64_t weir_movable_bytes(void);
uint64_t weir_movable_absent(void);
bool weir_movables_kept(struct weir_pinned *p, uint64_t *bytes, CUcontext *context);
void weir_movables_late(bool reached);
uint64_t weir_movables_due(void);
void weir_movables_gone(const void *context);
void weir_movables_reset(void);
CUdeviceptr weir_piece_at(const struct weir_movable *m, uint32_t i);
uint64_t weir_piece_bytes(const struct weir_movable *m, uint32_t i);
CUresult weir_piece_map(struct weir_movable *m, uint32_t i);
CUresult weir_piece_unmap(struct weir_movable *m, uint32_t i);
void weir_piece_forget(struct weir_piece *p, uint64_t bytes);

bool weir_hold_on(bool touches);
void weir_hold_off(void);
uint32_t weir_hold_pause(void);
void weir_hold_resume(uint32_t had);
void weir_hold_reset(void);
uint64_t weir_touches(void);
bool weir_barrier_close(void);
bool weir_barrier_away(void);
void weir_barrier_shut(void);
void weir_barrier_open(void);

/* weir_hold comes before a call that needs the program's memory on the device, and weir_unhold
 * after it with what it gave. A call that touches it may change it. */
static inline bool weir_hold(bool touches)
{
	return weir_unlikely(weir_peek(&weir.movable)) && weir_hold_on(touches);
}

static inline void weir_unhold(bool held)
{
	if (weir_unlikely(held))
		weir_hold_off();
}

void weir_mover_start(void);
void weir_mover_adopt(struct weir_slot *slot);
void weir_mover_reset(void);

/* ---- what the device says: measure.c, nvml.c, context.c, limit.c ---- */

/* what is known of what a process holds beyond its allocations */
enum weir_rest {
	WEIR_REST_UNKNOWN,
	WEIR_REST_LEAST, /* it may be more: other threads took or gave memory meanwhile */
	WEIR_REST_KNOWN,
};

/* a look at it */
struct weir_look {
	enum weir_rest is;
	int64_t least;  /* as if allocations took all that is counted for them, */
	uint64_t loose; /* of which some may take so much less: it may be as much more */
	uint64_t moves; /* calls that took or gave memory until then */
	uint64_t leaving; /* of loose, what is freed in stream order: it may have gone at any time */
	bool late;      /* it is unknown since the agent, which may tell, has not in time */
};

bool weir_nvml_holds(uint64_t *bytes);
struct weir_look weir_look(uint64_t reserved);
struct weir_look weir_look_patiently(uint64_t reserved);
void weir_counted_by(const struct weir_look *l);
uint64_t weir_at_least(const struct weir_look *l);
uint64_t weir_at_most(const struct weir_look *l);
void weir_moves_begin(void);
void weir_moves_end(void);
int weir_moves_pause(void);
void weir_moves_resume(int before);
uint64_t weir_granule(void);
uint64_t weir_taken(uint64_t bytes);
void weir_granule_learn(uint64_t room);
bool weir_grown(void);
void weir_shrunk(void);
void weir_too_much(uint64_t most);
void weir_unmeasured(void);
void weir_tables_given(void);
void weir_look_again(void);
bool weir_shrunk_since(void);
uint64_t weir_hidden(void);
void weir_measure_reset(void);
bool weir_turn_take(void);
void weir_turn_end(void);
void weir_limits_gone(const void *context);
uint64_t weir_limits_counted(void);
void weir_limits_reset(void);

/* ---- time: gate.c, short.c, streams.c, predict.c, inflight.c, room.c, watcher.c, capture.c */

/*
 * Predictions: one record for each kernel function (or graph, or size class of copies) and order of
 * magnitude of its grid. Times are in units of 16 ns, so that they fit beside the counts in a
 * stream's word.
 */
struct weir_function {
	uint64_t key;     /* 0: free */
	uint32_t guess;   /* predicted time of one launch: the larger of the two means, and spread */
	uint32_t fast, slow; /* means of the last few and the last many */
	uint32_t spread;     /* mean of how far launches are from slow */
	uint32_t least, most; /* what one has always, and what one has at most, taken lately */
	uint32_t peak;        /* and at most for long */
	uint32_t samples; /* how often it was measured, up to WEIR_SAMPLES */
	uint32_t age;     /* how often what it was about has gone (weir_function_gone) */
};

#define WEIR_UNIT_NS 16u
#define WEIR_SAMPLES 4u          /* launches measured one by one before a prediction is believed */
#define WEIR_FIRST_GUESS_NS 50000u
#define WEIR_BATCH 256u          /* most launches between two marks */
#define WEIR_MARKS 64u
#define WEIR_GUESS_NS 1000000000u /* the longest prediction: what runs for longer may be waiting */
#define WEIR_STALL_NS 4000000u   /* what takes longer than it may by so much is said to stall */
#define WEIR_UNKNOWN_NS 16000000u /* what a launch may take that was never measured, at least */
#define WEIR_LARGE_COPY (1u << 20)

/* A stream's word: threads between entering and leaving a launch, launches since the last mark, and
 * their predicted time. One addition covers all three. */
#define WEIR_LAUNCHING (UINT64_C(1) << 52)
#define WEIR_COUNT (UINT64_C(1) << 36)
#define weir_word_launching(w) ((uint32_t)((w) >> 52))
#define weir_word_count(w) ((uint32_t)((w) >> 36 & 0xffff))
#define weir_word_time(w) ((w) & (WEIR_COUNT - 1))

/* A mark is an event behind a batch of launches. */
struct weir_mark {
	CUevent begin, end;
	uint64_t ns, least_ns; /* predicted, and what such a batch has always taken */
	uint64_t late_ns;      /* what it may take before it is said to stall */
	struct weir_function *function; /* the only one of the batch, else NULL, */
	uint32_t age;                   /* and which of those that had its record */
	uint32_t count;
	unsigned char from; /* enum weir_from */
	bool uncertain;     /* its time could have been anything */
};

/* what the batch's time is measured from */
enum weir_from { WEIR_FROM_NOWHERE, WEIR_FROM_BEGIN, WEIR_FROM_MARK };

struct weir_stream {
	uint64_t word;
	struct weir_function *only; /* of the open batch, */
	uint32_t age;               /* and which of those that had its record */
	CUstream handle;
	CUcontext ctx;    /* of a default stream, the one that it is named in */
	CUcontext home;   /* whose events it takes: of a green context, the primary one, if known */
	CUgreenCtx green; /* NULL: of none */
	uint32_t life;    /* atomic: how often the record was given to a stream */
	uint64_t thread;  /* whose per-thread default stream it is, 0: none's */
	bool ended;       /* atomic: that thread has ended */
	bool gone;        /* destroyed: only its marks are left */
	bool later;       /* atomic: the watcher is to destroy it for the program */
	bool last;        /* atomic: the watcher is to mark its open batch at once */
	uint32_t unsure;  /* atomic: calls under way after which its context may be gone, or stay */
	bool free;        /* atomic, as gone: to be used again */
	bool dead;        /* atomic: its context is in an error that all calls give */
	bool origin;      /* atomic: a capture was begun on it, and counts in captures */
	pthread_mutex_t lock; /* of what follows */
	struct weir_mark marks[WEIR_MARKS];
	uint32_t head, tail; /* marks[tail..head) are not seen complete */
	unsigned char from;  /* for the open batch */
	bool stale;          /* the open batch was open when the watcher last looked, */
	uint32_t seen;       /* had so many launches, and was open at so many looks before */
	uint32_t looks;
	bool uncertain;      /* the open batch is one launch whose time could be anything */
	bool keeps_up;       /* the device had come to the last mark as soon as that was put */
	uint32_t longer;     /* atomic: by so many powers of two the open batch may be longer */
	uint64_t progress_ns; /* when the device came to its last mark, or the oldest was made */
	uint64_t blind_since; /* since when a launch waits to see other streams, 0: it does not */
	bool overlooked;      /* atomic: no launch waits to look at it, as one did in vain */
	uint64_t looked_ns;   /* atomic: when a thread looked last that waits for room */
	bool aside;           /* it stalls: it is not counted among what is in flight */
	uint64_t aside_since;
	uint32_t joined, joined_unknown; /* launches let through since, all and of unknown time, */
	uint64_t joined_ns;              /* and the predicted time of all */
	CUevent passed;                  /* behind the last launch that passed the closed gate */
	struct weir_stream *next;
};

struct weir_ticket {
	struct weir_stream *stream;
	struct weir_function *function;
	bool sample; /* to be marked as soon as it is launched */
	bool passes; /* the closed gate, because it is short */
	uint32_t pass; /* the closed gate's value at which the agent lets it through, 0: none */
	int cancel;    /* whether the thread could be cancelled before */
};

bool weir_enter(
	struct weir_ticket *t, uintptr_t key, uint64_t size, CUstream stream, int per_thread);
bool weir_enter_copy(struct weir_ticket *t, uint64_t bytes, CUstream stream, int per_thread);
bool weir_enter_prefetch(struct weir_ticket *t, uint64_t bytes, CUstream stream, int per_thread);
void weir_leave(struct weir_ticket *t, CUresult result);

/* weir_launches comes after weir_enter and before the driver's call, and weir_launched after that,
 * in place of weir_leave. The driver may have a cancellation point in between, and a thread that
 * ended there would be launching for ever, so that the gate is never seen to drain: the end of the
 * thread ends its launch (streams.c). One with more to do at its end is not cancelled; for all that
 * would cost as much as all else that weir does for a launch. */
extern __thread struct weir_stream *weir_launching_on __attribute__((tls_model("initial-exec")));

static inline void weir_launches(struct weir_ticket *t)
{
	if (weir_likely(!t->sample && !t->passes))
		weir_launching_on = t->stream;
	else
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &t->cancel);
}

static inline void weir_launched(struct weir_ticket *t, CUresult result)
{
	bool fixed = t->sample || t->passes;
	weir_leave(t, result);
	weir_launching_on = NULL;
	if (weir_unlikely(fixed))
		pthread_setcancelstate(t->cancel, NULL);
}

bool weir_gate_open(struct weir_header *h);
bool weir_agent_silent(struct weir_header *h, bool open, uint64_t now);
bool weir_passes(struct weir_header *h, struct weir_function *f);
bool weir_begin_pass(const struct weir_header *h);
void weir_end_pass(struct weir_stream *s, struct weir_function *f, bool launched);
void weir_pass_unwanted(void);
void weir_pass_unused(uint64_t now);
bool weir_mark_pass(struct weir_stream *s);

struct weir_stream *weir_stream_of(CUstream stream, int per_thread);
void weir_waits(CUstream stream);
struct weir_stream *weir_streams_first(void);
bool weir_stream_gone(CUstream stream);
void weir_last_mark(struct weir_stream *s);
void weir_destroy_late(struct weir_stream *s);
bool weir_stream_by_program(const struct weir_stream *s);
void weir_context_going(CUcontext ctx);
void weir_context_gone(CUcontext ctx, bool went);
void weir_green_gone(CUgreenCtx green);

struct weir_function *weir_function_of(uintptr_t key, uint64_t size);
void weir_function_measured(struct weir_function *f, uint64_t ns);
void weir_function_delayed(struct weir_function *f, bool stalled);
void weir_functions_distrust(void);
void weir_function_gone(uintptr_t key);
void weir_kernel_gone(uintptr_t key);
void weir_functions_gone(void);

bool weir_close_batch(struct weir_stream *s, bool by_watcher);
bool weir_lengthen(struct weir_stream *s);
void weir_reap(struct weir_stream *s);
void weir_forget_marks(struct weir_stream *s, bool there);
int weir_put_event(struct weir_stream *s, CUevent *event);
uint64_t weir_in_flight(void);
void weir_count_open(void);
bool weir_make_room(struct weir_stream *s, uint64_t ns, bool unknown, uint32_t others);
void weir_certain(uint32_t n);
bool weir_dead(struct weir_stream *s);
bool weir_set_aside(struct weir_stream *mine, uint64_t now);
void weir_glance(uint64_t since);
void weir_rest_beside(struct weir_stream *s);
bool weir_released(const struct weir_stream *s, uint64_t now);
uint32_t weir_doubled(uint64_t now);
bool weir_stalls(struct weir_stream *s, uint64_t now);
void weir_take_back(struct weir_stream *s);
void weir_begin_batch(struct weir_stream *s, bool measure);

bool weir_capturing(CUstream stream, int per_thread);
bool weir_captured(CUstream stream);
bool weir_default_begin(void);
void weir_default_end(void);
void weir_capture_over(struct weir_stream *s);

uint64_t weir_bytes_2d(const CUDA_MEMCPY2D *c);
uint64_t weir_bytes_2d_v1(const CUDA_MEMCPY2D_v1 *c);
uint64_t weir_bytes_3d_v1(const CUDA_MEMCPY3D_v1 *c);
uint64_t weir_bytes_3d(const CUDA_MEMCPY3D *c);
uint64_t weir_bytes_3d_peer(const CUDA_MEMCPY3D_PEER *c);
uint64_t weir_bytes_3d_ops(size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops);
uint64_t weir_bytes_sum(const size_t *sizes, size_t n);

uint64_t weir_bound(struct weir_header *h);
void weir_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
bool weir_futex_wake(uint32_t *word);
void weir_watcher_start(void);
void weir_watcher_wake(void);
void weir_streams_reset(void);
void weir_capture_reset(void);

#endif
