/*
 * Moves of memory to the host and back, each step of which may fail: wherever that is, all of the
 * program's bytes are in one place at least, what counts is where they are, and the agent is told
 * why.
 */
#include "../src/weir.h"

#include "../src/move.c"

#include "expect.h"

#define MIB (UINT64_C(1) << 20)
#define AT (UINT64_C(0x200000000000))
#define ALL (3 * MIB)
#define NEVER UINT32_MAX

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own, *other;

/* Two allocations, of two pieces and of one, each in a context of its own. */
enum { PIECES = 3 };
static union {
	struct weir_movable m;
	char room[sizeof(struct weir_movable) + 2 * sizeof(struct weir_piece)];
} one, two;

static char contexts[3];
static int device[PIECES];      /* what each piece of the device has */
static int host[16], file[PIECES]; /* what those of the host have, and of the folder */
static bool taken[16];

/* ---- the driver and the rest of the library: the call of a kind with this number fails */

enum kind { COPY_OUT, COPY_IN, MAP, UNMAP, PIN, SPILL, UNSPILL, PUSH, STREAM, WAIT, OWN, KINDS };
static uint32_t calls[KINDS], fails[KINDS];
static CUresult with[KINDS];

static CUresult call(enum kind k)
{
	return calls[k]++ == fails[k] ? with[k] : CUDA_SUCCESS;
}

static void fail_at(enum kind k, uint32_t n, CUresult r)
{
	fails[k] = calls[k] + n;
	with[k] = r;
}

static int *on_device(CUdeviceptr at) { return &device[(at - AT) / MIB]; }

static uint32_t copied; /* to the host */

static CUresult copy_to_host(void *to, CUdeviceptr at, size_t n, CUstream s)
{
	CUresult r = call(COPY_OUT);
	(void)n, (void)s;
	copied++;
	if (!r)
		*(int *)to = *on_device(at);
	return r;
}

static CUresult copy_to_device(CUdeviceptr at, const void *from, size_t n, CUstream s)
{
	CUresult r = call(COPY_IN);
	(void)n, (void)s;
	if (!r)
		*on_device(at) = *(const int *)from;
	return r;
}

static CUcontext current;
static uint32_t depth, streams, waited; /* contexts pushed, streams there, contexts waited for */
static uint32_t misplaced;              /* calls in a context that is not the piece's */

static CUresult push(CUcontext ctx)
{
	CUresult r = call(PUSH);
	if (r)
		return r;
	current = ctx;
	depth++;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *ctx)
{
	*ctx = current;
	depth--;
	return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *s, unsigned int flags)
{
	CUresult r = call(STREAM);
	(void)flags;
	streams += !r;
	*s = r ? NULL : (CUstream)&streams;
	return r;
}

static CUresult stream_destroy(CUstream s)
{
	(void)s;
	streams--;
	return CUDA_SUCCESS;
}

static CUresult synced; /* what waiting for a stream gives */
static CUresult stream_wait(CUstream s) { return (void)s, synced; }

static CUresult context_wait(void)
{
	waited++;
	return call(WAIT);
}

static CUresult memory_info(size_t *left, size_t *all)
{
	*left = 7;
	*all = 100;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call c)
{
	switch (c) {
	case WEIR_cuMemcpyDtoHAsync_v2: return (void *)copy_to_host;
	case WEIR_cuMemcpyHtoDAsync_v2: return (void *)copy_to_device;
	case WEIR_cuCtxPushCurrent_v2: return (void *)push;
	case WEIR_cuCtxPopCurrent_v2: return (void *)pop;
	case WEIR_cuCtxSynchronize: return (void *)context_wait;
	case WEIR_cuStreamCreate: return (void *)stream_create;
	case WEIR_cuStreamDestroy_v2: return (void *)stream_destroy;
	case WEIR_cuStreamSynchronize: return (void *)stream_wait;
	case WEIR_cuMemGetInfo_v2: return (void *)memory_info;
	default: return NULL;
	}
}

static uint64_t ns, counted, contexts_count;
static uint64_t touches, kept_late;
static bool unknown, spilling, sends = true;
static unsigned said, trimmed;

uint64_t weir_now(void) { return ns += 10000000; }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
void weir_count(uint64_t n) { counted += n; }
void weir_release(uint64_t n) { counted -= n; }
uint64_t weir_counted(void) { return counted; }
uint64_t weir_contexts(void) { return contexts_count; }
uint64_t weir_pools_held(void) { return 5; }
uint64_t weir_touches(void) { return touches; }
bool weir_unknowns(void) { return unknown; }
bool weir_own_begin(void) { return call(OWN) == CUDA_SUCCESS; }
void weir_own_end(void) {}
void weir_own_thread(void) {}
void weir_say(const char *format, ...) { (void)format, said++; }
void weir_movables_late(bool reached) { (void)reached, kept_late++; }
bool weir_socket_open(void) { return false; }
void weir_futex_wait(uint32_t *w, uint32_t v, uint64_t n) { (void)w, (void)v, (void)n; }

enum { OPEN, CLOSED, AWAY };
static int barrier;
static bool closes = true, stays_closed = true;
bool weir_barrier_close(void) { return closes && (barrier = CLOSED); }
bool weir_barrier_away(void) { return stays_closed && (barrier = AWAY); }
void weir_barrier_shut(void) { barrier = AWAY; }
void weir_barrier_open(void) { barrier = OPEN; }

struct weir_movable *weir_movables(void) { return &one.m; }
uint64_t weir_movable_bytes(void) { return ALL; }
CUdeviceptr weir_piece_at(const struct weir_movable *m, uint32_t i) { return m->at + i * MIB; }

uint64_t weir_piece_bytes(const struct weir_movable *m, uint32_t i)
{
	(void)m, (void)i;
	return MIB;
}

uint64_t weir_movable_absent(void)
{
	uint64_t n = 0;
	for (const struct weir_movable *m = &one.m; m; m = m->next)
		for (uint32_t i = 0; i < m->count; i++)
			n += m->pieces[i].here ? 0 : MIB;
	return n;
}

CUresult weir_piece_map(struct weir_movable *m, uint32_t i)
{
	CUresult r = m->pieces[i].here ? CUDA_ERROR_INVALID_VALUE : call(MAP);
	misplaced += current != m->context;
	if (!r)
		*on_device(weir_piece_at(m, i)) = -1; /* not the program's bytes */
	m->pieces[i].here |= !r;
	return r;
}

CUresult weir_piece_unmap(struct weir_movable *m, uint32_t i)
{
	CUresult r = call(UNMAP);
	misplaced += current != m->context;
	if (!r)
		*on_device(weir_piece_at(m, i)) = -2;
	m->pieces[i].here &= r;
	return r;
}

CUresult weir_pinned_take(struct weir_pinned *p, uint64_t n)
{
	CUresult r = call(PIN);
	(void)n;
	for (int i = 0; !r && i < 16; i++)
		if (!taken[i]) {
			taken[i] = true;
			p->at = &host[i];
			break;
		}
	return r;
}

void weir_pinned_give(struct weir_pinned *p, uint64_t n)
{
	(void)n;
	taken[(int *)p->at - host] = false;
	p->at = NULL;
}

bool weir_movables_kept(struct weir_pinned *p, uint64_t *n, CUcontext *context)
{
	for (struct weir_movable *m = &one.m; m; m = m->next)
		for (uint32_t i = 0; i < m->count; i++)
			if (m->pieces[i].here && m->pieces[i].host.at) {
				*p = m->pieces[i].host;
				*n = MIB;
				*context = m->context;
				m->pieces[i].host.at = NULL;
				return true;
			}
	return false;
}

void weir_spill_begin(void) {}
void weir_spill_reset(void) {}
void weir_spill_adopt(struct weir_slot *slot) { (void)slot; }
bool weir_spills(void) { return spilling; }
void weir_spill_trim(void) { trimmed++; }

int weir_spill_out(
	struct weir_spilled *p, CUdeviceptr at, uint64_t n, CUstream s, CUresult *driver)
{
	int r = call(SPILL);
	(void)n, (void)s;
	*driver = CUDA_SUCCESS;
	p->there = !r;
	file[(at - AT) / MIB] = *on_device(at);
	return r;
}

int weir_spill_in(
	const struct weir_spilled *p, CUdeviceptr at, uint64_t n, CUstream s, CUresult *driver)
{
	int r = call(UNSPILL);
	(void)p, (void)n, (void)s;
	*driver = CUDA_SUCCESS;
	if (!r)
		*on_device(at) = file[(at - AT) / MIB];
	return r;
}

void weir_spill_free(struct weir_spilled *p, uint64_t n)
{
	(void)n;
	p->there = false;
}

static struct weir_moved answer;
static struct weir_stays stays;

bool weir_send_message(const void *message)
{
	const uint32_t *kind = message;
	if (*kind == WEIR_MSG_MOVED)
		memcpy(&answer, message, sizeof answer);
	else
		memcpy(&stays, message, sizeof stays);
	return sends;
}

/* ---- the program */

static void anew(void)
{
	memset(page, 0, sizeof page);
	weir.page->move_host_bytes = 10 * MIB;
	memset(&one, 0, sizeof one);
	memset(&two, 0, sizeof two);
	memset(taken, 0, sizeof taken);
	one.m.at = AT;
	one.m.count = 2;
	one.m.context = (CUcontext)&contexts[0];
	one.m.next = &two.m;
	two.m.at = AT + 2 * MIB;
	two.m.count = 1;
	two.m.context = (CUcontext)&contexts[1];
	for (int i = 0; i < PIECES; i++) {
		device[i] = 100 + i;
		(i < 2 ? &one.m.pieces[i] : &two.m.pieces[0])->here = true;
	}
	for (int k = 0; k < KINDS; k++)
		fails[k] = NEVER;
	counted = ALL + 50;
	barrier = OPEN;
	closes = stays_closed = true;
	spilling = unknown = false;
	synced = CUDA_SUCCESS;
	touches++;
	weir_mover_reset();
}

static uint32_t orders;

/* order carries out an order, and gives the code of the answer. */
static uint32_t order(bool to)
{
	orders += 2;
	answer = (struct weir_moved){.code = 99};
	carry_out(orders | to, true);
	expect("the order that is answered", answer.move, orders | to);
	expect("contexts that are left", depth, 0);
	expect("streams that are left", streams, 0);
	return answer.code;
}

/* whole tells whether the program has its bytes on the device. */
static bool whole(void)
{
	bool yes = barrier == OPEN && weir_movable_absent() == 0 && counted == ALL + 50 &&
		own->away_bytes == 0;
	for (int i = 0; i < PIECES; i++)
		yes &= device[i] == 100 + i;
	return yes;
}

static void there_and_back(void)
{
	anew();
	expect("to the host", order(true), WEIR_MOVED_ALL);
	expect("bytes", answer.bytes, ALL);
	expect("counts then", counted, 50);
	expect("is away", own->away_bytes, ALL);
	expect("is of the host's", own->host_bytes, ALL);
	expect("the barrier", barrier, AWAY);
	expect("ordered a second time", order(true), WEIR_MOVED_ALL);
	expect("bytes then", answer.bytes, 0);
	expect("back", order(false), WEIR_MOVED_ALL);
	expect("bytes back", answer.bytes, ALL);
	expect("is whole", whole(), true);
	expect("is kept of the host's", own->host_bytes, ALL);
	copied = 0;
	order(true);
	expect("copies of what was not touched", copied, 0);
	order(false);
	expect("is whole", whole(), true);
	device[0] = device[1] = device[2] = 0;
	touches++;
	order(true);
	expect("copies of what was", copied, PIECES);
	order(false);
	expect("is as the program left it", device[0] + device[1] + device[2], 0);
	unknown = true;
	order(true);
	expect("copies beside calls that are not known", copied, 2 * PIECES);
	order(false);
	expect("calls in another context", misplaced, 0);
}

/* each way out fails at each piece. */
static void fails_on_the_way_out(void)
{
	const struct {
		enum kind k;
		uint32_t code;
	} ways[] = {{COPY_OUT, WEIR_MOVED_FAILED}, {PIN, WEIR_MOVED_FAILED},
		{PUSH, WEIR_MOVED_FAILED}, {STREAM, WEIR_MOVED_FAILED}};
	for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
		for (uint32_t n = 0; n < (ways[w].k == PUSH || ways[w].k == STREAM ? 2 : PIECES); n++) {
			anew();
			/* the contexts are waited for first */
			fail_at(ways[w].k, n + (ways[w].k == PUSH ? 2 : 0), CUDA_ERROR_UNKNOWN);
			expect("fails", order(true), ways[w].code);
			expect("result", answer.result, CUDA_ERROR_UNKNOWN);
			expect("bytes", answer.bytes, 0);
			expect("is whole", whole(), true);
			expect("is left of the host's", own->host_bytes, 0);
			order(true);
			order(false);
			expect("is whole after another try", whole(), true);
		}
	anew();
	synced = CUDA_ERROR_UNKNOWN;
	expect("copies that fail later", order(true), WEIR_MOVED_FAILED);
	expect("is whole", whole(), true);
}

static void busy(void)
{
	anew();
	closes = false;
	expect("with a thread that stays in a call", order(true), WEIR_MOVED_BUSY);
	expect("is whole", whole(), true);
	closes = true;
	stays_closed = false;
	expect("with one that does not want to wait", order(true), WEIR_MOVED_BUSY);
	expect("is whole", whole(), true);
	stays_closed = true;
	fail_at(WAIT, 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect("while a stream is captured", order(true), WEIR_MOVED_BUSY);
	expect("result", answer.result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect("is whole", whole(), true);
	weir.captures = 1;
	expect("while captures go on", order(true), WEIR_MOVED_BUSY);
	weir.captures = 0;
	for (uint32_t n = 0; n < 6; n++) {
		anew();
		fail_at(OWN, n, CUDA_ERROR_UNKNOWN);
		expect("of a process that exits", order(true), WEIR_MOVED_BUSY);
		expect("has its bytes", device[0] == 100 && device[2] == 102, true);
	}
	anew();
	weir_sizes_put(WEIR_KIND_ALIVE, (uintptr_t)&contexts[0], 0, NULL);
	weir_sizes_put(WEIR_KIND_ALIVE, (uintptr_t)&contexts[2], 0, NULL);
	waited = 0;
	order(true);
	expect("contexts that are waited for", waited, 3);
	fail_at(WAIT, 0, CUDA_ERROR_ILLEGAL_ADDRESS);
	order(false);
	expect("beside one in an error", order(true), WEIR_MOVED_ALL);
	weir_sizes_take(WEIR_KIND_ALIVE, (uintptr_t)&contexts[0], NULL, NULL);
	weir_sizes_take(WEIR_KIND_ALIVE, (uintptr_t)&contexts[2], NULL, NULL);
}

/* The host may have less than is to go, also because others of the job have it. */
static void full_host(void)
{
	anew();
	weir.page->move_host_bytes = 4 * MIB;
	other->host_bytes = 2 * MIB;
	expect("without room on the host", order(true), WEIR_MOVED_HOST);
	expect("needs", answer.needs, MIB);
	expect("has", answer.has, 0);
	expect("is whole", whole(), true);
	expect("is left of the host's", own->host_bytes, 0);
	other->host_bytes = 0;
	fail_at(PIN, 1, CUDA_ERROR_OUT_OF_MEMORY);
	expect("with less than was allowed", order(true), WEIR_MOVED_HOST);
	expect("is left of the host's", own->host_bytes, 0);
	spilling = true;
	fail_at(PIN, 1, CUDA_ERROR_OUT_OF_MEMORY);
	expect("with a folder", order(true), WEIR_MOVED_ALL);
	expect("is of the host's", own->host_bytes, 2 * MIB);
	expect("is in the folder", one.m.pieces[1].spilled.there, true);
	fail_at(UNSPILL, 0, 5);
	expect("which cannot be read", order(false), WEIR_MOVED_SPILL);
	expect("errno", answer.result, 5);
	expect("said", said, 1);
	fail_at(UNSPILL, 0, EILSEQ);
	expect("which is damaged", order(false), WEIR_MOVED_DAMAGED);
	expect("needs", answer.needs, MIB);
	expect("said", said, 1);
	unsigned before = trimmed;
	expect("which can be read again", order(false), WEIR_MOVED_ALL);
	expect("is whole", whole(), true);
	expect("is left in the folder", one.m.pieces[1].spilled.there, false);
	expect("trims it", trimmed, before + 1);
	fail_at(PIN, 0, CUDA_ERROR_OUT_OF_MEMORY);
	fail_at(SPILL, 0, 28);
	touches++;
	expect("with a full folder", order(true), WEIR_MOVED_SPILL);
	expect("is whole", whole(), true);
	expect("is in the folder", one.m.pieces[1].spilled.there, false);
	fail_at(PIN, 1, CUDA_ERROR_UNKNOWN);
	expect("with an error of the driver's", order(true), WEIR_MOVED_FAILED);
}

static void fails_on_the_way_back(void)
{
	for (uint32_t n = 0; n < PIECES; n++) {
		anew();
		order(true);
		fail_at(MAP, n, CUDA_ERROR_OUT_OF_MEMORY);
		expect("without room on the device", order(false), WEIR_MOVED_DEVICE);
		expect("needs", answer.needs, ALL);
		expect("has", answer.has, 7 + n * MIB);
		expect("counts", counted, 50);
		expect("is away", own->away_bytes, ALL);
		expect("the barrier", barrier, AWAY);
		fail_at(COPY_IN, n, CUDA_ERROR_UNKNOWN);
		expect("with a copy that fails", order(false), WEIR_MOVED_FAILED);
		expect("counts", counted, 50);
		expect("brought back", order(false), WEIR_MOVED_ALL);
		expect("is whole", whole(), true);
	}
	anew();
	fail_at(UNMAP, 1, CUDA_ERROR_UNKNOWN);
	expect("with a piece that stays", order(true), WEIR_MOVED_FAILED);
	expect("bytes", answer.bytes, 0);
	expect("counts", counted, 50 + MIB);
	expect("is away", own->away_bytes, 2 * MIB);
	device[1] = -3; /* as a copy that was begun may leave it */
	expect("brought back", order(false), WEIR_MOVED_ALL);
	expect("is whole", whole(), true);
	order(true);
	fail_at(MAP, 1, CUDA_ERROR_OUT_OF_MEMORY);
	fail_at(UNMAP, 0, CUDA_ERROR_UNKNOWN);
	expect("without room, and with a piece that stays", order(false), WEIR_MOVED_DEVICE);
	expect("counts", counted, 50 + MIB);
	expect("is away", own->away_bytes, 2 * MIB);
	expect("brought back", order(false), WEIR_MOVED_ALL);
	expect("is whole", whole(), true);
}

/* Memory of the host is kept for the next move, for a while, and as long as others do not want it.
 */
static void kept(void)
{
	anew();
	order(true);
	weir.page->move_host_bytes = 0;
	lend();
	expect("is of the host's while it is away", own->host_bytes, ALL);
	weir.page->move_host_bytes = ALL;
	order(false);
	lend();
	expect("is kept of the host's", own->host_bytes, ALL);
	weir.page->move_host_bytes = ALL - 1;
	lend();
	expect("is kept of what others want", own->host_bytes, 0);
	weir.page->move_host_bytes = ALL;
	order(true);
	order(false);
	ns += KEEP_NS;
	lend();
	expect("is kept for long", own->host_bytes, 0);
	expect("contexts that are left", depth, 0);
	order(true);
	order(false);
	ns += KEEP_NS / 2; /* from when it came back, whenever it went */
	lend();
	expect("is kept for half as long", own->host_bytes, ALL);
	weir.page->move_host_bytes = ALL - 1;
	fail_at(PUSH, 0, CUDA_ERROR_UNKNOWN); /* of the first context */
	lend();
	expect("is kept in a context that is gone", own->host_bytes, 0);
	weir.page->move_host_bytes = ALL;
	order(true);
	order(false);
	weir.page->move_host_bytes = ALL - 1;
	expect("with what others want", order(true), WEIR_MOVED_HOST);
	weir.page->move_host_bytes = 2 * ALL;
	order(true);
	weir_mover_adopt(other);
	expect("another slot says what is away", other->away_bytes, ALL);
	expect("of the host's", other->host_bytes, ALL);
	expect("of all", other->movable_bytes, ALL);
}

/* What stays on the device is told with each order to move. */
static void told(void)
{
	anew();
	contexts_count = 11;
	weir_sizes_put(WEIR_KIND_POINTER, 1, 20, (void *)2);
	weir_sizes_put(WEIR_KIND_POINTER, 2, 40, NULL);
	weir_sizes_put(WEIR_KIND_ARRAY, 3, 3, NULL);
	weir_sizes_put(WEIR_KIND_MIPMAP, 4, 4, NULL);
	weir_sizes_put(WEIR_KIND_PHYSICAL, 5, 6, NULL);
	weir_sizes_put(WEIR_KIND_EXTERNAL, 6, 1, NULL);
	weir_sizes_put(WEIR_KIND_GRAPH, 7, 2, NULL);
	weir_sizes_put(WEIR_KIND_OPENED, 8, 9, NULL);
	order(true);
	expect("opened", answer.opened, 9);
	expect("contexts", stays.contexts, 11);
	expect("managed", stays.managed, 20);
	expect("arrays", stays.arrays, 7);
	expect("mapped", stays.mapped, 7);
	expect("pools and graphs", stays.pools, 7);
	expect("small", stays.small, 50 - 41);
	stays.contexts = 0;
	order(false);
	expect("told with the way back", stays.contexts, 0);
	answer.code = 99;
	carry_out(orders | 1, false);
	expect("moves that nobody ordered", own->away_bytes, 0);
	order(true);
	answer.code = 99;
	carry_out(orders | 1, false);
	expect("is whole without an agent", whole(), true);
	expect("which hears nothing", answer.code, 99);
	expect("is told in vain", weir_send_message(&answer), true);
	sends = false; /* and the socket is closed */
	order(true);
	sends = true;
	order(false);
}

/* Without an agent, or once a way back has failed, what is away is brought back, ever more rarely.
 */
static void tried_again(void)
{
	static const int at[] = {0, 2, 5, 10, 19, 36, 69, 102};
	size_t n = 0;
	anew();
	expect("with all there", again(true, 0), false);
	away = true;
	expect("while it is to be away", again(false, 1), false);
	for (int tick = 0; tick <= 102; tick++)
		if (again(true, 1))
			expect("tick of a try", (uint64_t)tick, (uint64_t)(n < 8 ? at[n++] : -1));
	expect("tries", n, 8);
	expect("once it is to be away", again(false, 1), false);
	expect("at once after that", again(false, 2), true);
	away = false;
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.slot = own = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	other = own + 1;
	there_and_back();
	fails_on_the_way_out();
	busy();
	full_host();
	fails_on_the_way_back();
	kept();
	told();
	tried_again();
	return checked();
}
