/*
 * How long a launch will take. Predictions are kept without locks in a table of records, of which
 * those are used again whose function or graph has gone; if it is full, all further functions share
 * one record.
 */
#include "weir.h"

#define ROOM 16384u /* a power of two */
#define GONE 2u     /* the key of a record that is to be used again; keys of functions are odd */

static struct weir_function table[ROOM];
static struct weir_function others = {
	.guess = WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS, .samples = WEIR_SAMPLES};

/* claim makes a record that is as it was found here the one of a key; NULL: another has it. */
static struct weir_function *claim(struct weir_function *f, uint64_t as, uint64_t full)
{
	if (__atomic_compare_exchange_n(
			&f->key, &as, full, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&f->guess, WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS, __ATOMIC_RELAXED);
		return f;
	}
	return as == full ? f : NULL;
}

/* find gives the record for what key launches at this size, within a factor of two. One that is not
 * there is made, or is NULL. */
static inline struct weir_function *find(uintptr_t key, uint64_t size, bool make)
{
	uint64_t magnitude = size ? 64u - (unsigned)__builtin_clzll(size) : 0;
	uint64_t full = ((uint64_t)key ^ magnitude << 57) | 1;
	uint64_t h = full * UINT64_C(0x9e3779b97f4a7c15); /* Knuth's multiplicative hash */
	struct weir_function *gone = NULL, *made;
	for (uint32_t i = (uint32_t)(h >> 50), tries = 0; tries < 64;
		i = (i + 1) & (ROOM - 1), tries++) {
		struct weir_function *f = &table[i];
		uint64_t have = weir_peek(&f->key);
		if (weir_likely(have == full))
			return f;
		if (have == GONE && !gone)
			gone = f;
		if (have != 0)
			continue;
		if (!make)
			return NULL;
		made = gone ? claim(gone, GONE, full) : NULL;
		if (made || (made = claim(f, 0, full)))
			return made;
		gone = NULL;
	}
	if (!make)
		return NULL;
	made = gone ? claim(gone, GONE, full) : NULL;
	return made ? made : &others;
}

/* weir_function_of is find, and never NULL. */
struct weir_function *weir_function_of(uintptr_t key, uint64_t size)
{
	return find(key, size, true);
}

/* forget has nothing believed of a record's function, nor what that has in flight be measured for
 * another. */
static void forget(struct weir_function *f)
{
	weir_add(&f->age, 1);
	__atomic_store_n(&f->guess, WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS, __ATOMIC_RELAXED);
	__atomic_store_n(&f->samples, 0, __ATOMIC_RELAXED);
}

static void gone(struct weir_function *f)
{
	if (!f)
		return;
	forget(f);
	__atomic_store_n(&f->key, GONE, __ATOMIC_RELEASE);
}

/* weir_function_gone forgets what key launched at no size: a graph that is destroyed. The driver
 * may give its address to another, which may take a thousand times as long, or as little. */
void weir_function_gone(uintptr_t key)
{
	gone(find(key, 0, false));
}

/* weir_kernel_gone forgets what key launched at any size: a kernel whose module is unloaded. */
void weir_kernel_gone(uintptr_t key)
{
	for (int magnitude = 0; magnitude < 64; magnitude++)
		gone(find(key, UINT64_C(1) << magnitude, false));
}

/* weir_functions_gone forgets all: some have gone, and it is not known which. */
void weir_functions_gone(void)
{
	for (uint32_t i = 0; i < ROOM; i++)
		if (weir_peek(&table[i].key))
			forget(&table[i]);
}

static uint32_t capped(uint32_t units)
{
	enum { MOST = WEIR_GUESS_NS / WEIR_UNIT_NS };
	return units < MOST ? units : MOST;
}

static uint32_t toward(uint32_t old, uint32_t now, uint32_t parts)
{
	return (uint32_t)((int64_t)old + ((int64_t)now - (int64_t)old) / (int64_t)parts);
}

/* fade lets a maximum go down by a part, to no less than what is now. */
static void fade(uint32_t *p, uint32_t now, uint32_t part, bool anew)
{
	uint32_t faded = weir_peek(p) - weir_peek(p) / part;
	__atomic_store_n(p, anew || now > faded ? now : faded, __ATOMIC_RELAXED);
}

/*
 * weir_function_measured takes one launch's time into the prediction by exponentially weighted
 * means. The first is set apart: it holds what happens once, such as the loading of the module
 * ("Lazy Loading" in NVIDIA's CUDA C++ Programming Guide). The second replaces it, and the third
 * the second, if that took more than twice as long and so held something of the kind too.
 *
 * Some short launches say little about the next one of a function whose launches differ, and much
 * of what is in flight may then be long; so a prediction rises with the fast mean and falls with
 * the slow one, and is larger by the mean deviation, as a time to wait for is in RFC 6298. None is
 * above WEIR_GUESS_NS, so that a kernel that waited for something does not hold up others for as
 * long the next time.
 */
void weir_function_measured(struct weir_function *f, uint64_t ns)
{
	uint32_t now = (uint32_t)((ns < WEIR_GUESS_NS ? ns : WEIR_GUESS_NS) / WEIR_UNIT_NS + 1),
			 samples = weir_peek(&f->samples), least = weir_peek(&f->least);
	bool anew = samples < 2 || (samples == 2 && now < weir_peek(&f->slow) / 2);
	uint32_t few = anew ? 1 : samples < WEIR_SAMPLES ? 4 : 8,
			 many = anew ? 1 : samples < WEIR_SAMPLES ? 4 : 64;
	uint32_t fast = toward(weir_peek(&f->fast), now, few),
			 slow = toward(weir_peek(&f->slow), now, many);
	__atomic_store_n(&f->fast, fast, __ATOMIC_RELAXED);
	__atomic_store_n(&f->slow, slow, __ATOMIC_RELAXED);
	uint32_t off = now > slow ? now - slow : slow - now,
			 spread = samples < WEIR_SAMPLES ? 0 : toward(weir_peek(&f->spread), off, many);
	uint32_t mean = fast > slow ? fast : slow;
	__atomic_store_n(&f->spread, spread, __ATOMIC_RELAXED);
	__atomic_store_n(&f->guess, capped(mean + spread), __ATOMIC_RELAXED);
	/* by a part of itself: one long launch is no reason to sleep through many short ones */
	uint32_t more = least + least / 64 + 1;
	__atomic_store_n(&f->least, samples && now > more ? more : now, __ATOMIC_RELAXED);
	fade(&f->most, now, 256, anew);
	fade(&f->peak, now, 16384, anew);
	if (samples < WEIR_SAMPLES)
		__atomic_store_n(&f->samples, samples + 1, __ATOMIC_RELAXED);
}

static void lower(uint32_t *p, uint32_t part)
{
	uint32_t v = weir_peek(p);
	__atomic_store_n(p, v - v / part, __ATOMIC_RELAXED);
}

/* weir_function_delayed takes note of a launch that may have lasted for as long as this process
 * waited for it. Its time says nothing, but that the prediction may be as wrong: it decays, faster
 * where it was exceeded by far, until launches end later than it says, and not because of what did
 * not wait for them any longer. */
void weir_function_delayed(struct weir_function *f, bool stalled)
{
	enum { STALLED = 2, AS_PREDICTED = 8 };
	uint32_t part = stalled ? STALLED : AS_PREDICTED;
	if (weir_peek(&f->samples) == 0) {
		__atomic_store_n(&f->samples, 1, __ATOMIC_RELAXED); /* the first guess stays */
		return;
	}
	lower(&f->guess, part);
	lower(&f->fast, part);
	lower(&f->slow, part);
	lower(&f->spread, part);
	lower(&f->most, part);
	lower(&f->peak, part);
}

/* weir_functions_distrust has all functions measured one by one again, once each. */
void weir_functions_distrust(void)
{
	for (uint32_t i = 0; i < ROOM; i++)
		if (weir_peek(&table[i].samples) == WEIR_SAMPLES)
			__atomic_store_n(&table[i].samples, WEIR_SAMPLES - 1, __ATOMIC_RELAXED);
}
