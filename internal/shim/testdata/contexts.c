/*
 * Contexts that are made and go while the device says what the process holds, or does not, and
 * while other threads have the driver exactly then.
 */
#include "../src/weir.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "stays.h"

#define CAP 1000
#define TAKES 100 /* each context */

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own;

/* ---- the driver: contexts have the same handle and ids that count up */

static bool listed = true;  /* the process, with what it holds */
static uint64_t held, ids, allocated;
static int64_t live, primary; /* contexts, and how often the primary one is retained */
static CUresult fails;
static uint64_t counted_then, pending_then, destroyed;
static void (*meanwhile)(void); /* as a context is made */
static bool counts_wrong; /* as another thread allocates: 50 bytes counted and not held */
static uint64_t takes = TAKES;

static char handle, first;
static bool turn; /* another thread had its turn while a context was made */

static void *try_turn(void *unused)
{
	if ((turn = weir_turn_take()))
		weir_turn_end();
	return unused;
}

static CUresult made(void)
{
	pthread_t other;
	pthread_create(&other, NULL, try_turn, NULL);
	pthread_join(other, NULL);
	CUresult r = fails;
	fails = CUDA_SUCCESS;
	counted_then = own->mem_used_bytes + own->mem_context_bytes;
	pending_then = own->mem_pending_bytes;
	held += r ? 0 : takes;
	if (meanwhile)
		meanwhile();
	if (counts_wrong) {
		weir_count(50);
		allocated += 50;
	}
	return r;
}

static CUresult driver_create(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	(void)flags, (void)dev;
	*ctx = (CUcontext)&handle;
	CUresult r = made();
	ids += !r;
	live += !r;
	return r;
}

static CUresult driver_destroy(CUcontext ctx)
{
	(void)ctx;
	CUresult r = fails;
	fails = CUDA_SUCCESS;
	destroyed += !r;
	live -= !r;
	held -= r ? 0 : takes;
	ids += 10; /* another thread may make one at once, of the same handle */
	return r;
}

static CUresult driver_attach(CUcontext *ctx, unsigned int flags)
{
	*ctx = (CUcontext)&handle;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int attached;

static CUresult driver_detach(CUcontext ctx)
{
	if (attached) {
		attached--;
		return CUDA_SUCCESS;
	}
	return driver_destroy(ctx);
}

static CUresult driver_retain(CUcontext *ctx, CUdevice dev)
{
	(void)dev;
	*ctx = (CUcontext)&first;
	counted_then = own->mem_used_bytes + own->mem_context_bytes;
	CUresult r = primary ? CUDA_SUCCESS : made();
	primary += !r;
	return r;
}

static CUresult driver_release(CUdevice dev)
{
	(void)dev;
	if (!--primary)
		held -= takes;
	return CUDA_SUCCESS;
}

static CUresult driver_state(CUdevice dev, unsigned int *flags, int *is)
{
	(void)dev;
	*flags = 0;
	*is = primary > 0;
	return CUDA_SUCCESS;
}

static CUresult driver_uuid(CUuuid *id, CUdevice dev)
{
	memset((void *)id, dev, 16);
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuCtxCreate_v2:
		return (void *)driver_create;
	case WEIR_cuCtxDestroy_v2:
		return (void *)driver_destroy;
	case WEIR_cuCtxAttach:
		return (void *)driver_attach;
	case WEIR_cuCtxDetach:
		return (void *)driver_detach;
	case WEIR_cuDevicePrimaryCtxRetain:
		return (void *)driver_retain;
	case WEIR_cuDevicePrimaryCtxRelease_v2:
		return (void *)driver_release;
	case WEIR_cuDevicePrimaryCtxGetState:
		return (void *)driver_state;
	case WEIR_cuDeviceGetUuid_v2:
		return (void *)driver_uuid;
	default:
		return NULL;
	}
}

/* ---- the rest of the library */

static uint64_t swept_arrays, swept_limits, let_go, gone_for_good, forgotten, now;

uint64_t weir_now(void) { return now += 10000000; }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
void weir_send(uint32_t kind, uint32_t gate) { (void)kind, (void)gate; }
void weir_say(const char *format, ...) { (void)format; }
static uint64_t loose;
static uint64_t leaving; /* freed in stream order, counted, and held until the device comes there */
uint64_t weir_loose(void) { return loose + leaving; }
uint64_t weir_freeing_bytes(void) { return leaving; }
void weir_freeing_look(void) {}
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}

static uint64_t unused; /* kept in pools, which give it back when they are asked to */

uint64_t weir_graphs_waiting(void) { return 0; }

void weir_pools_refresh(bool trim)
{
	if (!trim)
		return;
	weir_release(unused);
	held -= unused;
	unused = 0;
}

void weir_context_going(CUcontext ctx) { let_go += ctx != NULL; }
void weir_context_gone(CUcontext ctx, bool went) { gone_for_good += ctx && went; }
void weir_functions_gone(void) { forgotten++; }
void weir_green_gone(CUgreenCtx green) { (void)green; }
void weir_pointers_gone(void) {}
void weir_handles_gone(const void *id) { swept_arrays = (uintptr_t)id; }
void weir_limits_gone(const void *id) { swept_limits = (uintptr_t)id; }

void *weir_context_id(CUcontext ctx)
{
	(void)ctx;
	return (void *)(uintptr_t)ids;
}

bool weir_nvml_holds(uint64_t *bytes)
{
	*bytes = held;
	return listed && held;
}

/* ---- the program */

static CUcontext ctx;

static CUresult create(void)
{
	return weir_on_ctx_create(WEIR_cuCtxCreate_v2, &ctx, 0, 0);
}

static CUresult destroy(void)
{
	return weir_on_ctx_destroy(WEIR_cuCtxDestroy_v2, ctx);
}

static uint64_t counted(void)
{
	return own->mem_used_bytes + own->mem_context_bytes;
}

static void begin(void)
{
	memset(page, 0, sizeof page);
	weir_ledger_reset();
	weir.page->mem_cap_bytes = CAP;
	weir_contexts_reset();
	weir_measure_reset();
	weir_sizes_reset();
	held = allocated = ids = let_go = swept_arrays = swept_limits = destroyed = 0;
	gone_for_good = forgotten = 0;
	live = primary = attached = 0;
	listed = true;
	counts_wrong = false;
	takes = TAKES;
	loose = unused = leaving = 0;
	meanwhile = NULL;
}

/* A context that gets the handle of one that has gone was not seen before. */
static void handles_again(void)
{
	begin();
	create();
	weir_sizes_put(WEIR_KIND_CONTEXT, (uintptr_t)ctx, 0, NULL);
	destroy();
	expect("seen", weir_sizes_get(WEIR_KIND_CONTEXT, (uintptr_t)ctx, NULL, NULL), false);
}

static void one_by_one(void)
{
	begin();
	fails = CUDA_ERROR_INVALID_VALUE;
	expect("a first context that the driver refuses", create(), CUDA_ERROR_INVALID_VALUE);
	expect("after it", counted() + own->mem_pending_bytes, 0);
	create();
	expect("while the first is made", counted_then, CAP);
	expect("looked at by another thread", turn, false);
	expect("undecided meanwhile", pending_then, CAP);
	expect("of the first", counted(), TAKES);
	expect("undecided after it", own->mem_pending_bytes, 0);
	expect("known for others", weir.page->context_bytes, TAKES);
	takes = 150;
	create();
	expect("while the second is made", counted_then, 2 * TAKES);
	expect("of a second that is larger", counted(), TAKES + 150);
	expect("known for others", weir.page->context_bytes, 150);
	takes = 900;
	expect("one that is too large", create(), CUDA_ERROR_OUT_OF_MEMORY);
	expect("is destroyed", destroyed, 1);
	expect("after it", counted(), TAKES + 150);
	expect("known for others", weir.page->context_bytes, 900);
	takes = 150;
	destroy();
	expect("the second gone", counted(), TAKES);
	fails = CUDA_ERROR_INVALID_VALUE;
	destroy();
	expect("the first not gone", counted(), TAKES);
	expect("contexts said to have gone", gone_for_good, 1);
	takes = TAKES;
	destroy();
	expect("all gone", counted(), 0);
	expect("on another, where any will do",
		weir_on_ctx_create(WEIR_cuCtxCreate_v2, &ctx, 0, 1), CUDA_SUCCESS);
	weir.page->device_uuid[0] = 1;
	expect("on another device", create(), CUDA_ERROR_INVALID_DEVICE);
}

/* A process without contexts is not listed; one with contexts may not be for a while. */
static void unlisted(void)
{
	begin();
	create();
	create();
	listed = false;
	destroy();
	expect("one of two gone, and nobody tells", counted(), 2 * TAKES);
	destroy();
	expect("both gone", counted(), 0);
	listed = true;
	weir_on_ctx_retain(WEIR_cuDevicePrimaryCtxRetain, &ctx, 0);
	create();
	expect("beside the primary one", counted(), 2 * TAKES);
	listed = false;
	destroy();
	expect("the other gone, and nobody tells", counted(), 2 * TAKES);
	weir_on_ctx_release(WEIR_cuDevicePrimaryCtxRelease_v2, 0);
	expect("the primary one gone", counted(), 0);
	begin();
	listed = false;
	create();
	expect("where nobody tells", counted(), 0);
	expect("for others", weir.page->context_bytes, WEIR_CONTEXT_UNMEASURED);
}

static void primary_one(void)
{
	begin();
	weir_on_ctx_retain(WEIR_cuDevicePrimaryCtxRetain, &ctx, 0);
	expect("while the primary one is made", counted_then, CAP);
	weir_on_ctx_retain(WEIR_cuDevicePrimaryCtxRetain, &ctx, 0);
	expect("when it is there", counted_then, TAKES);
	ids = 7;
	weir_on_ctx_release(WEIR_cuDevicePrimaryCtxRelease_v2, 0);
	expect("released as often less one", counted(), TAKES);
	expect("of which nothing is swept", swept_arrays + swept_limits, 0);
	expect("which is said to stay", gone_for_good + forgotten, 0);
	weir_on_ctx_release(WEIR_cuDevicePrimaryCtxRelease_v2, 0);
	expect("released as often", counted(), 0);
	expect("of which arrays are swept", swept_arrays, 7);
	expect("and limits", swept_limits, 7);
	expect("events let go", let_go, 2);
	expect("which is said to have gone", gone_for_good, 1);
	expect("with its kernels", forgotten, 1);
}

static void attaching(void)
{
	begin();
	create();
	CUcontext same;
	weir_on_ctx_attach(WEIR_cuCtxAttach, &same, 0);
	attached++;
	weir_on_ctx_attach(WEIR_cuCtxAttach, &same, 1); /* which the driver refuses */
	weir_on_ctx_detach(WEIR_cuCtxDetach, ctx);
	expect("detached as often as attached", counted(), TAKES);
	expect("events let go", let_go, 0);
	weir_on_ctx_detach(WEIR_cuCtxDetach, ctx);
	expect("detached once more", counted(), 0);
	expect("events let go", let_go, 1);
	expect("swept by its id, not by another's since", swept_arrays, 1);
	create();
	weir_on_ctx_attach(WEIR_cuCtxAttach, &same, 0);
	destroy();
	create();
	weir_on_ctx_detach(WEIR_cuCtxDetach, ctx);
	expect("another of that handle, detached", counted(), 0);
}

static void *move(void *begins)
{
	if (begins)
		weir_moves_begin();
	else
		weir_moves_end();
	return NULL;
}

static void another_thread(bool begins)
{
	pthread_t t;
	pthread_create(&t, NULL, move, begins ? page : NULL);
	pthread_join(t, NULL);
}

/* While a second context is made another thread's allocation of 50 bytes is counted and not held:
 * what is found is too little. */
static void beside_others(void)
{
	begin();
	create();
	another_thread(true);
	counts_wrong = true;
	create();
	counts_wrong = false;
	expect("contexts as large as known", own->mem_context_bytes, 2 * TAKES);
	destroy();
	expect("not lowered meanwhile", own->mem_context_bytes, 2 * TAKES);
	held += allocated; /* the driver has given it */
	another_thread(false);
	expect("less, once it has returned", weir_shrunk_since(), true);
	expect("contexts then", own->mem_context_bytes, TAKES);

	begin();
	another_thread(true);
	weir_reserve(30); /* which the driver gives later */
	create();
	expect("a first context at least", own->mem_context_bytes, TAKES - 30);
	held += 30;
	another_thread(false);
	weir_look_again();
	expect("before the next allocation", own->mem_context_bytes, TAKES);
}

/* Where there is no room for a context, pools give back what they keep unused; also where it takes
 * more than the others did. */
static void beside_pools(void)
{
	for (int more = 0; more <= 50; more += 50) {
		begin();
		create();
		weir_reserve(unused = CAP - TAKES - 2 * more);
		held += unused;
		takes = TAKES + more;
		expect("with room in pools alone", create(), CUDA_SUCCESS);
		expect("of both", counted(), 2 * TAKES + more);
	}
}

/* Of 80 counted bytes the device has 30 only, as of managed memory that is not used as yet:
 * contexts are not counted with less for that, and what one takes goes with it. */
static void beside_loose(void)
{
	begin();
	weir_on_ctx_retain(WEIR_cuDevicePrimaryCtxRetain, &ctx, 0);
	weir_reserve(loose = 80);
	held += 30;
	create();
	expect("contexts", own->mem_context_bytes, 2 * TAKES);
	for (int i = 0; i < 3; i++) {
		destroy();
		expect("of which one has gone", own->mem_context_bytes, TAKES);
		create();
		expect("and has come again", own->mem_context_bytes, 2 * TAKES);
	}
	weir_on_ctx_release(WEIR_cuDevicePrimaryCtxRelease_v2, 0);
	expect("of which the first has gone", own->mem_context_bytes, TAKES);
	weir_release(loose);
	held -= 30;
	loose = 0;
	destroy();
	expect("at the end", counted(), 0);

	begin();
	weir_on_ctx_retain(WEIR_cuDevicePrimaryCtxRetain, &ctx, 0);
	weir_reserve(loose = 80);
	held += 30;
	another_thread(true);
	create();
	another_thread(false);
	expect("as large as known", own->mem_context_bytes, 2 * TAKES);
	destroy();
	expect("gone, of which it is not known what it took", own->mem_context_bytes, TAKES + 30);
	weir_release(loose);
	held -= 30;
	loose = 0;
	expect("less, once that is known", weir_shrunk_since(), true);
	expect("then", own->mem_context_bytes, TAKES);
}

static void reach(void) { held -= 80; }

static void see(void)
{
	weir_release(leaving);
	leaving = 0;
}

static void reach_and_see(void)
{
	reach();
	see();
}

/* Of 80 bytes that are freed in stream order, the device comes to the free as a context is made, or
 * before, and that is seen then, or later. */
static void beside_frees(void)
{
	static void (*const then[])(void) = {NULL, reach, see, reach_and_see};
	for (int i = 0; i < 4; i++) {
		begin();
		create();
		weir_reserve(leaving = 80);
		held += then[i] == see ? 0 : 80;
		meanwhile = then[i];
		create();
		meanwhile = NULL;
		expect("contexts beside a free", own->mem_context_bytes, 2 * TAKES);
		if (!then[i])
			reach();
		if (leaving)
			see();
		expect("once it is over", own->mem_context_bytes, 2 * TAKES);
		expect("less then", weir_shrunk_since(), false);
		weir_reserve(leaving = 80); /* which has gone */
		destroy();
		see();
		expect("contexts, of which one has gone", own->mem_context_bytes, TAKES);
		destroy();
		expect("at the end", counted(), 0);
	}
}

/* It is freed and gone while a context is made, beside another thread's calls. */
static void leave(void)
{
	another_thread(true);
	another_thread(false);
	leaving = 80;
	reach();
}

static void beside_free_of(uint64_t took, void (*then)(void))
{
	begin();
	create();
	weir_reserve(loose = 10); /* which is not there */
	weir_reserve(80);
	held += then == see ? 0 : 80;
	leaving = then == leave ? 0 : 80;
	takes = took;
	meanwhile = then;
	create();
	meanwhile = NULL;
}

/* Contexts that take more or less than others beside a free: that is put right once it is over,
 * before the next allocation, or where there is no room. */
static void of_other_sizes(void)
{
	static void (*const then[])(void) = {reach, see, reach_and_see, leave};
	for (int i = 0; i < 4; i++) {
		beside_free_of(TAKES + 30, then[i]);
		expect("no more than is certain", own->mem_context_bytes,
			2 * TAKES + (then[i] == see ? 30 : 0));
		see();
		weir_look_again();
		expect("once it is over", own->mem_context_bytes,
			2 * TAKES + 30 - (then[i] == see ? 0 : loose));
	}
	beside_free_of(TAKES - 30, NULL);
	expect("as others' contexts", own->mem_context_bytes, 2 * TAKES);
	reach();
	see();
	loose = 0;
	weir_release(10);
	expect("less, once it is over", weir_shrunk_since(), true);
	expect("contexts then", own->mem_context_bytes, 2 * TAKES - 30);
	weir_look_again(); /* beside no free */
	weir_reserve(leaving = 80); /* which has gone */
	destroy();
	expect("of which one has gone", own->mem_context_bytes, TAKES - 30);
	see();
	weir_look_again();
	expect("before the next allocation", own->mem_context_bytes, TAKES);
}

/* It is looked again soon after contexts were made and went beside frees, however many, */
static void looked_again_soon(void)
{
	begin();
	create();
	weir_reserve(leaving = 80);
	held += 80;
	for (int i = 0; i < 20; i++) {
		create();
		destroy();
	}
	takes = TAKES + 30;
	meanwhile = reach;
	create();
	meanwhile = NULL;
	expect("no more than is certain", own->mem_context_bytes, 2 * TAKES);
	see();
	weir_look_again();
	expect("once it is over", own->mem_context_bytes, 2 * TAKES + 30);
}

/* also where nobody could tell, or not for sure, as one went meanwhile; */
static void looked_again_for_sure(void)
{
	for (int tells = 0; tells < 2; tells++) {
		beside_free_of(TAKES + 80, reach);
		see();
		takes = TAKES;
		listed = tells;
		another_thread(true);
		weir_count(100); /* which the driver has not given yet */
		destroy();
		listed = true;
		held += 100;
		another_thread(false);
		expect("contexts, of which one has gone", own->mem_context_bytes,
			tells ? TAKES : 2 * TAKES);
		weir_contexts_are(TAKES);
		weir_look_again();
		expect("contexts", own->mem_context_bytes, TAKES + 80 - loose);
		unsigned before = own->mem_context_bytes;
		held += 20; /* of one that was never seen */
		weir_look_again();
		expect("contexts, which are not looked at again", own->mem_context_bytes, before);
	}
}

/* and what was hidden as one was made is not forgotten as the next one is. */
static void hidden_before(void)
{
	beside_free_of(TAKES + 30, reach);
	see();
	loose = 100;
	weir_reserve(90);
	held += 100;
	create();
	expect("contexts, at first", own->mem_context_bytes, 3 * TAKES + 30);
	weir_look_again();
	expect("before the next allocation", own->mem_context_bytes, 3 * TAKES + 60);
}

/* Others are told no more than is certain of a first one whose like nobody had made. */
static void told_beside_frees(void)
{
	begin();
	weir_contexts_are(TAKES); /* made by other calls */
	weir_reserve(leaving = 80); /* which has gone */
	weir_reserve(loose = 10);
	held = TAKES + 10;
	meanwhile = see;
	create();
	meanwhile = NULL;
	expect("contexts, as much as it may be", own->mem_context_bytes, 2 * TAKES + 80);
	expect("less, where there is no room", weir_shrunk_since(), true);
	expect("contexts then", own->mem_context_bytes, 2 * TAKES + 10);
	expect("what others know", weir.page->context_bytes, TAKES);
}

/* The first context of another process of the job, which has ended, had all of the cap. */
static void after_a_kill(void)
{
	struct weir_slot *other = own + 1;
	pid_t child = fork();
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	begin();
	own->owner_pid = (uint32_t)getpid();
	*other = (struct weir_slot){.owner_pid = (uint32_t)child,
		.mem_used_bytes = CAP, .mem_pending_bytes = CAP};
	expect("while there is an agent", create(), CUDA_ERROR_OUT_OF_MEMORY);
	weir.agent_gone = true;
	expect("without one", create(), CUDA_SUCCESS);
	expect("while it is made", counted_then, CAP);
	expect("of the other", other->mem_used_bytes + other->mem_pending_bytes, 0);
	weir.agent_gone = false;
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.slot = own = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	handles_again();
	one_by_one();
	unlisted();
	primary_one();
	attaching();
	beside_others();
	beside_pools();
	beside_loose();
	beside_frees();
	of_other_sizes();
	looked_again_soon();
	looked_again_for_sure();
	hidden_before();
	told_beside_frees();
	after_a_kill();
	return checked();
}
