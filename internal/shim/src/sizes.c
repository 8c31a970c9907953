/*
 * How large each thing is that the program holds: a hash table from handles to bytes, with a lock
 * for each of 64 parts. Frees ask it; launches do not.
 */
#include "weir.h"

#include <stdlib.h>
#include <string.h>

#define PARTS 64

struct item {
	uint64_t key, size;
	void *with;
	uint32_t kind; /* 0: free */
};

static struct part {
	pthread_mutex_t lock;
	struct item *items;
	size_t room, count; /* room is a power of two */
} parts[PARTS];

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
	for (int i = 0; i < PARTS; i++)
		pthread_mutex_init(&parts[i].lock, NULL);
}

static uint64_t hash(uint32_t kind, uint64_t key)
{
	/* Knuth's multiplicative hash */
	uint64_t h = (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static struct item *probe(struct part *p, uint32_t kind, uint64_t key)
{
	if (!p->room)
		return NULL;
	for (size_t i = (hash(kind, key) >> 8) & (p->room - 1);; i = (i + 1) & (p->room - 1)) {
		struct item *x = &p->items[i];
		if (!x->kind || (x->kind == kind && x->key == key))
			return x;
	}
}

static bool grow(struct part *p)
{
	struct part old = *p;
	size_t room = old.room ? 2 * old.room : 64;
	struct item *items = calloc(room, sizeof *items);
	if (!items)
		return false;
	p->items = items;
	p->room = room;
	for (size_t i = 0; i < old.room; i++)
		if (old.items[i].kind)
			*probe(p, old.items[i].kind, old.items[i].key) = old.items[i];
	free(old.items);
	return true;
}

static struct part *lock_part(enum weir_kind kind, uint64_t key)
{
	pthread_once(&once, init);
	struct part *p = &parts[hash(kind, key) & (PARTS - 1)];
	pthread_mutex_lock(&p->lock);
	return p;
}

/* weir_sizes_put notes a thing; false: there is no memory to note it in. */
bool weir_sizes_put(enum weir_kind kind, uint64_t key, uint64_t size, void *with)
{
	struct part *p = lock_part(kind, key);
	bool ok = 4 * (p->count + 1) <= 3 * p->room || grow(p);
	if (ok) {
		struct item *x = probe(p, kind, key);
		p->count += x->kind == 0;
		*x = (struct item){key, size, with, kind};
	}
	pthread_mutex_unlock(&p->lock);
	return ok;
}

/* drop empties x and moves up what the gap would hide (linear probing; Knuth 6.4, algorithm R). */
static void drop(struct part *p, struct item *x)
{
	size_t mask = p->room - 1, gap = (size_t)(x - p->items);
	p->count--;
	for (size_t i = (gap + 1) & mask; p->items[i].kind; i = (i + 1) & mask) {
		size_t home = (hash(p->items[i].kind, p->items[i].key) >> 8) & mask;
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			p->items[gap] = p->items[i];
			gap = i;
		}
	}
	p->items[gap].kind = 0;
}

static bool look(enum weir_kind kind, uint64_t key, uint64_t *size, void **with, bool take)
{
	struct part *p = lock_part(kind, key);
	struct item *x = probe(p, kind, key);
	bool found = x && x->kind;
	if (found) {
		if (size)
			*size = x->size;
		if (with)
			*with = x->with;
		if (take)
			drop(p, x);
	}
	pthread_mutex_unlock(&p->lock);
	return found;
}

bool weir_sizes_take(enum weir_kind kind, uint64_t key, uint64_t *size, void **with)
{
	return look(kind, key, size, with, true);
}

/* weir_sizes_take_same takes a thing if it is the one that was noted with that. */
bool weir_sizes_take_same(enum weir_kind kind, uint64_t key, uint64_t *size, const void *with)
{
	struct part *p = lock_part(kind, key);
	struct item *x = probe(p, kind, key);
	bool same = x && x->kind && x->with == with;
	if (same) {
		*size = x->size;
		drop(p, x);
	}
	pthread_mutex_unlock(&p->lock);
	return same;
}

bool weir_sizes_get(enum weir_kind kind, uint64_t key, uint64_t *size, void **with)
{
	return look(kind, key, size, with, false);
}

/* weir_sizes_count adds to how often a thing is used, which is noted as its size, and gives that; a
 * thing that is not used is forgotten. 0: there is no memory to note it in. */
uint64_t weir_sizes_count(enum weir_kind kind, uint64_t key, int64_t more)
{
	struct part *p = lock_part(kind, key);
	bool ok = 4 * (p->count + 1) <= 3 * p->room || grow(p);
	uint64_t n = 0;
	if (ok) {
		struct item *x = probe(p, kind, key);
		n = (x->kind ? x->size : 0) + (uint64_t)more;
		p->count += x->kind == 0;
		*x = (struct item){key, n, NULL, kind};
		if (!n)
			drop(p, x);
	}
	pthread_mutex_unlock(&p->lock);
	return n;
}

/* weir_sizes_keys gives the keys of a kind, which the caller frees; NULL without memory. */
uint64_t *weir_sizes_keys(enum weir_kind kind, size_t *count)
{
	uint64_t *keys = NULL;
	size_t n = 0;
	pthread_once(&once, init);
	for (int i = 0; i < PARTS; i++) {
		struct part *p = &parts[i];
		pthread_mutex_lock(&p->lock);
		uint64_t *all = realloc(keys, (n + p->count + 1) * sizeof *keys);
		for (size_t k = 0; all && k < p->room; k++)
			if (p->items[k].kind == kind)
				all[n++] = p->items[k].key;
		pthread_mutex_unlock(&p->lock);
		if (!all) {
			free(keys);
			return NULL;
		}
		keys = all;
	}
	*count = n;
	return keys;
}

/* weir_sizes_sum is the size of all of a kind that are noted with a number that has these bits. */
uint64_t weir_sizes_sum(enum weir_kind kind, uintptr_t bits)
{
	uint64_t sum = 0;
	pthread_once(&once, init);
	for (int i = 0; i < PARTS; i++) {
		struct part *p = &parts[i];
		pthread_mutex_lock(&p->lock);
		for (size_t k = 0; k < p->room; k++)
			if (p->items[k].kind == kind && ((uintptr_t)p->items[k].with & bits) == bits)
				sum += p->items[k].size;
		pthread_mutex_unlock(&p->lock);
	}
	return sum;
}

/* weir_sizes_reset forgets all in a child of fork; what other threads held is not freed, as they
 * may have been changing it. */
void weir_sizes_reset(void)
{
	init();
	for (int i = 0; i < PARTS; i++) {
		parts[i].items = NULL;
		parts[i].room = parts[i].count = 0;
	}
}
