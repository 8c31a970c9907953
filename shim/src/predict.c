/*
 * How long a launch will take. Predictions are kept without locks in a table that only grows; if it
 * is full, all further functions share one record.
 */
#include "weir.h"

#define ROOM 16384u /* a power of two */

static struct weir_function table[ROOM];
static struct weir_function others = {
	.guess = WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS, .samples = WEIR_SAMPLES};

/* weir_function_of finds the record for what key launches at this size, within a factor of two. */
struct weir_function *weir_function_of(uintptr_t key, uint64_t size)
{
	uint64_t magnitude = size ? 64u - (unsigned)__builtin_clzll(size) : 0;
	uint64_t full = ((uint64_t)key ^ magnitude << 57) | 1;
	uint64_t h = full * UINT64_C(0x9e3779b97f4a7c15); /* Knuth's multiplicative hash */
	for (uint32_t i = (uint32_t)(h >> 50), tries = 0; tries < 64;
		i = (i + 1) & (ROOM - 1), tries++) {
		struct weir_function *f = &table[i];
		uint64_t have = weir_peek(&f->key);
		if (weir_likely(have == full))
			return f;
		if (have == 0 &&
			__atomic_compare_exchange_n(
				&f->key, &have, full, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&f->guess, WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS, __ATOMIC_RELAXED);
			return f;
		}
		if (have == full)
			return f;
	}
	return &others;
}

static uint32_t toward(uint32_t old, uint32_t now, uint32_t parts)
{
	return (uint32_t)((int64_t)old + ((int64_t)now - (int64_t)old) / (int64_t)parts);
}

/*
 * weir_function_measured takes one launch's time into the prediction: the first as it is, later
 * ones by exponentially weighted means. Some short launches say little about the next one of a
 * function whose launches differ, and much of what is in flight may then be long; so a prediction
 * rises with the fast mean and falls with the slow one, and is larger by the mean deviation, as a
 * time to wait for is in RFC 6298.
 */
void weir_function_measured(struct weir_function *f, uint64_t ns)
{
	uint64_t units = ns / WEIR_UNIT_NS + 1;
	uint32_t now = units > UINT32_MAX ? UINT32_MAX : (uint32_t)units,
			 samples = weir_peek(&f->samples), least = weir_peek(&f->least);
	uint32_t few = samples == 0  ? 1
		: samples < WEIR_SAMPLES ? 4
								 : 8,
			 many = samples == 0 ? 1
		: samples < WEIR_SAMPLES ? 4
								 : 64;
	uint32_t fast = toward(weir_peek(&f->fast), now, few),
			 slow = toward(weir_peek(&f->slow), now, many);
	__atomic_store_n(&f->fast, fast, __ATOMIC_RELAXED);
	__atomic_store_n(&f->slow, slow, __ATOMIC_RELAXED);
	uint32_t off = now > slow ? now - slow : slow - now,
			 spread = samples < WEIR_SAMPLES ? 0 : toward(weir_peek(&f->spread), off, many);
	uint32_t mean = fast > slow ? fast : slow;
	__atomic_store_n(&f->spread, spread, __ATOMIC_RELAXED);
	__atomic_store_n(
		&f->guess, mean > UINT32_MAX - spread ? UINT32_MAX : mean + spread, __ATOMIC_RELAXED);
	__atomic_store_n(
		&f->least, samples && now > least ? least + (now - least) / 64 : now, __ATOMIC_RELAXED);
	uint32_t most = weir_peek(&f->most), faded = most - most / 256;
	__atomic_store_n(&f->most, now > faded ? now : faded, __ATOMIC_RELAXED);
	if (samples < WEIR_SAMPLES)
		__atomic_store_n(&f->samples, samples + 1, __ATOMIC_RELAXED);
}

/* weir_functions_distrust has all functions measured one by one again, once each. */
void weir_functions_distrust(void)
{
	for (uint32_t i = 0; i < ROOM; i++)
		if (weir_peek(&table[i].samples) == WEIR_SAMPLES)
			__atomic_store_n(&table[i].samples, WEIR_SAMPLES - 1, __ATOMIC_RELAXED);
}
