// crash dies in the middle of a commit, at each step of it, and checks that whoever takes the lock
// next finds either the state before or the state after, never a mixture. It plays a process of the
// model itself, without the driver.
//
// usage: crash
// The last line is JSON: steps.
#include "../model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 5, LANES = 3 };

// die does the first steps of a commit that sets the busy time and three lanes' times to the mark,
// and ends without unlocking.
static void die(fk_device *d, int steps, uint64_t mark) {
	fk_file *f = d->file;
	fk_lock(d);
	f->journal.clock = f->clock;
	f->journal.clock.busy_ns = mark;
	f->journal.count = LANES;
	for (uint32_t i = 0; i < LANES; i++) {
		f->journal.record[i].slot = i;
		f->journal.record[i].lane = f->slots[i].lane;
		f->journal.record[i].lane.device_ns = mark;
	}
	if (steps > 0)
		atomic_store_explicit(&f->journal.valid, 1, memory_order_release);
	if (steps > 1)
		f->clock = f->journal.clock;
	for (int i = 0; i < steps - 2 && i < LANES; i++)
		f->slots[i].lane = f->journal.record[i].lane;
	_exit(0);
}

static void check(fk_device *d, int steps, uint64_t before, uint64_t mark) {
	fk_lock(d);
	uint64_t want = steps ? mark : before, got = d->file->clock.busy_ns;
	bool same = got == want && !d->file->journal.valid;
	for (int i = 0; i < LANES; i++)
		same &= d->file->slots[i].lane.device_ns == want;
	fk_unlock(d);
	if (same)
		return;
	fprintf(stderr, "crash: after %d steps: busy %llu, want %llu, or lanes that differ\n", steps,
		(unsigned long long)got, (unsigned long long)want);
	exit(1);
}

int main(void) {
	fk_device d = {.slot = FK_NONE};
	if (!fk_open(&d, 0))
		return 1;
	uint64_t before = d.file->clock.busy_ns;
	for (int steps = 0; steps <= STEPS; steps++) {
		uint64_t mark = 1000 + (uint64_t)steps;
		int status;
		pid_t pid = fork();
		if (!pid)
			die(&d, steps, mark);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			return 1;
		check(&d, steps, before, mark);
		before = steps ? mark : before;
	}
	printf("{\"steps\":%d}\n", STEPS);
	return 0;
}
