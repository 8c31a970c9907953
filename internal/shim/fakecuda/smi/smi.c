// smi prints what the model of device 0 holds, without joining the device: one line of JSON, or
// with "timeline" the record of who ran when, one line per segment: start, end and busy time in
// nanoseconds of CLOCK_MONOTONIC, then the pid. With "freed" it says "ready", looks until less is
// held than at first, and prints in JSON when the last look began at which that was not so, on the
// same clock: so long the device kept it at least. With "used" it answers each line of input with
// how many bytes are held, without the time that a process takes to begin.
//
// usage: smi [timeline|freed|used]
#include "../model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void process(const fk_slot *s, const char *comma) {
	printf("%s{\"pid\":%" PRIu32 ",\"memory\":%" PRIu64 ",\"context\":%" PRIu64
		   ",\"device_ns\":%" PRIu64 ",\"waited_ns\":%" PRIu64 ",\"finished\":%" PRIu64
		   ",\"queued\":%" PRIu64 "}",
		comma, s->pid, s->memory, s->context_memory, s->lane.device_ns, s->lane.waited_ns,
		s->lane.finished, s->tail - s->lane.head);
}

static void state(fk_device *d) {
	const fk_file *f = d->file;
	printf("{\"device\":\"%s\",\"now_ns\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"used\":%" PRIu64
		   ",\"peak\":%" PRIu64 ",\"busy_ns\":%" PRIu64 ",\"switches\":%" PRIu64 ",\"processes\":[",
		FK_NAME, f->clock.now_ns, f->terms.memory, fk_used(d), f->peak, f->clock.busy_ns,
		f->clock.switches);
	const char *comma = "";
	for (uint32_t i = 0; i < f->high; i++)
		if (fk_lives(&f->slots[i])) {
			process(&f->slots[i], comma);
			comma = ",";
		}
	puts("]}");
}

static void segment(const fk_segment *s) {
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", s->start_ns, s->end_ns, s->busy_ns,
		s->pid);
}

static void timeline(const fk_file *f) {
	const fk_clock *c = &f->clock;
	for (uint64_t i = c->segments > FK_SEGMENTS ? c->segments - FK_SEGMENTS : 0; i < c->segments;
		i++)
		segment(&f->segments[i % FK_SEGMENTS]);
	if (c->open.busy_ns)
		segment(&c->open);
}

static uint64_t held(fk_device *d) {
	fk_lock(d);
	fk_reap(d);
	uint64_t n = fk_used(d);
	fk_unlock(d);
	return n;
}

// freed waits for 10 seconds at most.
static int freed(fk_device *d) {
	enum { LOOK_NS = 100000 };
	uint64_t before = held(d), began = fk_now(), kept = began, now = began;
	puts("ready");
	fflush(stdout);
	while (held(d) >= before && now < began + UINT64_C(10000000000)) {
		kept = now;
		fk_sleep_until(NULL, 0, now + LOOK_NS);
		now = fk_now();
	}
	printf("{\"kept_ns\":%" PRIu64 "}\n", kept);
	return held(d) >= before;
}

static int used(fk_device *d) {
	for (int c; (c = getchar()) != EOF;)
		if (c == '\n') {
			printf("%" PRIu64 "\n", held(d));
			fflush(stdout);
		}
	return 0;
}

int main(int argc, char **argv) {
	static fk_device d = {.slot = FK_NONE};
	static fk_file copy;
	if (!fk_open(&d, 0))
		return 1;
	if (argc > 1 && !strcmp(argv[1], "freed"))
		return freed(&d);
	if (argc > 1 && !strcmp(argv[1], "used"))
		return used(&d);
	fk_lock(&d);
	fk_reap(&d);
	fk_advance(&d);
	bool all = argc > 1 && !strcmp(argv[1], "timeline");
	if (all) { // printing may block, which must not stop the device
		copy.clock = d.file->clock;
		memcpy(copy.segments, d.file->segments, sizeof copy.segments);
	} else {
		state(&d);
	}
	fk_unlock(&d);
	if (all)
		timeline(&copy);
	return 0;
}
