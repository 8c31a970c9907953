// What programs have in place of src/freeing.c that link other parts of the library alone: no free
// in stream order is under way.
#include "../src/weir.h"

struct weir_freeing *weir_freeing_begin(const struct weir_freed_to *to, struct weir_stream *s) {
	(void)to, (void)s;
	return NULL;
}

void weir_freeing_called(struct weir_freeing *f, CUresult r) { (void)f, (void)r; }

static uint64_t freed_lacks; /* what was waited for last */

bool weir_freeing_wait(struct weir_patience *p, uint64_t lacks) {
	(void)p;
	freed_lacks = lacks;
	return false;
}

uint64_t weir_freeing_given(void) { return 0; }

static unsigned freed_gave; /* how often something was said to be given back */

void weir_freeing_gave(void) { freed_gave++; }

// the context that last was said to go, and to be gone
static CUcontext freed_going, freed_gone;

void weir_freeing_going(CUcontext ctx) { freed_going = ctx; }

void weir_freeing_gone(CUcontext ctx, bool went) {
	(void)went;
	freed_gone = ctx;
}

void weir_freeing_look(void) {}

bool weir_freeing_any(void) { return false; }
