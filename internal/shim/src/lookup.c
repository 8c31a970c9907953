/*
 * From names to wrappers: what dlsym and cuGetProcAddress answer.
 */
#include "weir.h"

#include <string.h>

#include "lookup.gen.inc"

const char *weir_symbol(int call);

const char *weir_symbol(int call)
{
	return weir_entries[call].symbol;
}

void *weir_wrapper(int call)
{
	return weir_entries[call].wrapper;
}

int weir_find(const char *symbol)
{
	int low = 0, high = WEIR_CALLS - 1;
	while (low <= high) {
		int middle = (low + high) / 2;
		int order = strcmp(symbol, weir_entries[middle].symbol);
		if (order == 0)
			return middle;
		if (order < 0)
			high = middle - 1;
		else
			low = middle + 1;
	}
	return -1;
}

/* by_address finds the call of this base name whose driver function is the one found. */
static int by_address(const char *base, void *found)
{
	for (int i = 0; i < WEIR_CALLS; i++)
		if (strcmp(weir_entries[i].base, base) == 0 && weir_real((enum weir_call)i) == found)
			return i;
	for (size_t i = 0; i < sizeof weir_aliases / sizeof *weir_aliases; i++)
		if (strcmp(weir_aliases[i].base, base) == 0 && weir_real(weir_aliases[i].call) == found)
			return (int)weir_aliases[i].call;
	return -1;
}

/* by_version finds the newest listed call of this base name and flavour that the version has. Calls
 * without a stream have no per-thread flavour. */
static int by_version(const char *base, int version, bool per_thread)
{
	int best = -1, since = -1;
	for (int pass = per_thread ? 1 : 0; pass >= 0 && best < 0; pass--) {
		for (int i = 0; i < WEIR_CALLS; i++) {
			const struct weir_entry *e = &weir_entries[i];
			if (e->per_thread == pass && e->since <= version && e->since > since &&
				strcmp(e->base, base) == 0) {
				best = i;
				since = e->since;
			}
		}
	}
	for (size_t i = 0; i < sizeof weir_aliases / sizeof *weir_aliases; i++)
		if (weir_aliases[i].since <= version && weir_aliases[i].since > since &&
			strcmp(weir_aliases[i].base, base) == 0) {
			best = (int)weir_aliases[i].call;
			since = weir_aliases[i].since;
		}
	return best;
}

/*
 * weir_choose gives the wrapper for what cuGetProcAddress found, or what it found.
 *
 * The driver's function decides which call it is. Only where the driver hands out other addresses
 * than its symbols have does the version asked for decide; and then a version newer than calls.tab
 * could mean a function with other parameters, so the wrapper is given only if the driver finds the
 * same function (at_newest) for the newest version that calls.tab knows.
 */
void *weir_choose(const char *base, void *found, void *at_newest, int version, bool per_thread)
{
	int call = by_address(base, found);
	if (call < 0) {
		call = version > WEIR_NEWEST && at_newest != found ? -1
														   : by_version(base, version, per_thread);
		if (call < 0) {
			weir_unknown(base);
			return found;
		}
		weir_learn(call, found);
		if (weir_real((enum weir_call)call) != found && weir_entries[call].pass)
			return found;
	}
	return weir_entries[call].pass ? found : weir_entries[call].wrapper;
}
