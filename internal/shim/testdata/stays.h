// What programs have in place of src/movable.c and src/hold.c that link other parts of the library
// alone: memory that stays where the driver put it, so that no call is held for a move.
#include "../src/weir.h"

bool weir_movable_alloc(CUdeviceptr *at, uint64_t size, CUresult *result) {
	(void)at, (void)size, (void)result;
	return false;
}

bool weir_movable_free(CUdeviceptr at) {
	(void)at;
	return false;
}

bool weir_movable_free_later(CUdeviceptr at, struct weir_stream *s) {
	(void)at, (void)s;
	return false;
}

void weir_movables_gone(const void *context) { (void)context; }

bool weir_hold_on(bool touches) {
	(void)touches;
	return false;
}

void weir_hold_off(void) {}

uint32_t weir_hold_pause(void) { return 0; }

void weir_hold_resume(uint32_t had) { (void)had; }
