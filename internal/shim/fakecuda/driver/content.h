// The contents of memory, and what operations do to them.
//
// A copy, a set or a kernel with an effect happens when the device has finished it, at once:
// whoever of its process looks at the device's queue next, with fk.lock held, performs what is
// finished, in the order in which it ended, before anybody is told that it is finished. Where
// others than the calls of this process could see it (memory of the host, memory that other
// processes have open), the service thread looks in time. A process that dies takes what it had not
// performed with it.
#ifndef WEIR_FAKE_CONTENT_H
#define WEIR_FAKE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct fk_store;

// A store is memory with contents, which reads as zero until something is written. It takes nothing
// of the host before that. Those who use it count: fk_keep adds one, fk_unkeep takes one away.
typedef struct fk_store fk_store;

// fk_store_new makes a store of the process's own, NULL without memory, and fk_store_alone one that
// cannot be shared. fk_store_host makes one of the program's memory, which it unmaps in the end if
// asked to. fk_store_file makes one of a part of a file, whose descriptor it takes.
fk_store *fk_store_new(uint64_t bytes);
fk_store *fk_store_alone(uint64_t bytes);
fk_store *fk_store_host(void *p, uint64_t bytes, bool unmap);
fk_store *fk_store_file(int fd, uint64_t offset, uint64_t bytes);
fk_store *fk_keep(fk_store *s);
void fk_unkeep(fk_store *s);

// fk_store_share tells where other processes find the contents: in a file of this process, at an
// offset. -1: nowhere.
int fk_store_share(fk_store *s, uint64_t *offset);

typedef enum {
	FK_NOTHING,
	FK_COPY,
	FK_SET,
	FK_ADD,   // adds a value to words of 4 bytes
} fk_action;

// fk_side is one side of a copy, or what is set.
typedef struct {
	unsigned long long address; // of the device, or of the host where that is allowed
	fk_store *store;            // of an array, which has no address; then address counts within it
	bool host;                  // memory of the program that the driver need not know
	uint64_t pitch, slice;      // bytes from row to row and from plane to plane
} fk_side;

// fk_motion is what an operation does to contents.
typedef struct {
	fk_action action;
	fk_side to, from;
	uint64_t width, height, depth; // bytes, rows, planes
	uint64_t value;                // of FK_SET, FK_ADD
	uint32_t size;                 // bytes of what FK_SET repeats
} fk_motion;

static inline fk_motion fk_linear_copy(
	unsigned long long to, unsigned long long from, uint64_t bytes) {
	return (fk_motion){.action = FK_COPY,
		.to = {.address = to},
		.from = {.address = from},
		.width = bytes,
		.height = 1,
		.depth = 1};
}

// fk_effect is a motion whose memory has been found and is kept.
typedef struct fk_effect fk_effect;

// All of what follows is called with fk.lock held.

// fk_effect_of finds a motion's memory; NULL if it is not there. Memory of the program that the
// driver does not know (pageable) is read at once, unless later says that it is read when the
// operation runs, as for nodes of graphs.
fk_effect *fk_effect_of(const fk_motion *m, bool later);
void fk_effect_join(fk_effect **list, fk_effect *last);
void fk_effect_free(fk_effect *list);

// fk_effect_seen tells whether one of them is seen without a call: in memory of the host.
bool fk_effect_seen(const fk_effect *list);

// fk_effect_do performs them in order.
void fk_effect_do(const fk_effect *list);

// fk_peek reads a word of memory of the device, or of the host that the driver knows; fk_poke puts
// into an allocation what it begins with. False: there is no such memory.
bool fk_peek(unsigned long long address, void *word, size_t bytes);
bool fk_poke(unsigned long long address, const void *from, size_t bytes);

#endif
