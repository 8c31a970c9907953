// Reading of the settings.
#include "knobs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t fk_number(const char *name, uint64_t fallback, uint64_t least, uint64_t most) {
	const char *text = getenv(name);
	if (!text || !*text)
		return fallback;
	char *end;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	unsigned shift = !strcmp(end, "KiB") ? 10
		: !strcmp(end, "MiB")            ? 20
		: !strcmp(end, "GiB")            ? 30
										 : 0;
	bool bad = errno || end == text || *text == '-' || (*end && !shift) || n > UINT64_MAX >> shift;
	n <<= bad ? 0 : shift;
	if (bad || n < least || n > most) {
		fprintf(stderr, "weir fake GPU: %s=%s: not a number from %llu to %llu: using %llu\n", name,
			text, (unsigned long long)least, (unsigned long long)most,
			(unsigned long long)fallback);
		return fallback;
	}
	return n;
}

typedef struct {
	uint64_t hardware; // 1: that profile
	uint64_t seed;     // of a mix, which is drawn from it, 0: no mix
} profile;

static profile named(void) {
	const char *text = getenv("WEIR_FAKE_PROFILE");
	char *end;
	if (!text || !*text || !strcmp(text, "plain"))
		return (profile){0};
	if (!strcmp(text, "hardware"))
		return (profile){.hardware = 1};
	uint64_t seed = strncmp(text, "mix:", 4) ? 0 : strtoull(text + 4, &end, 10) + 1;
	if (!seed || *end)
		fprintf(stderr,
			"weir fake GPU: WEIR_FAKE_PROFILE=%s: neither plain, hardware nor mix:NUMBER: using "
			"plain\n",
			text);
	return (profile){.seed = seed && !*end ? seed : 0};
}

// SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
static uint64_t scatter(uint64_t *state) {
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

// drawn is a knob's value in a profile. Of a mix, a third is as plain has it, a third as hardware;
// the others lie between, and knobs that are switches are on or off.
static uint64_t drawn(profile *p, uint64_t plain, uint64_t hardware, uint64_t most) {
	if (!p->seed)
		return p->hardware ? hardware : plain;
	uint64_t n = scatter(&p->seed);
	switch (n % 3) {
	case 0:
		return plain;
	case 1:
		return hardware;
	default:
		return most == 1 ? n >> 32 & 1 : plain + (n >> 32) % (hardware - plain + 1);
	}
}

fk_knobs fk_read_knobs(void) {
	profile p = named();
	fk_knobs k;
#define FK_READ(field, variable, plain, hardware, most) \
	k.field = fk_number(variable, drawn(&p, plain, hardware, most), 0, most);
	FK_KNOBS(FK_READ)
#undef FK_READ
	while (k.granule & (k.granule - 1)) // no page is of another size than a power of two
		k.granule &= k.granule - 1;
	return k;
}
