/*
 * Room for memory that is about to be taken. Where the cap has none it is looked what was unloaded,
 * the pools give back what they keep unused, and the device gets half a second to come to frees in
 * stream order, if all of them together would be enough, or with what is unloaded that they hide.
 *
 * So this may wait, and comes before a launch enters the gate (gate.c), never within.
 */
#include "weir.h"

/* weir_find_room claims what is wanted; false: there is no room for it. */
bool weir_find_room(struct weir_want *w)
{
	struct weir_patience p = {.given = weir_freeing_given(), .trim = true};
	weir_look_again();
	if (w->claim(w))
		return true;
	if (w->bytes > weir_cap())
		return false;
	if (weir_shrunk_since() && w->claim(w))
		return true;
	do {
		if (p.trim)
			weir_pools_refresh(true);
		if (w->claim(w))
			return true;
	} while (weir_freeing_wait(&p, w->lacks));
	return weir_hidden() && weir_shrunk_since() && w->claim(w);
}

static bool reserve(struct weir_want *w)
{
	w->lacks = w->bytes;
	return weir_reserve(w->bytes);
}

/* weir_take counts bytes; false: there is no room for them. */
bool weir_take(uint64_t bytes)
{
	return weir_find_room(&(struct weir_want){.claim = reserve, .bytes = bytes});
}
