/*
 * Allocations at addresses that were in use a moment ago, and blocks that allocations enter and
 * leave, with what other threads do put exactly between two calls of the library; pitches that the
 * driver chooses; and arrays and imported memory of contexts that have gone.
 */
#include "../src/weir.h"

#include "expect.h"
#include "freed.h"
#include "stays.h"

#define GRANULE (UINT64_C(1) << 20)
#define AT (UINT64_C(0x200000000000))
#define LIVE 4

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static CUdeviceptr live[LIVE], next_at; /* what the driver has given, 0: nothing; what it gives */
static void (*meanwhile)(void);         /* done by another thread in the driver's next call */

/* ---- the driver */

static void others(void)
{
	void (*f)(void) = meanwhile;
	meanwhile = NULL;
	if (f)
		f();
}

static CUdeviceptr *find(CUdeviceptr at)
{
	for (int i = 0; i < LIVE; i++)
		if (live[i] == at)
			return &live[i];
	return NULL;
}

static CUresult driver_alloc(CUdeviceptr *at, size_t bytes)
{
	(void)bytes;
	*find(0) = *at = next_at;
	return CUDA_SUCCESS;
}

static CUresult driver_alloc_managed(CUdeviceptr *at, size_t bytes, unsigned int flags)
{
	(void)flags;
	return driver_alloc(at, bytes);
}

static bool captures; /* some thread does, so that cuMemFree is an error */

static CUresult driver_free(CUdeviceptr at)
{
	if (captures) {
		captures = false;
		others();
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	*find(at) = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_ask(void *to, CUpointer_attribute what, CUdeviceptr at)
{
	(void)to, (void)what;
	CUresult r = find(at) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	others();
	return r;
}

static uint64_t counted_then; /* while the driver allocates */
static size_t pitch;
static unsigned long long context = 1; /* the id of the current one */
static uintptr_t next_array = 1;

static CUresult driver_alloc_pitch(
	CUdeviceptr *at, size_t *to, size_t width, size_t height, unsigned int element)
{
	(void)width, (void)height, (void)element;
	counted_then = weir.slot->mem_used_bytes;
	*to = pitch;
	return pitch ? driver_alloc(at, 0) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult driver_array(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	(void)shape;
	*array = (CUarray)next_array++;
	return CUDA_SUCCESS;
}

static CUresult driver_mipmap(
	CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	(void)levels;
	return driver_array((CUarray *)array, shape);
}

static CUresult driver_import(
	CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *of)
{
	(void)of;
	return driver_array((CUarray *)memory, NULL);
}

static CUresult destroys;

static CUresult driver_destroy(CUarray array)
{
	(void)array;
	return destroys;
}

static CUresult driver_id(CUcontext ctx, unsigned long long *id)
{
	(void)ctx;
	*id = context;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuMemAllocPitch_v2:
		return (void *)driver_alloc_pitch;
	case WEIR_cuArray3DCreate_v2:
		return (void *)driver_array;
	case WEIR_cuMipmappedArrayCreate:
		return (void *)driver_mipmap;
	case WEIR_cuImportExternalMemory:
		return (void *)driver_import;
	case WEIR_cuArrayDestroy:
	case WEIR_cuDestroyExternalMemory: /* takes a handle, too */
		return (void *)driver_destroy;
	case WEIR_cuCtxGetId:
		return (void *)driver_id;
	case WEIR_cuMemAlloc_v2:
		return (void *)driver_alloc;
	case WEIR_cuMemAllocManaged:
		return (void *)driver_alloc_managed;
	case WEIR_cuMemFree_v2:
		return (void *)driver_free;
	case WEIR_cuPointerGetAttribute:
		return (void *)driver_ask;
	default:
		return NULL;
	}
}

/* ---- the rest of the library: a granule that is known, and no pools */

uint64_t weir_granule(void) { return GRANULE; }
uint64_t weir_taken(uint64_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }
uint64_t weir_now(void) { return 0; }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
static unsigned looks_again;
void weir_look_again(void) { looks_again++; }

static bool unloads; /* something has been unloaded, */
static uint64_t hidden; /* by frees that are under way when it is first looked for */
uint64_t weir_hidden(void) { return hidden; }

bool weir_shrunk_since(void)
{
	static unsigned asked;
	bool less = unloads && (!hidden || asked++);
	unloads = unloads && !less;
	if (less)
		weir_release(GRANULE);
	return less;
}

uint64_t weir_limits_counted(void) { return 3; }
uint64_t weir_pools_loose(void) { return 4; }
uint64_t weir_freeing_bytes(void) { return 5; }
static unsigned refreshed; /* what counts for graphs */
void weir_graphs_refresh(void) { refreshed++; }
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}
void weir_pools_refresh(bool trim) { (void)trim; }
bool weir_pool_owns(CUdeviceptr at) { return !at; }
CUresult weir_pool_free_now(weir_fn_cuMemFree_v2 real, CUdeviceptr at) { return real(at); }

/* ---- the program */

static uint64_t bytes; /* of each allocation */
static bool managed;

static void allocate(CUdeviceptr at)
{
	next_at = at;
	if (managed)
		weir_on_mem_alloc_managed(WEIR_cuMemAllocManaged, &at, bytes, 1);
	else
		weir_on_mem_alloc(WEIR_cuMemAlloc_v2, &at, bytes);
}

static void release(CUdeviceptr at)
{
	weir_on_mem_free(WEIR_cuMemFree_v2, at);
}

static void allocate_again(void) { allocate(AT); }
static void release_other(void) { release(AT + 512); }

static uint64_t counted(void)
{
	return weir.slot->mem_used_bytes;
}

static void show(const char *what, uint64_t held, uint64_t should)
{
	expect(what, held, should);
	expect("at the end", counted(), 0);
	weir.slot->mem_used_bytes = 0;
	weir_sizes_reset();
}

/* A context goes, with memory in it; its address is another's before the library looks what went.
 */
static void before_the_look(void)
{
	allocate(AT);
	*find(AT) = 0;
	allocate(AT);
	weir_pointers_gone();
	uint64_t held = counted();
	release(AT);
	show("before the look", held, weir_taken(bytes));
}

/* As before, but just after the driver has said that it does not know the address. */
static void during_the_look(void)
{
	allocate(AT);
	*find(AT) = 0;
	meanwhile = allocate_again;
	weir_pointers_gone();
	uint64_t held = counted();
	release(AT);
	show("during the look", held, weir_taken(bytes));
}

/* Of two in a block, one is freed while the driver refuses to free the other. */
static void during_a_refusal(void)
{
	allocate(AT);
	allocate(AT + 512);
	captures = true;
	meanwhile = release_other;
	release(AT);
	uint64_t held = counted();
	release(AT);
	show("during a refusal", held, GRANULE);
}

/* 10,000 rows of 100 bytes, which are guessed to lie 512 apart. */
static void pitched(size_t is, uint64_t granules)
{
	CUdeviceptr at = 0;
	size_t told;
	next_at = AT;
	pitch = is;
	CUresult r = weir_on_mem_alloc_pitch(WEIR_cuMemAllocPitch_v2, &at, &told, 100, 10000, 4);
	expect("while rows of 512 bytes are allocated", counted_then, 5 * GRANULE);
	expect("a pitch that fits", r == CUDA_SUCCESS, granules > 0);
	uint64_t held = counted();
	if (!r)
		release(at);
	expect("in use at the end", find(AT) != NULL, false);
	show("rows", held, granules * GRANULE);
}

/* Arrays go with their context, and not those of another one that has got its handle. */
static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 << 19, .Height = 1, .Format = 0x20,
		.NumChannels = 1}; /* of floats: 2 MiB */
	CUarray a;
	weir_on_array_3d_create(WEIR_cuArray3DCreate_v2, &a, &shape);
	const void *gone = weir_context_id(NULL);
	context++;
	weir_on_array_3d_create(WEIR_cuArray3DCreate_v2, &a, &shape);
	expect("arrays of two contexts", counted(), 4 * GRANULE);
	weir_handles_gone(gone);
	uint64_t held = counted();
	weir_handles_gone(weir_context_id(NULL));
	show("arrays of the context that is left", held, 2 * GRANULE);

	CUexternalMemory e;
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC of = {.size = 3 * GRANULE};
	weir_on_external_import(WEIR_cuImportExternalMemory, &e, &of);
	gone = weir_context_id(NULL);
	context++;
	weir_on_external_import(WEIR_cuImportExternalMemory, &e, &of);
	weir_handles_gone(gone);
	held = counted();
	weir_handles_gone(weir_context_id(NULL));
	show("imported memory of the context that is left", held, 3 * GRANULE);
	weir_on_external_import(WEIR_cuImportExternalMemory, &e, &of);
	weir_on_external_destroy(WEIR_cuDestroyExternalMemory, e);
	expect("imported memory that is destroyed", counted(), 0);

	weir_on_array_3d_create(WEIR_cuArray3DCreate_v2, &a, &shape);
	next_array--;
	weir_on_array_3d_create(WEIR_cuArray3DCreate_v2, &a, &shape);
	expect("an array with the handle of one that went", counted(), 2 * GRANULE);
	destroys = CUDA_ERROR_INVALID_VALUE;
	weir_on_array_destroy(WEIR_cuArrayDestroy, a);
	held = counted();
	destroys = CUDA_SUCCESS;
	weir_on_array_destroy(WEIR_cuArrayDestroy, a);
	show("an array that the driver did not destroy at first", held, 2 * GRANULE);
}

/* What arrays of one byte an element take, 1024 x 1024, in 16 layers or not. */
static void shapes(void)
{
	static const struct {
		const char *what;
		unsigned depth, flags, levels;
		uint64_t bytes;
	} cases[] = {
		{"flat", 0, 0, 0, GRANULE},
		{"deep", 16, 0, 0, 16 * GRANULE},
		{"backed by memory of cuMemCreate", 16, CUDA_ARRAY3D_SPARSE, 0, 0},
		{"mapped later", 16, CUDA_ARRAY3D_DEFERRED_MAPPING, 0, 0},
		{"levels of a deep one", 16, 0, 2, 18 * GRANULE},
		{"levels of layers", 16, CUDA_ARRAY3D_LAYERED, 2, 20 * GRANULE},
		{"levels of faces", 6, CUDA_ARRAY3D_CUBEMAP, 2, 8 * GRANULE},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024, .Height = 1024, .Format = 1,
			.Depth = cases[i].depth, .NumChannels = 1, .Flags = cases[i].flags};
		CUarray a;
		CUmipmappedArray m;
		if (cases[i].levels)
			weir_on_mipmap_create(
				WEIR_cuMipmappedArrayCreate, &m, &shape, cases[i].levels);
		else
			weir_on_array_3d_create(WEIR_cuArray3DCreate_v2, &a, &shape);
		expect(cases[i].what, counted(), cases[i].bytes);
		weir_handles_gone(weir_context_id(NULL));
	}
}

/* Two allocations of 100 bytes at addresses of 32 bits, of which it is not known how they lie. */
static void short_addresses(void)
{
	bytes = 100;
	allocate(0x1000);
	allocate(0x2000);
	uint64_t held = counted();
	expect("which may take less", weir_loose(), 12 + 2 * GRANULE);
	release(0x1000);
	release(0x2000);
	show("at short addresses", held, 2 * GRANULE);
}

/* What managed memory and arrays take the driver decides; what others do is known. */
static void loose(void)
{
	unsigned before = refreshed;
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 100, .Format = 1, .NumChannels = 1};
	CUarray a;
	bytes = 100;
	allocate(AT);
	bytes = 3 * GRANULE;
	allocate(AT + GRANULE);
	expect("of memory in a block and by itself", weir_loose(), 12);
	managed = true;
	bytes = 2 * GRANULE;
	allocate(2 * AT);
	expect("of managed memory", weir_loose(), 12 + 2 * GRANULE);
	weir_on_array_3d_create(WEIR_cuArray3DCreate_v2, &a, &shape);
	expect("with an array", weir_loose(), 12 + 3 * GRANULE);
	captures = true;
	release(2 * AT);
	expect("with memory that is not freed", weir_loose(), 12 + 3 * GRANULE);
	release(2 * AT);
	expect("without it", weir_loose(), 12 + GRANULE);
	weir_on_array_destroy(WEIR_cuArrayDestroy, a);
	managed = false;
	release(AT);
	release(AT + GRANULE);
	show("all of it", weir_loose(), 12);
	expect("looks at graphs", refreshed, before);
	*find(0) = AT; /* which the driver has given by another call */
	release(AT);
	expect("looks after a free of what is not noted", refreshed, before + 1);
}

/* Where there is no room it is looked at what was unloaded. */
static void room(void)
{
	weir_reserve(64 * GRANULE);
	unsigned before = looks_again;
	expect("without room", weir_take(1), false);
	expect("looks for what was not measured", looks_again, before + 1);
	expect("lacks", freed_lacks, 1);
	unloads = true;
	expect("where something was unloaded", weir_take(GRANULE), true);
	weir_reserve(GRANULE);
	unloads = true;
	hidden = GRANULE;
	expect("where frees hid that", weir_take(GRANULE), true);
	hidden = 0;
	unloads = true;
	expect("more than the cap", weir_take(64 * GRANULE + 1), false);
	expect("for which it is not looked", unloads, true);
	weir_release(64 * GRANULE);
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = 64 * GRANULE;
	weir.slot = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	static const uint64_t sizes[] = {100, GRANULE, 3 * GRANULE + 1};
	for (int i = 0; i < 6; i++) {
		bytes = sizes[i / 2];
		managed = i % 2;
		before_the_look();
		during_the_look();
	}
	bytes = 100;
	managed = false;
	during_a_refusal();
	pitched(512, 5);
	pitched(1024, 10);
	pitched(128, 2);
	pitched(8192, 0);
	pitched(0, 0);
	arrays();
	shapes();
	short_addresses();
	loose();
	room();
	return checked();
}
