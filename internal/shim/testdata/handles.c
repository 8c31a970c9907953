/*
 * Handles of memory that can be moved, by which others would go on with what was there before a
 * move: the program gets none, and of other memory what the driver gives.
 */
#include "../src/weir.h"

#include "expect.h"
#include "freed.h"

#define MIB (UINT64_C(1) << 20)
#define AT (UINT64_C(1) << 40)
#define BYTES (4 * MIB)
#define OTHER (AT - MIB) /* memory that is not weir's */

struct weir_process weir = {.state = WEIR_ATTACHED, .movable = true};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static unsigned asked; /* the driver, for a handle */

/* ---- the driver */

static CUresult driver_granularity(
	size_t *n, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags flags)
{
	(void)p, (void)flags;
	*n = 2 * MIB;
	return CUDA_SUCCESS;
}

static CUdevice current_device;

static CUresult driver_device(CUdevice *device)
{
	*device = current_device;
	return CUDA_SUCCESS;
}

static CUresult driver_current(CUcontext *context)
{
	*context = (CUcontext)&weir;
	return CUDA_SUCCESS;
}

static CUresult driver_reserve(
	CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
	(void)size, (void)alignment, (void)wish, (void)flags;
	*at = AT;
	return CUDA_SUCCESS;
}

static CUresult driver_does(void) { return CUDA_SUCCESS; }

static CUresult waits;

static CUresult driver_wait(void) { return waits; }

static CUresult driver_range(void *handle, CUdeviceptr at, size_t size, CUmemRangeHandleType type,
	unsigned long long flags)
{
	(void)at, (void)type;
	asked++;
	*(int *)handle = (int)(size + flags);
	return CUDA_SUCCESS;
}

static CUresult driver_ipc(CUipcMemHandle *handle, CUdeviceptr at)
{
	(void)handle, (void)at;
	asked++;
	return CUDA_SUCCESS;
}

static CUresult driver_open(CUdeviceptr *at, CUipcMemHandle handle, unsigned int flags)
{
	(void)handle, (void)flags;
	*at = OTHER;
	return CUDA_SUCCESS;
}

static CUresult closes;

static CUresult driver_close(CUdeviceptr at)
{
	(void)at;
	return closes;
}

static CUresult driver_whole(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	*base = at;
	*size = MIB;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuMemGetAllocationGranularity:
		return (void *)driver_granularity;
	case WEIR_cuCtxGetDevice:
		return (void *)driver_device;
	case WEIR_cuCtxGetCurrent:
		return (void *)driver_current;
	case WEIR_cuCtxPushCurrent_v2:
	case WEIR_cuCtxPopCurrent_v2:
		return (void *)driver_does;
	case WEIR_cuCtxSynchronize:
		return (void *)driver_wait;
	case WEIR_cuMemAddressReserve:
		return (void *)driver_reserve;
	case WEIR_cuMemAddressFree:
	case WEIR_cuMemCreate:
	case WEIR_cuMemRelease:
	case WEIR_cuMemMap:
	case WEIR_cuMemUnmap:
	case WEIR_cuMemSetAccess:
		return (void *)driver_does;
	case WEIR_cuMemGetHandleForAddressRange:
		return (void *)driver_range;
	case WEIR_cuIpcOpenMemHandle_v2:
		return (void *)driver_open;
	case WEIR_cuIpcCloseMemHandle:
		return (void *)driver_close;
	case WEIR_cuMemGetAddressRange_v2:
		return (void *)driver_whole;
	case WEIR_cuIpcGetMemHandle:
		return (void *)driver_ipc;
	default:
		return NULL;
	}
}

/* ---- the rest of the library */

int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
CUresult weir_deny(void) { return CUDA_ERROR_OUT_OF_MEMORY; }
bool weir_take(uint64_t bytes) { return bytes == BYTES; }
void weir_release(uint64_t bytes) { (void)bytes; }
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}
bool weir_device_is_ours(CUdevice device) { return device == 0; }
void *weir_context_id(CUcontext context) { return context ? (void *)context : (void *)&weir; }
void weir_say(const char *format, ...) { (void)format; }

void weir_piece_forget(struct weir_piece *p, uint64_t bytes)
{
	(void)p, (void)bytes;
}

/* ---- the program */

/* gives holds what the two calls give for an address, and whether the driver is asked. */
static void gives(CUdeviceptr at, bool any)
{
	CUipcMemHandle ipc;
	int fd = 0;
	asked = 0;
	expect("of a range",
		weir_on_range_handle(WEIR_cuMemGetHandleForAddressRange, &fd, at, 40, 1, 2),
		any ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	expect("which", (uint64_t)fd, any ? 42 : 0);
	expect("for a process", weir_on_ipc_get(WEIR_cuIpcGetMemHandle, &ipc, at),
		any ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	expect("asked", asked, any ? 2 : 0);
	expect("can be moved", weir_is_movable(at), !any);
}

/* Memory of another process is known as long as it is open, as it stays where it is. */
static void opened(void)
{
	CUipcMemHandle handle = {0};
	CUdeviceptr at;
	weir_on_ipc_open(WEIR_cuIpcOpenMemHandle_v2, &at, handle, 1);
	expect("opened", weir_sizes_sum(WEIR_KIND_OPENED, 0), MIB);
	closes = CUDA_ERROR_INVALID_VALUE;
	weir_on_ipc_close(WEIR_cuIpcCloseMemHandle, at);
	expect("not closed", weir_sizes_sum(WEIR_KIND_OPENED, 0), MIB);
	closes = CUDA_SUCCESS;
	weir_on_ipc_close(WEIR_cuIpcCloseMemHandle, at);
	expect("closed", weir_sizes_sum(WEIR_KIND_OPENED, 0), 0);
}

/* What cannot be freed at once, as a stream is captured, is due until it can be. */
static void lingers(void)
{
	CUdeviceptr at;
	CUresult r;
	weir_movable_alloc(&at, BYTES, &r);
	waits = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	weir_movable_free(at);
	expect("bytes due", weir_movables_due(), BYTES);
	weir_movables_late(false);
	expect("bytes due while it cannot be", weir_movables_due(), BYTES);
	expect("of all", weir_movable_bytes(), BYTES);
	waits = CUDA_SUCCESS;
	weir_movables_late(true);
	expect("bytes due that nobody may wait for", weir_movables_due(), BYTES);
	unsigned before = freed_gave;
	weir_movables_late(false);
	expect("bytes due at the end", weir_movables_due(), 0);
	expect("of all", weir_movable_bytes(), 0);
	expect("given back", freed_gave, before + 1);
	weir_movable_alloc(&at, BYTES, &r);
	waits = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	weir_movable_free(at);
	weir_movables_gone(&weir);
	expect("bytes due of a context that is gone", weir_movables_due(), 0);
	waits = CUDA_SUCCESS;
}

int main(void)
{
	CUdeviceptr at = 0;
	CUresult r = CUDA_ERROR_UNKNOWN;
	weir.page = (struct weir_header *)page;
	weir.slot = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	gives(AT, true);
	expect("allocated", weir_movable_alloc(&at, BYTES - 5, &r) && r == CUDA_SUCCESS, true);
	expect("where", at, AT);
	gives(AT, false);
	gives(AT + BYTES - 1, false);
	gives(AT + BYTES, true);
	gives(OTHER, true);
	expect("freed", weir_movable_free(AT), true);
	gives(AT, true);
	opened();
	lingers();
	current_device = 1;
	expect("on another device", weir_movable_alloc(&at, BYTES, &r), false);
	return checked();
}
