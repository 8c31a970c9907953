/*
 * Launches whose stream is inside a structure: what is metered of each, and that it reaches the
 * driver whether it is metered or not.
 */
#include "../src/weir.h"

#include "expect.h"

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static unsigned made, entered, left; /* calls to the driver, and launches in the gate and out */
static CUresult gives, result;       /* what the driver gives, and what is said of it */
static bool lacks, meters = true;    /* the driver has no such call; there is a gate */
static bool within;                  /* the call was made within the gate */
static struct {
	uintptr_t key;
	uint64_t size;
	CUstream stream;
	int per_thread;
} seen;

static CUresult driver_ex(
	const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	(void)config, (void)f, (void)params, (void)extra;
	made++;
	within = entered > left;
	return gives;
}

static CUresult driver_multi(CUDA_LAUNCH_PARAMS *list, unsigned int n, unsigned int flags)
{
	(void)list, (void)n, (void)flags;
	return driver_ex(NULL, NULL, NULL, NULL);
}

void *weir_resolve(enum weir_call call)
{
	return lacks ? NULL
		: call == WEIR_cuLaunchCooperativeKernelMultiDevice ? (void *)driver_multi
															: (void *)driver_ex;
}

CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
__thread struct weir_stream *weir_launching_on;

bool weir_enter(
	struct weir_ticket *t, uintptr_t key, uint64_t size, CUstream stream, int per_thread)
{
	*t = (struct weir_ticket){0};
	seen.key = key;
	seen.size = size;
	seen.stream = stream;
	seen.per_thread = per_thread;
	entered += meters;
	return meters;
}

void weir_leave(struct weir_ticket *t, CUresult r)
{
	(void)t;
	left++;
	result = r;
}

static CUlaunchConfig config = {.gridDimX = 1u << 20, .gridDimY = 1u << 12, .gridDimZ = 3};
static CUDA_LAUNCH_PARAMS list[2] = {{.gridDimX = 1u << 20, .gridDimY = 1u << 12, .gridDimZ = 5}};

static CUresult launch_ex(enum weir_call call, const CUlaunchConfig *c)
{
	return weir_on_launch_ex(call, c, (CUfunction)(uintptr_t)9, NULL, NULL);
}

static CUresult launch_multi(CUDA_LAUNCH_PARAMS *l, unsigned int n)
{
	return weir_on_launch_multi(WEIR_cuLaunchCooperativeKernelMultiDevice, l, n, 0);
}

/* through tells that a launch was made, within the gate or not. */
static void through(const char *what, CUresult got, bool metered)
{
	expect(what, got, gives);
	expect("calls to the driver", made, 1);
	expect("within the gate", within, metered);
	expect("in the gate at the end", entered - left, 0);
	expect("launches that were in it", entered, metered);
	made = entered = left = 0;
}

static void of_structures(void)
{
	CUstream s = (CUstream)&made;
	config.hStream = list[0].hStream = s;
	list[0].function = (CUfunction)(uintptr_t)8;
	through("by a structure", launch_ex(WEIR_cuLaunchKernelEx, &config), true);
	expect("function", seen.key, 9);
	expect("blocks", seen.size, UINT64_C(3) << 32);
	expect("stream", seen.stream == s, true);
	expect("of the thread", seen.per_thread, 0);
	through("of the thread", launch_ex(WEIR_cuLaunchKernelEx_ptsz, &config), true);
	expect("of the thread", seen.per_thread, 1);
	through("on several devices", launch_multi(list, 2), true);
	expect("function", seen.key, 8);
	expect("blocks", seen.size, UINT64_C(5) << 32);
	expect("stream", seen.stream == s, true);
	gives = CUDA_ERROR_LAUNCH_FAILED;
	through("that fails", launch_ex(WEIR_cuLaunchKernelEx, &config), true);
	expect("is said of it", result, gives);
	through("that fails on several devices", launch_multi(list, 2), true);
	expect("is said of it", result, gives);
	gives = CUDA_ERROR_INVALID_VALUE;
	through("of nothing", launch_ex(WEIR_cuLaunchKernelEx, NULL), false);
	through("on no device", launch_multi(list, 0), false);
	through("of no list", launch_multi(NULL, 2), false);
	gives = CUDA_SUCCESS;
	meters = false;
	through("without a gate", launch_ex(WEIR_cuLaunchKernelEx, &config), false);
	through("on several devices without a gate", launch_multi(list, 2), false);
	lacks = true;
	expect("of a driver without", launch_ex(WEIR_cuLaunchKernelEx, &config), CUDA_ERROR_NOT_FOUND);
	expect("on several devices", launch_multi(list, 2), CUDA_ERROR_NOT_FOUND);
	expect("calls", made, 0);
}

int main(void)
{
	of_structures();
	return checked();
}
