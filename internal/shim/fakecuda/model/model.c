// The shared file: creation, slots, the lock and its repair, the ledger of memory.
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t fk_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Timers of ordinary threads may be 50 us late (prctl(2), PR_SET_TIMERSLACK), as long as whole
// kernels.
void fk_sleep_until(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns) {
	static _Atomic uint32_t still;
	struct timespec t = {
		.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
	int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
	syscall(SYS_futex, word ? word : &still, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
		word ? value : 0, &t, NULL, FUTEX_BITSET_MATCH_ANY);
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);
}

void fk_wake(_Atomic uint32_t *word) {
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX, NULL, NULL, 0);
}

// uuid_of fills in the UUID of a device and its text.
static void uuid_of(uint32_t ordinal, unsigned char out[16], char text[48]) {
	memcpy(out, "weir fake GPU\0\0", 15);
	out[15] = (unsigned char)ordinal;
	int n = snprintf(text, 48, "GPU-");
	for (int i = 0; i < 16; i++)
		n += snprintf(text + n, 48 - (size_t)n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", out[i]);
}

// named finds the device that an entry of CUDA_VISIBLE_DEVICES means: a number, or the beginning of
// a UUID. -1: none.
static int named(const char *entry, size_t size, uint32_t count) {
	char text[48], *end;
	unsigned char id[16];
	for (uint32_t i = 0; i < count && size > 4 && size < sizeof text; i++) {
		uuid_of(i, id, text);
		if (!strncmp(entry, text, size))
			return (int)i;
	}
	unsigned long n = strtoul(entry, &end, 10);
	return size && end == entry + size && *entry != '-' && n < count ? (int)n : -1;
}

uint32_t fk_visible(uint32_t ordinals[FK_DEVICES]) {
	uint32_t count = fk_count(), n = 0;
	const char *p = getenv("CUDA_VISIBLE_DEVICES");
	if (!p) {
		for (; n < count; n++)
			ordinals[n] = n;
		return n;
	}
	for (; *p && n < FK_DEVICES; p += *p == ',') {
		size_t size = strcspn(p, ",");
		int i = named(p, size, count);
		if (i < 0)
			break; // as the driver does: those after an invalid entry do not count
		ordinals[n++] = (uint32_t)i;
		p += size;
	}
	return n;
}

uint32_t fk_count(void) { return (uint32_t)fk_number("WEIR_FAKE_GPUS", 1, 0, FK_DEVICES); }

void fk_uuid(const fk_device *d, unsigned char out[16]) {
	char text[48];
	uuid_of(d->file->terms.ordinal, out, text);
}

static fk_terms terms(uint32_t ordinal) {
	return (fk_terms){
		.memory = fk_number("WEIR_FAKE_MEMORY", 16384 * FK_MIB, FK_MIB, UINT64_C(1) << 44),
		.context = fk_number("WEIR_FAKE_CONTEXT", 256 * FK_MIB, 0, UINT64_C(1) << 40),
		.slice_ns = 1000 * fk_number("WEIR_FAKE_SLICE_US", 2000, 1, 1000000),
		.switch_ns = 1000 * fk_number("WEIR_FAKE_SWITCH_US", 20, 0, 1000000),
		.concurrent = (uint32_t)fk_number("WEIR_FAKE_CONCURRENT", 1, 1, FK_RUN),
		.device_bps = UINT64_C(1000) * 1000 * 1000 * 1000,
		.host_bps = UINT64_C(25) * 1000 * 1000 * 1000,
		.ordinal = ordinal,
		.knobs = fk_read_knobs(),
	};
}

static void robust(pthread_mutex_t *m) {
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

static fk_file *map(int fd) {
	void *p = mmap(NULL, sizeof(fk_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

// create writes a whole new file beside path and links it there, so that no process ever sees half
// a file. Losing the race to another process is success.
static bool create(const char *path, uint32_t ordinal) {
	char temp[4200];
	snprintf(temp, sizeof temp, "%s.%d.%llx", path, getpid(), (unsigned long long)fk_now());
	int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	fk_file *f = ftruncate(fd, sizeof(fk_file)) ? NULL : map(fd);
	close(fd);
	bool ok = false;
	if (f) {
		f->magic = FK_MAGIC, f->version = FK_VERSION, f->bytes = sizeof(fk_file);
		f->terms = terms(ordinal);
		f->clock.now_ns = fk_now(), f->clock.current = FK_NONE;
		robust(&f->lock);
		for (uint32_t i = 0; i < FK_PROCS; i++)
			robust(&f->slots[i].alive);
		munmap(f, sizeof *f);
		ok = !link(temp, path) || errno == EEXIST;
	}
	unlink(temp);
	return ok;
}

void fk_folder(char *path, size_t size) {
	const char *dir = getenv("WEIR_FAKE_DIR"), *temp = getenv("TMPDIR");
	if (dir && *dir)
		snprintf(path, size, "%s", dir);
	else
		snprintf(path, size, "%s/weir-fake-%u", temp && *temp ? temp : P_tmpdir,
			(unsigned)getuid());
	mkdir(path, 0700);
}

// valid refuses files of another layout, and those of before a restart of the machine, when the
// clock began anew.
static bool valid(const fk_file *f) {
	return f->magic == FK_MAGIC && f->version == FK_VERSION && f->bytes == sizeof(fk_file) &&
		f->clock.now_ns <= fk_now();
}

bool fk_open(fk_device *d, uint32_t ordinal) {
	char dir[4096], path[4112];
	fk_folder(dir, sizeof dir);
	snprintf(path, sizeof path, "%s/gpu%u", dir, ordinal);
	for (int attempt = 0; attempt < 3; attempt++) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			if (errno != ENOENT || !create(path, ordinal))
				break;
			continue;
		}
		struct stat st;
		fk_file *f = fstat(fd, &st) || st.st_size != (off_t)sizeof(fk_file) ? NULL : map(fd);
		if (f && valid(f)) {
			*d = (fk_device){
				.file = f, .slot = FK_NONE, .server = d->server, .fd = fd, .sim = d->sim};
			return true;
		}
		close(fd);
		if (f)
			munmap(f, sizeof *f);
		unlink(path);
	}
	fprintf(stderr,
		"weir fake GPU: cannot use %s: %s: set WEIR_FAKE_DIR to a folder that can be written\n",
		path, strerror(errno));
	return false;
}

// replay finishes the commit that a dead process began. Applying a record twice changes nothing.
static void replay(fk_file *f) {
	if (!atomic_load_explicit(&f->journal.valid, memory_order_acquire))
		return;
	f->clock = f->journal.clock;
	for (uint32_t i = 0; i < f->journal.count; i++)
		f->slots[f->journal.record[i].slot].lane = f->journal.record[i].lane;
	atomic_store_explicit(&f->journal.valid, 0, memory_order_release);
}

void fk_lock(fk_device *d) {
	if (pthread_mutex_lock(&d->file->lock) == EOWNERDEAD) {
		replay(d->file);
		pthread_mutex_consistent(&d->file->lock);
	}
}

void fk_unlock(fk_device *d) { pthread_mutex_unlock(&d->file->lock); }

// entry finds a serial among what a process has open, 0 finds room; NULL: it is not there.
static uint64_t *entry(fk_slot *s, uint64_t serial) {
	for (uint32_t i = 0; i < FK_OPENS; i++)
		if (s->opened[i] == serial)
			return &s->opened[i];
	return NULL;
}

// bequeath ends an export whose process has ended, or closed it as the one that had it last. Its
// memory goes to another process that has it open.
static void bequeath(fk_file *f, fk_export *e) {
	for (uint32_t i = 0; i < f->high; i++) {
		if (i == e->slot || !fk_lives(&f->slots[i]) || !entry(&f->slots[i], e->serial))
			continue;
		fk_slot *from = &f->slots[e->slot];
		uint64_t has = atomic_load(&from->memory);
		if (!e->adopted)
			atomic_store(&from->memory, has > e->bytes ? has - e->bytes : 0);
		e->slot = i;
		e->adopted = 1;
		return;
	}
	e->serial = 0;
}

void fk_opened(fk_device *d, uint64_t serial) {
	uint64_t *room = entry(&d->file->slots[d->slot], 0);
	if (room)
		*room = serial;
}

void fk_closed(fk_device *d, uint64_t serial) {
	fk_slot *s = &d->file->slots[d->slot];
	uint64_t *one = entry(s, serial);
	if (one)
		*one = 0;
	if (!one || entry(s, serial))
		return;
	for (uint32_t i = 0; i < d->file->exports_high; i++) {
		fk_export *e = &d->file->exports[i];
		if (e->serial == serial && e->adopted && e->slot == d->slot)
			bequeath(d->file, e);
	}
}

uint64_t fk_adopted(const fk_device *d, uint32_t slot) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < d->file->exports_high; i++) {
		const fk_export *e = &d->file->exports[i];
		if (e->serial && e->adopted && (slot == FK_NONE || e->slot == slot))
			sum += e->bytes;
	}
	return sum;
}

// stop ends the work of a dead process, and what it had opened to others.
static void stop(fk_file *f, fk_slot *s) {
	uint32_t slot = (uint32_t)(s - f->slots);
	memset(s->opened, 0, sizeof s->opened);
	for (uint32_t i = 0; i < f->exports_high; i++)
		if (f->exports[i].slot == slot && f->exports[i].serial)
			bequeath(f, &f->exports[i]);
	s->lane = (fk_lane){.head = atomic_load(&s->tail)};
	atomic_store(&s->gone_ns, fk_now());
}

// clear empties the slot of a process that was stopped. pid goes last: until then a reader sees a
// process that holds less and less.
static void clear(fk_slot *s) {
	atomic_store(&s->memory, 0);
	atomic_store(&s->context_memory, 0);
	atomic_store(&s->pid, 0);
	atomic_store(&s->gone_ns, 0);
}

// byte is where a slot's lock is in the file, which has no such place.
static struct flock byte(uint32_t slot, short type) {
	return (struct flock){.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(sizeof(fk_file) + slot),
		.l_len = 1};
}

// lingers reports whether a dead process's memory is not free yet.
static bool lingers(const fk_device *d, const fk_slot *s) {
	struct flock held = byte((uint32_t)(s - d->file->slots), F_WRLCK);
	if (fk_now() - s->gone_ns < 1000 * FK_KNOB(d, late_us))
		return true;
	return FK_KNOB(d, forks) && !fcntl(d->fd, F_OFD_GETLK, &held) && held.l_type != F_UNLCK;
}

// claim takes a slot's mutex and empties the slot. False: its process lives, or its memory does.
static bool claim(fk_device *d, fk_slot *s) {
	int held = pthread_mutex_trylock(&s->alive);
	if (held && held != EOWNERDEAD)
		return false;
	if (held)
		pthread_mutex_consistent(&s->alive);
	if (atomic_load(&s->pid)) {
		if (!atomic_load(&s->gone_ns))
			stop(d->file, s);
		if (lingers(d, s)) {
			pthread_mutex_unlock(&s->alive);
			return false;
		}
	}
	clear(s);
	return true;
}

void fk_bury(fk_device *d, uint32_t slot) {
	fk_slot *s = &d->file->slots[slot];
	if (slot != d->slot && atomic_load(&s->pid) && claim(d, s))
		pthread_mutex_unlock(&s->alive);
}

void fk_reap(fk_device *d) {
	for (uint32_t i = 0; i < d->file->high; i++)
		fk_bury(d, i);
}

bool fk_attach(fk_device *d) {
	char group[FK_GROUP];
	fk_group(group);
	fk_lock(d);
	for (uint32_t i = 0; i < FK_PROCS && d->slot == FK_NONE; i++) {
		fk_slot *s = &d->file->slots[i];
		if (!claim(d, s))
			continue;
		if (i >= d->file->high)
			d->file->high = i + 1;
		if (!atomic_load(&s->tail))
			atomic_store(&s->tail, 1);
		s->lane = (fk_lane){.head = atomic_load(&s->tail)};
		s->server = d->server;
		s->pids = fk_pids();
		s->born_ns = fk_now();
		memcpy(s->group, group, sizeof group);
		atomic_store(&s->settled_ns, FK_NEVER);
		struct flock held = byte(i, F_WRLCK);
		if (FK_KNOB(d, forks))
			fcntl(d->fd, F_OFD_SETLK, &held);
		atomic_store(&s->pid, (uint32_t)getpid());
		d->slot = i;
	}
	fk_unlock(d);
	return d->slot != FK_NONE;
}

uint64_t fk_used(fk_device *d) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < d->file->high; i++)
		if (atomic_load(&d->file->slots[i].pid))
			sum += atomic_load(&d->file->slots[i].memory) +
				atomic_load(&d->file->slots[i].context_memory);
	return sum + fk_adopted(d, FK_NONE);
}

// fits reports whether the device and the limits of the process's groups have room.
static bool fits(fk_device *d, uint64_t bytes) {
	uint64_t total = d->file->terms.memory, hard;
	return bytes <= total && fk_used(d) <= total - bytes && bytes <= fk_room(d, &hard);
}

bool fk_take(fk_device *d, uint64_t bytes, bool context) {
	if (!fits(d, bytes))
		fk_reap(d);
	if (!fits(d, bytes))
		return false;
	uint64_t used = fk_used(d);
	if (used + bytes > d->file->peak) {
		fk_reap(d); // what the dead held is not held any more
		used = fk_used(d);
	}
	fk_slot *s = &d->file->slots[d->slot];
	atomic_fetch_add(context ? &s->context_memory : &s->memory, bytes);
	if (used + bytes > d->file->peak)
		d->file->peak = used + bytes;
	return true;
}

void fk_give(fk_device *d, uint64_t bytes, bool context) {
	fk_slot *s = &d->file->slots[d->slot];
	atomic_fetch_sub(context ? &s->context_memory : &s->memory, bytes);
}
