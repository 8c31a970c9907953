// The table of calls by name. This file declares the calls without their types, so it includes none
// of the others.
#include "table.h"

#include <string.h>

#define FK_CALL(base, version, symbol) void symbol(void);
#define FK_CALL2(base, version, symbol, per_thread) \
	FK_CALL(base, version, symbol) void per_thread(void);
#include "calls.h"
#undef FK_CALL
#undef FK_CALL2

static const struct {
	const char *base;
	int version;
	void (*call)(void), (*per_thread)(void);
} table[] = {
#define FK_CALL(base, version, symbol) {#base, version, symbol, 0},
#define FK_CALL2(base, version, symbol, per_thread) {#base, version, symbol, per_thread},
#include "calls.h"
};

void (*fk_lookup(const char *name, int version, int per_thread, int *known))(void) {
	void (*found)(void) = 0;
	int best = 0;
	*known = 0;
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
		if (strcmp(table[i].base, name))
			continue;
		*known = 1;
		if (table[i].version > version || table[i].version < best)
			continue;
		best = table[i].version;
		found = per_thread && table[i].per_thread ? table[i].per_thread : table[i].call;
	}
	return found;
}
