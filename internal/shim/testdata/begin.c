/*
 * What is done when the driver is initialised: the handler of exit comes after the driver's own.
 */
#include "../src/mps.c"

#include "expect.h"

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static CUresult gives;
static uint64_t begun, after; /* what the driver had begun when the handler was registered */

static CUresult driver_init(unsigned int flags)
{
	(void)flags;
	begun++;
	return gives;
}

void *weir_resolve(enum weir_call call)
{
	(void)call;
	return NULL;
}

void weir_at_exit(void) { after = begun; }
bool weir_device_is_ours(CUdevice d) { return d == 0; }
void weir_say(const char *format, ...) { (void)format; }

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.slot = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	gives = CUDA_ERROR_NO_DEVICE;
	expect("no device", weir_init(driver_init, 0), CUDA_ERROR_NO_DEVICE);
	expect("nothing is to be done at exit", after, 0);
	gives = CUDA_SUCCESS;
	expect("a device", weir_init(driver_init, 0), CUDA_SUCCESS);
	expect("after the driver's own", after, 2);
	weir_init(driver_init, 0);
	expect("once", after, 2);
	return checked();
}
