// A plugin of QEMU's that counts the instructions a guest program executes, all threads together,
// and tells how often each block of them ran between two marks. A mark is the system call close of
// the descriptor MARK, which no program has open. Argument: out=FILE, which gets the lines
//
//   mark INSTRUCTIONS           of all marks in their order
//   block ADDRESS LENGTH RUNS   of those between the last two marks
//
// Blocks are counted as they begin: one that a fault leaves early counts whole.
//
// The declarations are those of QEMU's plugin interface, which Debian ships no header of; they have
// been the same since its version 1. The version asked for is given as API by the compiler.
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK (-0x77656972)
#define CLOSE 57 // of arm64
#define CPUS 4096
#define MARKS 64

struct qemu_plugin_tb;
typedef uint64_t plugin_id;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int,
                                          void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id,
                                          void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t,
                                                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                                   uint64_t));

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = API;

// block is translated code. One address may have several, which the reader adds up.
struct block {
  uint64_t address, length;
  _Atomic uint64_t runs;
  struct block *next;
};
static struct block *_Atomic blocks;

// Each thread of the guest is a processor, which alone adds to its own count.
static struct {
  _Atomic uint64_t n;
  char apart[56];
} counts[CPUS];

static uint64_t marks[MARKS];
static int n_marks;
static const char *path;

static void ran(unsigned cpu, void *data) {
  struct block *b = data;
  if (cpu >= CPUS) {
    fprintf(stderr, "count.c: more than %d threads\n", CPUS);
    abort();
  }
  uint64_t n = atomic_load_explicit(&counts[cpu].n, memory_order_relaxed);
  atomic_store_explicit(&counts[cpu].n, n + b->length, memory_order_relaxed);
  atomic_fetch_add_explicit(&b->runs, 1, memory_order_relaxed);
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
  struct block *b = calloc(1, sizeof *b);
  if (!b) abort();
  b->address = qemu_plugin_tb_vaddr(tb);
  b->length = qemu_plugin_tb_n_insns(tb);
  b->next = atomic_load(&blocks);
  while (!atomic_compare_exchange_weak(&blocks, &b->next, b)) {
  }
  qemu_plugin_register_vcpu_tb_exec_cb(tb, ran, 0, b);
}

static void write_blocks(void) {
  FILE *f = fopen(path, "w");
  if (!f) {
    perror(path);
    abort();
  }
  for (int i = 0; i < n_marks; i++) fprintf(f, "mark %" PRIu64 "\n", marks[i]);
  for (struct block *b = atomic_load(&blocks); b; b = b->next)
    if (b->runs)
      fprintf(f, "block %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", b->address, b->length, b->runs);
  if (fclose(f)) abort();
}

// called takes a mark. What has been counted by then is written out, and of blocks the count begins
// anew: a mark is made while the program waits for nothing else.
static void called(plugin_id id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                   uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  if (number != CLOSE || (int32_t)a1 != MARK) return;
  if (n_marks == MARKS) {
    fprintf(stderr, "count.c: more than %d marks\n", MARKS);
    abort();
  }
  uint64_t sum = 0;
  for (int i = 0; i < CPUS; i++) sum += atomic_load_explicit(&counts[i].n, memory_order_relaxed);
  marks[n_marks++] = sum;
  write_blocks();
  for (struct block *b = atomic_load(&blocks); b; b = b->next) atomic_store(&b->runs, 0);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (!strncmp(argv[i], "out=", 4)) path = strdup(argv[i] + 4);
  if (!path) {
    fprintf(stderr, "count.c: no out=FILE\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
