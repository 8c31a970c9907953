/*
 * Driver calls that calls.tab does not list, as a CUDA newer than this library has: they are passed
 * through, and what they do is not counted. So that nobody has to guess, each is named once: to the
 * agent, which writes it to its log, and with WEIR_VERBOSE in the environment on standard error.
 *
 * A look-up only notes the name, without lock or system call; the watcher tells of it.
 */
#include "weir.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 128, TABLE = 256 };

struct name {
	char text[WEIR_NOTE_SIZE];
	bool whole; /* text is written */
};

static struct name names[MOST];
static uint32_t count, told;
static uint32_t seen[TABLE]; /* hashes of names noted, 0: free */

void weir_unknown_reset(void)
{
	told = 0;
}

/* hash is FNV-1a. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h ? h : 1;
}

/* fresh tells whether the name has not been noted before, and notes that. */
static bool fresh(const char *call)
{
	uint32_t h = hash(call);
	for (uint32_t i = h % TABLE, tries = 0; tries < TABLE; i = (i + 1) % TABLE, tries++) {
		uint32_t have = 0;
		if (__atomic_compare_exchange_n(
				&seen[i], &have, h, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return true;
		if (have == h)
			return false;
	}
	return false;
}

/* weir_unknowns reports whether the program has asked for any. */
bool weir_unknowns(void)
{
	return weir_get(&count) > 0;
}

/* weir_unknown notes a call that the driver has and the table does not. */
void weir_unknown(const char *call)
{
	if (!fresh(call))
		return;
	uint32_t i = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
	if (i >= MOST)
		return;
	strncpy(names[i].text, call, sizeof names[i].text - 1);
	__atomic_store_n(&names[i].whole, true, __ATOMIC_RELEASE);
}

/* weir_tell_unknown tells of what has been noted since; the watcher calls it. */
void weir_tell_unknown(void)
{
	uint32_t n = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
	const char *verbose = told < n ? getenv("WEIR_VERBOSE") : NULL;
	for (; told < n && told < MOST && __atomic_load_n(&names[told].whole, __ATOMIC_ACQUIRE);
		told++) {
		if (!weir_send_note(names[told].text) && weir_socket_open())
			return; /* its turn comes again */
		if (verbose && *verbose)
			weir_say("%s is a driver call newer than this weir: passed through, "
				"what it does is not counted", names[told].text);
	}
}
