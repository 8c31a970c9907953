/*
 * Contexts. A job has one GPU, and contexts are made on that one only: what is done on another
 * would be neither counted there nor its share. Before a context is destroyed, weir lets go of the
 * events it has in it.
 *
 * What a context takes is counted before it is made: the most that one was found to take by others
 * of the job. Where none was made yet, nobody knows, and all that is left of the
 * cap is counted; others of the job that make one wait meanwhile. Afterwards the count is put right
 * by what the device says of this process. That says nothing while the process makes another one,
 * or allocates in it: a process makes one context at a time, and has a new primary context only
 * once it is counted.
 *
 * A primary context goes when it is released as often as it was retained. weir does not count
 * along: any release lets go of the events, and those of a context that stays are made anew.
 */
#include "weir.h"

#include <string.h>
#include <time.h>

#define DEVICES 64
#define PATIENCE_NS UINT64_C(10000000000) /* making a context takes seconds at most */

static CUcontext primary[DEVICES];
static bool told; /* of a device that is not the job's */
static uint32_t busy; /* a thread of this process makes a context */
static int64_t there; /* contexts of this process, primary ones not among them */
static __thread bool mine __attribute__((tls_model("initial-exec"))); /* this one does */
static __thread int cancel __attribute__((tls_model("initial-exec"))); /* if it could be before */

/* making is a context under way. */
struct making {
	bool turn; /* of this process: busy until it ends */
	bool all;  /* reserved is all that was left of the cap, and undecided */
	bool two;  /* the primary context may come with it */
	bool certain;
	uint64_t reserved;
	struct weir_look look; /* before it is made, where there are others */
	uint64_t took, surely; /* by that, if it is certain, and at least */
	uint64_t over; /* so much of what is counted for it may be too much */
	/* what takes it back */
	CUdevice device;  /* its primary context is released */
	CUgreenCtx green; /* or this is destroyed, and with it that */
	enum { CREATED, PRIMARY, GREEN } how;
};

void weir_contexts_reset(void)
{
	busy = 0;
	there = 0;
	mine = false;
}

static void pause_briefly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* weir_turn_take takes the process's turn to look at what its contexts take, if nobody has it. The
 * thread cannot be cancelled until it ends it. */
bool weir_turn_take(void)
{
	if (mine || __atomic_exchange_n(&busy, 1, __ATOMIC_SEQ_CST))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	return mine = true;
}

void weir_turn_end(void)
{
	mine = false;
	__atomic_store_n(&busy, 0, __ATOMIC_SEQ_CST);
	pthread_setcancelstate(cancel, NULL);
}

/* start waits for the process's turn to make a context or to look at what they take. Who makes one
 * within making one, as a tool that is called back may, or waits for longer than that can take,
 * goes on without. */
static struct making start(void)
{
	struct making m = {0};
	if (!weir_ready())
		return m;
	for (uint64_t began = mine ? 0 : weir_now(); !mine && weir_now() - began < PATIENCE_NS;) {
		m.turn = weir_turn_take();
		if (m.turn)
			break;
		pause_briefly();
	}
	return m;
}

static void end(struct making *m)
{
	if (m->turn)
		weir_turn_end();
}

static void going(CUcontext ctx)
{
	if (!ctx || !weir_ready())
		return;
	weir_context_going(ctx);
	weir_sizes_take(WEIR_KIND_CONTEXT, (uintptr_t)ctx, NULL, NULL);
	weir_sizes_take(WEIR_KIND_ATTACHED, (uintptr_t)ctx, NULL, NULL);
}

/* learn_granule uses the first context of all, as long as what is left of the cap is counted. */
static void learn_granule(CUcontext ctx, uint64_t room)
{
	weir_fn_cuCtxPushCurrent_v2 push = WEIR_DRIVER(cuCtxPushCurrent_v2);
	weir_fn_cuCtxPopCurrent_v2 pop = WEIR_DRIVER(cuCtxPopCurrent_v2);
	CUcontext same;
	if (!ctx || !push || !pop || !weir_own_begin())
		return;
	if (push(ctx) == CUDA_SUCCESS) {
		weir_granule_learn(room);
		pop(&same);
	}
	weir_own_end();
}

/* weir_device_is_ours tells whether the device is the job's, by the UUID on the page; without one
 * there, or with a driver that does not tell, every device is. */
bool weir_device_is_ours(CUdevice dev)
{
	static const unsigned char none[16];
	weir_fn_cuDeviceGetUuid get = WEIR_DRIVER(cuDeviceGetUuid_v2);
	unsigned char want[16];
	unsigned char have[16];
	if (!get)
		get = WEIR_DRIVER(cuDeviceGetUuid);
	memcpy(want, weir_page()->device_uuid, sizeof want);
	if (!memcmp(want, none, sizeof want) || !get || get((CUuuid *)have, dev) != CUDA_SUCCESS)
		return true;
	return !memcmp(want, have, sizeof want);
}

static void give_back(struct making *m)
{
	weir_release(m->reserved);
	if (m->all)
		weir_decided(m->reserved);
}

/* reserve counts bytes after giving the pools, where there is no room, a chance to return what they
 * keep unused. */
static bool reserve(uint64_t bytes)
{
	if (weir_reserve(bytes))
		return true;
	if (bytes <= weir_cap())
		weir_pools_refresh(true);
	return weir_reserve(bytes);
}

/* count counts what a context may take. */
static bool count(struct making *m)
{
	uint64_t *most = &weir_page()->context_bytes, began = weir_now(), known;
	while (!(known = weir_get(most))) {
		m->reserved = weir_reserve_rest();
		m->all = m->reserved > 0;
		if (m->all && !weir_get(most))
			return true;
		if (m->all)
			give_back(m);
		if (weir_now() - began > PATIENCE_NS)
			return false;
		if (!weir_take_over())
			pause_briefly();
	}
	m->all = false;
	m->reserved = known == WEIR_CONTEXT_UNMEASURED ? 0 : known;
	return reserve(m->reserved);
}

/* before is what must hold for a context to be made. If it does not hold, making has ended. */
static CUresult before(CUdevice dev, struct making *m)
{
	CUresult r = CUDA_SUCCESS;
	if (!weir_ready())
		return r;
	if (!weir_device_is_ours(dev)) {
		if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
			weir_say("device %d is not the GPU of this job, which has one: "
				"leave CUDA_VISIBLE_DEVICES as weir exec sets it", dev);
		r = CUDA_ERROR_INVALID_DEVICE;
	} else if (weir_get(&weir.outside)) {
		r = CUDA_ERROR_SYSTEM_NOT_READY;
	} else if (!count(m)) {
		r = weir_deny();
	}
	if (r != CUDA_SUCCESS)
		end(m);
	else if (weir_contexts())
		m->look = weir_look(m->reserved);
	return r;
}

/* learned notes what making a context took, for those that come after. */
static void learned(uint64_t bytes)
{
	uint64_t *most = &weir_page()->context_bytes, known = weir_get(most);
	while (bytes > known && bytes <= weir_cap() &&
		!__atomic_compare_exchange_n(
			most, &known, bytes, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static uint64_t positive(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

/* compare tells what the context took that was made since another look, unless other threads took
 * or gave memory since: what allocations take less than is counted for them is the same in both,
 * but for what is freed in stream order, which may have gone and have been seen to have gone before
 * either, or since. Within what that leaves open it is what others' contexts took. */
static void compare(struct making *m, uint64_t was, const struct weir_look *l)
{
	int64_t more = l->least - m->look.least;
	m->certain = l->is == WEIR_REST_KNOWN &&
		(!was || (m->look.is == WEIR_REST_KNOWN && m->look.moves == l->moves));
	uint64_t least = positive(more - (int64_t)m->look.leaving),
			 most = positive(more + (int64_t)l->leaving);
	m->took = m->reserved < least ? least : m->reserved < most ? m->reserved : most;
	m->surely = least;
}

/* found is what contexts take, of which there was so much before: by one look where allocations
 * take all that is counted for them, or else by two. If other threads took or gave memory
 * meanwhile, it is as much more as others' contexts took, if that is known, which is put right
 * where there is no room, and else what was seen, which is before the next allocation. */
static uint64_t found(uint64_t was, uint64_t *grown, const struct weir_look *l, struct making *m)
{
	uint64_t least = weir_at_least(l);
	compare(m, was, l);
	*grown = least > was ? least - was : 0;
	if (l->is == WEIR_REST_KNOWN && !l->loose)
		return least;
	if (m->certain) {
		*grown = m->took;
		m->over = m->took - m->surely;
		weir_too_much(m->over);
		if (least > was + *grown)
			weir_unmeasured(); /* frees had hidden some of what was there before */
		return was + *grown;
	}
	if (m->all) {
		weir_unmeasured();
	} else if (*grown < m->reserved) {
		weir_too_much(m->reserved - *grown);
		*grown = m->reserved;
	}
	return was + *grown;
}

/* note_made notes what a context took, which goes with it. */
static void note_made(CUcontext ctx, const struct making *m)
{
	weir_sizes_take(WEIR_KIND_MADE, (uintptr_t)ctx, NULL, NULL); /* of one that had its handle */
	if (ctx && m->certain && !m->two)
		weir_sizes_put(WEIR_KIND_MADE, (uintptr_t)ctx, m->took, NULL);
}

/* after settles what a context takes; false: it is more than the job may hold, and was not known
 * before, and what was counted for it still is. Who waits to make one finds the rest of the cap
 * undecided until it also finds what one takes. */
static bool after(CUresult r, CUcontext ctx, struct making *m)
{
	uint64_t was = weir_contexts();
	if (r != CUDA_SUCCESS) {
		give_back(m);
		return true;
	}
	struct weir_look l = weir_look_patiently(m->reserved);
	weir_counted_by(&l);
	if (l.is == WEIR_REST_UNKNOWN) {
		if (m->all)
			learn_granule(ctx, m->reserved);
		if (l.late)
			weir_unmeasured(); /* it is counted before the next allocation */
		weir_release(m->reserved);
		learned(WEIR_CONTEXT_UNMEASURED);
	} else {
		uint64_t grown, now = found(was, &grown, &l, m);
		if (grown > m->reserved && !reserve(grown - m->reserved)) {
			learned(grown);
			return false;
		}
		if (m->all && grown < m->reserved)
			learn_granule(ctx, m->reserved - grown);
		weir_release_to_context(grown > m->reserved ? grown : m->reserved, now);
		note_made(ctx, m);
		grown -= m->over; /* others know what is certain */
		learned(grown > WEIR_CONTEXT_UNMEASURED ? grown : WEIR_CONTEXT_UNMEASURED);
	}
	if (m->all)
		weir_decided(m->reserved);
	return true;
}

/* undo takes a context back that is more than the job may hold. */
static CUresult undo(CUcontext ctx, struct making *m)
{
	weir_fn_cuCtxDestroy_v2 destroy = WEIR_DRIVER(cuCtxDestroy_v2);
	weir_fn_cuDevicePrimaryCtxRelease release = WEIR_DRIVER(cuDevicePrimaryCtxRelease_v2);
	weir_fn_cuGreenCtxDestroy destroy_green = WEIR_DRIVER(cuGreenCtxDestroy);
	if (m->how == PRIMARY && release)
		release(m->device);
	else if (m->how == GREEN && destroy_green)
		destroy_green(m->green);
	else if (m->how == CREATED && destroy)
		destroy(ctx);
	else
		return CUDA_SUCCESS;
	return weir_deny();
}

/* note_alive notes a context in which something may be under way when memory is to be moved. */
static void note_alive(CUcontext ctx)
{
	if (ctx && weir_get(&weir.movable) &&
		!weir_sizes_get(WEIR_KIND_ALIVE, (uintptr_t)ctx, NULL, NULL))
		weir_sizes_put(WEIR_KIND_ALIVE, (uintptr_t)ctx, 0, NULL);
}

static CUresult made(CUresult r, CUcontext ctx, struct making *m)
{
	if (weir_ready() && !after(r, ctx, m)) {
		r = undo(ctx, m);
		give_back(m);
	}
	if (r == CUDA_SUCCESS && m->how != PRIMARY)
		__atomic_fetch_add(&there, 1, __ATOMIC_RELAXED);
	if (r == CUDA_SUCCESS)
		note_alive(ctx);
	end(m);
	return r;
}

/* active tells whether the device's primary context is there. Programs retain it again and again;
 * only its coming and going is worth a look at what it takes. */
static bool active(CUdevice dev)
{
	weir_fn_cuDevicePrimaryCtxGetState get = WEIR_DRIVER(cuDevicePrimaryCtxGetState);
	unsigned int flags;
	int is = 0;
	return get && get(dev, &flags, &is) == CUDA_SUCCESS && is;
}

static bool any_left(void)
{
	bool any = __atomic_load_n(&there, __ATOMIC_RELAXED) > 0;
	for (CUdevice dev = 0; dev < DEVICES && !any; dev++)
		any = __atomic_load_n(&primary[dev], __ATOMIC_RELAXED) && active(dev);
	return any;
}

/* gone says whether a context went that was going. */
static void gone(CUcontext ctx, bool went)
{
	if (!ctx || !weir_ready())
		return;
	weir_context_gone(ctx, went);
	if (!went)
		return;
	weir_sizes_take(WEIR_KIND_ALIVE, (uintptr_t)ctx, NULL, NULL);
	weir_functions_gone(); /* with its modules, of which others may get the handles */
}

/* swept counts no more what went with a context, which is known by weir_context_id. */
static void swept(CUresult r, const void *id)
{
	if (r != CUDA_SUCCESS || !weir_ready())
		return;
	weir_pointers_gone();
	if (id) {
		weir_handles_gone(id);
		weir_limits_gone(id);
		weir_movables_gone(id);
	}
}

/* remaining is what contexts take after one has gone that was counted with so much, within what the
 * device says. */
static uint64_t remaining(const struct weir_look *l, uint64_t was, uint64_t made)
{
	uint64_t least = weir_at_least(l), most = weir_at_most(l),
			 rest = was > made ? was - made : 0;
	rest = rest > least ? rest : least;
	return rest < most ? rest : most;
}

/* left counts what the contexts take after one has gone, and so many that are not primary ones. A
 * process without any is not listed by NVML, and has none of their memory. */
static void left(CUresult r, CUcontext ctx, int gone)
{
	uint64_t made = 0;
	if (r != CUDA_SUCCESS || !weir_ready())
		return;
	struct making m = start();
	__atomic_fetch_sub(&there, gone, __ATOMIC_RELAXED);
	weir_sizes_take(WEIR_KIND_MADE, (uintptr_t)ctx, &made, NULL);
	struct weir_look l = weir_look(0);
	weir_counted_by(&l);
	uint64_t least = weir_at_least(&l), rest = remaining(&l, weir_contexts(), made);
	if (!any_left()) {
		weir_contexts_are(least);
	} else if (l.is != WEIR_REST_UNKNOWN) {
		weir_contexts_are(rest);
		weir_too_much(rest - least);
	}
	end(&m);
}

#define CREATE(symbol, ...) \
	weir_fn_##symbol real = (weir_fn_##symbol)weir_real(call); \
	if (!real) \
		return weir_missing(); \
	struct making m = start(); \
	CUresult r = before(dev, &m); \
	if (r != CUDA_SUCCESS) \
		return r; \
	r = real(__VA_ARGS__); \
	return made(r, r == CUDA_SUCCESS ? *ctx : NULL, &m)

CUresult weir_on_ctx_create(enum weir_call call, CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	CREATE(cuCtxCreate_v2, ctx, flags, dev);
}

CUresult weir_on_ctx_create_v3(enum weir_call call, CUcontext *ctx, CUexecAffinityParam *params,
	int n, unsigned int flags, CUdevice dev)
{
	CREATE(cuCtxCreate_v3, ctx, params, n, flags, dev);
}

CUresult weir_on_ctx_create_v4(enum weir_call call, CUcontext *ctx, CUctxCreateParams *params,
	unsigned int flags, CUdevice dev)
{
	CREATE(cuCtxCreate_v4, ctx, params, flags, dev);
}

CUresult weir_on_ctx_retain(enum weir_call call, CUcontext *ctx, CUdevice dev)
{
	weir_fn_cuDevicePrimaryCtxRetain real = (weir_fn_cuDevicePrimaryCtxRetain)weir_real(call);
	CUresult r;
	bool fresh = false;
	if (!real)
		return weir_missing();
	struct making m = start();
	if (active(dev))
		end(&m);
	else if ((r = before(dev, &m)) != CUDA_SUCCESS)
		return r;
	else
		fresh = true;
	r = real(ctx, dev);
	if (r == CUDA_SUCCESS && ctx && dev >= 0 && dev < DEVICES)
		__atomic_store_n(&primary[dev], *ctx, __ATOMIC_RELAXED);
	m.how = PRIMARY;
	m.device = dev;
	return fresh ? made(r, r == CUDA_SUCCESS ? *ctx : NULL, &m) : r;
}

/* A green context retains the device's primary one (cuGreenCtxCreate), which it may be the first to
 * do, and takes memory of its own. */
CUresult weir_on_green_create(enum weir_call call, CUgreenCtx *green, CUdevResourceDesc resources,
	CUdevice dev, unsigned int flags)
{
	weir_fn_cuGreenCtxCreate real = (weir_fn_cuGreenCtxCreate)weir_real(call);
	weir_fn_cuCtxFromGreenCtx as_context = WEIR_DRIVER(cuCtxFromGreenCtx);
	CUcontext ctx = NULL;
	if (!real)
		return weir_missing();
	struct making m = start();
	CUresult r = before(dev, &m);
	if (r != CUDA_SUCCESS)
		return r;
	m.two = !active(dev);
	r = real(green, resources, dev, flags);
	m.how = GREEN;
	m.green = r == CUDA_SUCCESS ? *green : NULL;
	if (r == CUDA_SUCCESS && as_context)
		as_context(&ctx, m.green);
	return made(r, ctx, &m);
}

CUresult weir_on_green_destroy(enum weir_call call, CUgreenCtx green)
{
	weir_fn_cuGreenCtxDestroy real = (weir_fn_cuGreenCtxDestroy)weir_real(call);
	weir_fn_cuCtxFromGreenCtx as_context = WEIR_DRIVER(cuCtxFromGreenCtx);
	CUcontext ctx = NULL;
	const void *id = NULL;
	if (!real)
		return weir_missing();
	bool held = weir_hold(false);
	if (weir_ready())
		weir_green_gone(green);
	if (weir_ready() && as_context && as_context(&ctx, green) == CUDA_SUCCESS)
		id = weir_context_id(ctx);
	weir_moves_begin();
	CUresult r = real(green);
	if (r == CUDA_SUCCESS && ctx)
		weir_sizes_take(WEIR_KIND_ALIVE, (uintptr_t)ctx, NULL, NULL);
	swept(r, id);
	weir_moves_end();
	left(r, ctx, 1);
	weir_unhold(held);
	return r;
}

static CUresult destroy(CUresult (*real)(CUcontext), CUcontext ctx)
{
	bool held = weir_hold(false);
	going(ctx);
	const void *id = ctx && weir_ready() ? weir_context_id(ctx) : NULL;
	weir_moves_begin();
	CUresult r = real(ctx);
	gone(ctx, r == CUDA_SUCCESS);
	swept(r, id);
	weir_moves_end();
	left(r, ctx, 1);
	weir_unhold(held);
	return r;
}

CUresult weir_on_ctx_destroy(enum weir_call call, CUcontext ctx)
{
	weir_fn_cuCtxDestroy_v2 real = (weir_fn_cuCtxDestroy_v2)weir_real(call);
	return real ? destroy(real, ctx) : weir_missing();
}

CUresult weir_on_ctx_attach(enum weir_call call, CUcontext *ctx, unsigned int flags)
{
	weir_fn_cuCtxAttach real = (weir_fn_cuCtxAttach)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(ctx, flags);
	if (r == CUDA_SUCCESS && weir_ready())
		weir_sizes_count(WEIR_KIND_ATTACHED, (uintptr_t)*ctx, 1);
	return r;
}

/* A context goes when it is detached from once more than it was attached to. */
CUresult weir_on_ctx_detach(enum weir_call call, CUcontext ctx)
{
	weir_fn_cuCtxDetach real = (weir_fn_cuCtxDetach)weir_real(call);
	if (!real)
		return weir_missing();
	if (!weir_ready() || !weir_sizes_get(WEIR_KIND_ATTACHED, (uintptr_t)ctx, NULL, NULL))
		return destroy(real, ctx);
	CUresult r = real(ctx);
	if (r == CUDA_SUCCESS)
		weir_sizes_count(WEIR_KIND_ATTACHED, (uintptr_t)ctx, -1);
	return r;
}

/* let_go is a release or a reset of a primary context. */
static CUresult let_go(CUresult (*real)(CUdevice), CUdevice dev)
{
	if (!real)
		return weir_missing();
	bool valid = dev >= 0 && dev < DEVICES, held = weir_hold(false);
	CUcontext ctx = valid ? __atomic_load_n(&primary[dev], __ATOMIC_RELAXED) : NULL;
	going(ctx);
	const void *id = ctx && weir_ready() ? weir_context_id(ctx) : NULL;
	weir_moves_begin();
	CUresult r = real(dev);
	bool went = !active(dev);
	gone(ctx, went);
	if (went)
		swept(r, id);
	weir_moves_end();
	if (went)
		left(r, ctx, 0);
	weir_unhold(held);
	return r;
}

CUresult weir_on_ctx_release(enum weir_call call, CUdevice dev)
{
	return let_go((weir_fn_cuDevicePrimaryCtxRelease)weir_real(call), dev);
}

CUresult weir_on_ctx_reset(enum weir_call call, CUdevice dev)
{
	return let_go((weir_fn_cuDevicePrimaryCtxReset)weir_real(call), dev);
}
