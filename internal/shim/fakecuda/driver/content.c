// Stores and effects.
#include "memory.h"

#include "content.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fk_store {
	uint32_t refs;
	int fd; // -1: memory of the host, or alone
	uint64_t offset, bytes;
	unsigned char *at; // mapped when first touched
	bool own;          // in the process's arena
	bool alone;        // memory that no other process can open
	bool stale;        // mapped, with what another store had in it
	bool unmap;        // memory of the host that goes with the store
	bool touched;      // not all of it is zero
};

// The arena is one file without a name in which all stores of the process have their places. It is
// as large as addresses go, and places are not used twice: what was freed is cut out.
static int arena = -1;
static uint64_t arena_end;

enum { PAGE = 4096 };

static uint64_t pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static fk_store *make(fk_store from) {
	fk_store *s = malloc(sizeof *s);
	if (s)
		*s = from, s->refs = 1;
	return s;
}

fk_store *fk_store_new(uint64_t bytes) {
	if (arena < 0) {
		arena = memfd_create("weir fake GPU", MFD_CLOEXEC);
		if (arena < 0 || ftruncate(arena, (off_t)1 << 60))
			return NULL;
	}
	fk_store *s =
		make((fk_store){.fd = arena, .offset = arena_end, .bytes = bytes, .own = true});
	arena_end += s ? pages(bytes) : 0;
	return s;
}

// The memory of a device is there whoever has it. So that who gets what another gave up need not
// wait for the host to make memory of it anew, some of what stores alone had stays mapped.
static struct {
	unsigned char *at;
	uint64_t bytes;
} spare[32];
static uint64_t spare_bytes;

enum { SPARES = sizeof spare / sizeof *spare };
#define SPARE_BYTES (UINT64_C(1) << 30)

fk_store *fk_store_alone(uint64_t bytes) {
	fk_store *s = make((fk_store){.fd = -1, .bytes = bytes, .alone = true});
	for (int i = 0; s && !s->at && i < SPARES; i++)
		if (spare[i].at && spare[i].bytes == bytes) {
			s->at = spare[i].at, s->stale = true;
			spare[i].at = NULL;
			spare_bytes -= bytes;
		}
	return s;
}

// save keeps the memory of a store alone for another; false: it is to be unmapped.
static bool save(const fk_store *s) {
	for (int i = 0; i < SPARES && spare_bytes + s->bytes <= SPARE_BYTES; i++)
		if (!spare[i].at) {
			spare[i].at = s->at, spare[i].bytes = s->bytes;
			spare_bytes += s->bytes;
			return true;
		}
	return false;
}

fk_store *fk_store_host(void *p, uint64_t bytes, bool unmap) {
	return make((fk_store){.fd = -1, .bytes = bytes, .at = p, .unmap = unmap, .touched = true});
}

fk_store *fk_store_file(int fd, uint64_t offset, uint64_t bytes) {
	fk_store *s = fd < 0 ? NULL
						 : make((fk_store){.fd = fd,
							   .offset = offset,
							   .bytes = bytes,
							   .touched = true});
	if (!s && fd >= 0)
		close(fd);
	return s;
}

fk_store *fk_keep(fk_store *s) {
	if (s)
		s->refs++;
	return s;
}

void fk_unkeep(fk_store *s) {
	if (!s || --s->refs)
		return;
	if (s->unmap || (s->at && (s->fd >= 0 || (s->alone && !save(s)))))
		munmap(s->at, pages(s->bytes));
	if (s->own && s->touched)
		fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->offset,
			(off_t)pages(s->bytes));
	if (s->fd >= 0 && !s->own)
		close(s->fd);
	free(s);
}

int fk_store_share(fk_store *s, uint64_t *offset) {
	s->touched = true; // by others
	*offset = s->offset;
	return s->fd;
}

// bytes_of maps a store. Where the host has no memory for the device's, nothing that a call could
// return would be true.
static unsigned char *bytes_of(fk_store *s) {
	if (s->stale)
		madvise(s->at, pages(s->bytes), MADV_DONTNEED);
	s->stale = false;
	if (s->at)
		return s->at;
	int how = MAP_NORESERVE | (s->alone ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	s->at = mmap(NULL, pages(s->bytes), PROT_READ | PROT_WRITE, how, s->fd, (off_t)s->offset);
	if (s->at == MAP_FAILED)
		abort();
	if (s->alone) // a device has no faults, of which small pages have many
		madvise(s->at, pages(s->bytes), MADV_HUGEPAGE);
	return s->at;
}

// transfer copies as a device does: beside what the program does with memory of the host, which is
// no race of its threads.
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread"))) static void transfer(
	unsigned char *to, const unsigned char *from, uint64_t n) {
	for (uint64_t i = 0; i < n; i++)
		*(volatile unsigned char *)(to + i) = from[i];
}
#else
static void transfer(unsigned char *to, const unsigned char *from, uint64_t n) {
	memmove(to, from, n);
}
#endif

// span is a part of a store. range is memory without gaps in addresses, and may lie in several
// stores: in mappings side by side.
typedef struct {
	fk_store *store;
	uint64_t offset, bytes;
} span;

typedef struct {
	span *spans;
	uint32_t count;
} range;

struct fk_effect {
	fk_motion motion;
	range to, from;
	unsigned char *staged; // what lay in pageable memory
	struct fk_effect *next;
};

static uint64_t extent(const fk_motion *m, const fk_side *s) {
	return (m->depth - 1) * s->slice + (m->height - 1) * s->pitch + m->width;
}

static bool append(range *r, fk_store *s, uint64_t offset, uint64_t bytes) {
	span *all = s ? realloc(r->spans, (r->count + 1) * sizeof *all) : NULL;
	if (!all)
		return false;
	r->spans = all;
	all[r->count++] = (span){fk_keep(s), offset, bytes};
	return true;
}

static void drop(range *r) {
	for (uint32_t i = 0; i < r->count; i++)
		fk_unkeep(r->spans[i].store);
	free(r->spans);
	*r = (range){0};
}

// find fills in the range where a side's memory is.
static bool find(range *r, const fk_side *s, uint64_t bytes) {
	if (s->store)
		return append(r, s->store, s->address, bytes);
	for (CUdeviceptr at = s->address, end = at + bytes; at < end;) {
		fk_allocation *a = fk_find(at);
		if (!a && s->host && at == s->address && !fk_of_device(at)) {
			fk_store *pageable = fk_store_host((void *)(uintptr_t)at, bytes, false);
			bool ok = append(r, pageable, 0, bytes);
			fk_unkeep(pageable);
			return ok;
		}
		uint64_t left = a ? a->address + a->bytes - at : 0, n = left < end - at ? left : end - at;
		if (!a || !append(r, a->store, a->within + (at - a->address), n))
			return false;
		at += n;
	}
	return true;
}

// stage reads pageable memory now, into rows without gaps.
static bool stage(fk_effect *e) {
	fk_motion *m = &e->motion;
	const unsigned char *from = e->from.spans->store->at + e->from.spans->offset;
	e->staged = malloc(m->width * m->height * m->depth);
	for (uint64_t z = 0; e->staged && z < m->depth; z++)
		for (uint64_t y = 0; y < m->height; y++)
			memcpy(e->staged + (z * m->height + y) * m->width,
				from + z * m->from.slice + y * m->from.pitch, m->width);
	drop(&e->from);
	m->from.pitch = m->width, m->from.slice = m->width * m->height;
	return e->staged != NULL;
}

fk_effect *fk_effect_of(const fk_motion *m, bool later) {
	fk_effect *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->motion = *m;
	bool ok = true, copies = m->action == FK_COPY;
	if (m->action != FK_NOTHING)
		ok = find(&e->to, &m->to, extent(m, &m->to)) &&
			(!copies || find(&e->from, &m->from, extent(m, &m->from)));
	if (ok && copies && !later && !m->from.store && !fk_find(m->from.address))
		ok = stage(e);
	if (ok)
		return e;
	fk_effect_free(e);
	return NULL;
}

void fk_effect_join(fk_effect **list, fk_effect *last) {
	while (*list)
		list = &(*list)->next;
	*list = last;
}

void fk_effect_free(fk_effect *e) {
	for (fk_effect *next; e; e = next) {
		next = e->next;
		drop(&e->to);
		drop(&e->from);
		free(e->staged);
		free(e);
	}
}

bool fk_effect_seen(const fk_effect *e) {
	for (; e; e = e->next) {
		for (uint32_t i = 0; i < e->to.count; i++)
			if (e->to.spans[i].store->fd < 0 && !e->to.spans[i].store->alone)
				return true;
	}
	return false;
}

// part finds the span that holds an offset of a range, and how much of it is left there.
static span *part(const range *r, uint64_t *offset, uint64_t *left) {
	span *s = r->spans;
	while (*offset >= s->bytes)
		*offset -= s->bytes, s++;
	*left = s->bytes - *offset;
	*offset += s->offset;
	return s;
}

// zero makes bytes of a store zero. Whole pages are cut out of the file.
static void zero(fk_store *s, uint64_t offset, uint64_t n) {
	enum { MANY = 256 * PAGE };
	if (!s->touched)
		return;
	if ((s->own || s->alone) && n >= MANY && offset % PAGE == 0) {
		if (s->alone)
			madvise(bytes_of(s) + offset, n / PAGE * PAGE, MADV_DONTNEED);
		else
			fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				(off_t)(s->offset + offset), (off_t)(n / PAGE * PAGE));
		offset += n / PAGE * PAGE, n %= PAGE;
	}
	memset(bytes_of(s) + offset, 0, n);
}

// put writes bytes that lie in the process, NULL for zeros, to a range.
static void put(const range *to, uint64_t offset, const unsigned char *from, uint64_t n) {
	for (uint64_t left; n; n -= left, offset += left, from += from ? left : 0) {
		uint64_t at = offset;
		span *s = part(to, &at, &left);
		left = left < n ? left : n;
		if (!from) {
			zero(s->store, at, left);
			continue;
		}
		if (left == s->store->bytes)
			s->store->stale = false; // nothing of it stays
		transfer(bytes_of(s->store) + at, from, left);
		s->store->touched = true;
	}
}

// row copies between two ranges.
static void row(const fk_effect *e, uint64_t to, uint64_t from, uint64_t n) {
	if (e->staged) {
		put(&e->to, to, e->staged + from, n);
		return;
	}
	for (uint64_t left; n; n -= left, to += left, from += left) {
		uint64_t at = from;
		span *s = part(&e->from, &at, &left);
		left = left < n ? left : n;
		put(&e->to, to, s->store->touched ? bytes_of(s->store) + at : NULL, left);
	}
}

// fill sets or adds to a row.
static void fill(const fk_effect *e, uint64_t offset, uint64_t n) {
	const fk_motion *m = &e->motion;
	if (m->action == FK_SET && !m->value) {
		put(&e->to, offset, NULL, n);
		return;
	}
	for (uint64_t left; n; n -= left, offset += left) {
		uint64_t at = offset;
		span *s = part(&e->to, &at, &left);
		left = left < n ? left : n;
		unsigned char *p = bytes_of(s->store) + at;
		s->store->touched = true;
		if (m->action == FK_SET && m->size == 1)
			memset(p, (int)m->value, left);
		for (uint64_t i = 0; m->action == FK_SET && m->size > 1 && i < left; i += m->size)
			transfer(p + i, (const unsigned char *)&m->value, m->size);
		for (uint64_t i = 0; m->action == FK_ADD && i < left; i += 4) {
			uint32_t word;
			memcpy(&word, p + i, 4);
			word += (uint32_t)m->value;
			memcpy(p + i, &word, 4);
		}
	}
}

void fk_effect_do(const fk_effect *e) {
	for (; e; e = e->next) {
		const fk_motion *m = &e->motion;
		for (uint64_t z = 0; m->action != FK_NOTHING && z < m->depth; z++)
			for (uint64_t y = 0; y < m->height; y++) {
				uint64_t to = z * m->to.slice + y * m->to.pitch;
				if (m->action == FK_COPY)
					row(e, to, z * m->from.slice + y * m->from.pitch, m->width);
				else
					fill(e, to, m->width);
			}
	}
}

// at finds bytes that lie in one allocation.
static unsigned char *at(CUdeviceptr address, size_t bytes, fk_store **s) {
	fk_allocation *a = fk_find(address);
	if (!a || !a->store || a->address + a->bytes - address < bytes)
		return NULL;
	*s = a->store;
	return bytes_of(a->store) + a->within + (address - a->address);
}

bool fk_peek(CUdeviceptr address, void *word, size_t bytes) {
	fk_store *s;
	unsigned char *p = at(address, bytes, &s);
	if (p)
		transfer(word, p, bytes);
	return p != NULL;
}

bool fk_poke(CUdeviceptr address, const void *from, size_t bytes) {
	fk_store *s;
	unsigned char *p = at(address, bytes, &s);
	if (p) {
		transfer(p, from, bytes);
		s->touched = true;
	}
	return p != NULL;
}
