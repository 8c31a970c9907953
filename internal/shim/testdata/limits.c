/*
 * Limits that two threads set at once, exactly in the driver's call of one of them.
 */
#include "../src/weir.h"

#include "expect.h"
#include "freed.h"

#define EACH 6 /* threads that can be resident, in 2 multiprocessors */
#define CAP 1000

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own;

/* ---- the driver */

static size_t stack = 10, heap = 8; /* its limits */
static uintptr_t context = 1;
static void (*meanwhile)(void); /* done by others in its next call that sets one */
static CUresult fails;
static uint64_t calls, counted_then;

static CUresult driver_set(CUlimit limit, size_t value)
{
	void (*f)(void) = meanwhile;
	CUresult r = fails;
	meanwhile = NULL;
	fails = CUDA_SUCCESS;
	calls++;
	counted_then = own->mem_used_bytes;
	if (f)
		f();
	if (r)
		return r;
	*(limit == CU_LIMIT_STACK_SIZE ? &stack : &heap) = value == 33 ? 40 : value;
	return CUDA_SUCCESS;
}

static CUresult driver_get(size_t *value, CUlimit limit)
{
	*value = limit == CU_LIMIT_STACK_SIZE ? stack : heap;
	return CUDA_SUCCESS;
}

static CUresult driver_device(CUdevice *d)
{
	*d = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_attribute(int *value, CUdevice_attribute what, CUdevice d)
{
	(void)d;
	*value = what == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 2 : 3;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	return call == WEIR_cuCtxSetLimit      ? (void *)driver_set
		: call == WEIR_cuCtxGetLimit       ? (void *)driver_get
		: call == WEIR_cuCtxGetDevice      ? (void *)driver_device
		: call == WEIR_cuDeviceGetAttribute ? (void *)driver_attribute
											: NULL;
}

/* ---- the rest of the library */

uint64_t weir_now(void) { return 0; }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
void weir_look_again(void) {}
bool weir_shrunk_since(void) { return false; }
uint64_t weir_hidden(void) { return 0; }
void weir_moves_begin(void) {}
void weir_moves_end(void) {}

static uint64_t kept; /* by pools */

void weir_pools_refresh(bool trim)
{
	weir_release(trim ? kept : 0);
	kept = trim ? 0 : kept;
}

void *weir_context_id(CUcontext ctx)
{
	return ctx ? (void *)ctx : (void *)context;
}

/* ---- the program */

static CUresult set(CUlimit limit, size_t value)
{
	return weir_on_ctx_set_limit(WEIR_cuCtxSetLimit, limit, value);
}

static CUresult stacks(size_t value)
{
	return set(CU_LIMIT_STACK_SIZE, value);
}

static uint64_t counted(void)
{
	return own->mem_used_bytes;
}

static void alone(void)
{
	stacks(30);
	expect("during the call", counted_then, 20 * EACH);
	expect("stacks of 30", counted(), 20 * EACH);
	stacks(20);
	expect("while they become less", counted_then, 20 * EACH);
	expect("stacks of 20", counted(), 10 * EACH);
	stacks(50);
	expect("while they become more", counted_then, 40 * EACH);
	stacks(5);
	expect("stacks of less than at first", counted(), 0);
	stacks(33);
	expect("stacks of 33, which the driver rounds", counted(), 30 * EACH);
	fails = CUDA_ERROR_INVALID_VALUE;
	expect("what the driver refuses", stacks(60), CUDA_ERROR_INVALID_VALUE);
	expect("after that", counted(), 30 * EACH);
	uint64_t before = calls;
	expect("what does not fit", stacks(1000), CUDA_ERROR_OUT_OF_MEMORY);
	expect("what would wrap", stacks(SIZE_MAX / 2), CUDA_ERROR_OUT_OF_MEMORY);
	expect("reaches the driver", calls, before);
	expect("and is denied", weir.page->denied_allocs, 2);
	set(CU_LIMIT_MALLOC_HEAP_SIZE, 18);
	expect("with a heap", counted(), 30 * EACH + 10);
	set((CUlimit)5, 128); /* CU_LIMIT_MAX_L2_FETCH_GRANULARITY */
	expect("with one that takes no memory", counted(), 30 * EACH + 10);
	set(CU_LIMIT_MALLOC_HEAP_SIZE, 8);
	stacks(10);
	expect("as at first", counted(), 0);
	weir_reserve(kept = CAP - 20 * EACH + 1);
	expect("what pools have room for", stacks(30), CUDA_SUCCESS);
	expect("with that", counted(), 20 * EACH);
	weir_reserve(CAP - 25 * EACH);
	expect("what has no room beside others", stacks(40), CUDA_ERROR_OUT_OF_MEMORY);
	expect("lacks what it is not counted with", freed_lacks, 10 * EACH);
	weir_release(CAP - 25 * EACH);
	stacks(10);
}

static uint64_t counted_lower; /* after another thread has lowered them */

static void lower(void)
{
	stacks(10);
	counted_lower = counted();
}

static void raise_too(void) { stacks(30); }

static void at_once(void)
{
	stacks(30);
	meanwhile = lower;
	stacks(50);
	expect("about to be raised when another thread has lowered them", counted_lower, 40 * EACH);
	expect("raised while another thread has lowered them", counted(), 40 * EACH);
	meanwhile = raise_too;
	stacks(10);
	expect("lowered while another thread has set them", counted(), 0);
	meanwhile = raise_too;
	stacks(30);
	expect("raised by two at once", counted(), 20 * EACH);
	stacks(10);
	expect("as at first", counted(), 0);
}

static void contexts(void)
{
	stacks(30);
	context = 2;
	stack = 10;
	stacks(20);
	expect("of two contexts", counted(), 30 * EACH);
	expect("of all limits", weir_limits_counted(), 30 * EACH);
	weir_limits_gone((const void *)(uintptr_t)1);
	expect("of one", counted(), 10 * EACH);
	weir_limits_gone((const void *)(uintptr_t)1);
	expect("of one that has gone before", counted(), 10 * EACH);
	context = 3;
	stack = 40;
	stacks(50);
	expect("of another that began with more", counted(), 20 * EACH);
	weir_limits_gone((const void *)(uintptr_t)2);
	weir_limits_gone((const void *)(uintptr_t)3);
	expect("of none", counted(), 0);
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = CAP;
	weir.slot = own = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	alone();
	at_once();
	contexts();
	return checked();
}
