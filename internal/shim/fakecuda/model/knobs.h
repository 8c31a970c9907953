// What a device does that costs time or memory beyond what a program asks for: the knobs of the
// profiles "plain", where all are off and every number is exact, and "hardware".
//
// Each knob is set alone by its variable, on top of $WEIR_FAKE_PROFILE, which is "plain",
// "hardware" or "mix:SEED", where each knob is drawn from between the two. A knob says where the
// belief comes from; "assumed" where no document gives a number.
#ifndef WEIR_FAKE_KNOBS_H
#define WEIR_FAKE_KNOBS_H

#include <stdint.h>

// FK_KNOBS lists them: field, variable, plain, hardware, most.
//
// granule: bytes in which allocations take memory from the device; smaller ones share a block of
// that size, which is held as long as one of them is. 0: exactly what was asked for. 2 MiB is what
// cuMemGetAllocationGranularity gives (fzyzcjy/torch_memory_saver pull request 82); that cuMemAlloc
// shares blocks of that size is assumed.
//
// context_spread: a context takes between $WEIR_FAKE_CONTEXT and so many percent more. 200 MiB to
// 700 MiB are reported, by machine (pytorch/pytorch issue 28113), and 107 MiB beside 555 MiB of two
// devices of one machine (ggml-org/llama.cpp pull request 23604); that two contexts of one device
// differ is assumed.
//
// lazy_us, lazy_bytes: a function's first launch loads it, which takes the calling thread so long
// and the context so many bytes. CUDA programming guide, "Lazy Loading", default since 12.2; the
// amounts are assumed.
//
// lazy_sync: that first launch waits until the context has no work. "Potential Hazards" there:
// loading may require it. Off in "hardware", which is free to need none.
//
// teardown_us: time that destroying a context takes before its memory is free. Assumed.
//
// late_us: time that a process's memory counts after its end. Assumed; that there is such a time
// follows from the order of exit(2): a parent may reap a process whose files are closed later.
//
// forks: a dead process's memory counts until its forked children are gone that have not called
// exec, because they hold its open files (NVIDIA/Megatron-LM pull request 3684, pytorch/pytorch
// issue 5736).
//
// stack: cuCtxSetLimit of CU_LIMIT_STACK_SIZE, which is of each thread, takes memory for all
// threads that can be resident; it "will take effect immediately, and if necessary, the device will
// block until all preceding requested tasks are complete" (manual). The amount is assumed.
//
// fifo: cuCtxSetLimit of CU_LIMIT_PRINTF_FIFO_SIZE takes what it is above 1 MiB: the buffer of
// printf "is set to a fixed size before kernel launch" (programming guide, "Formatted Output").
// That it is memory of the device is assumed.
//
// free_sync: cuMemFree waits for the work of the context ("Stream Ordered Memory Allocator" in the
// programming guide: cudaFree synchronises across all streams).
//
// pageable_sync: an asynchronous copy from the device to memory that is not pinned returns when it
// is done; it "might be synchronous" (manual, "API synchronization behavior").
//
// within_async: a synchronous copy within the device returns before it is done; "no host-side
// synchronization is performed" (there).
//
// launch_ns, event_ns: time of the calling thread in each launch, and in each call that records,
// queries or subtracts events. Assumed.
//
// record_ns: time that the device takes to record an event, in the process's own turn: an event
// behind finished work is not done while another process has the device. Assumed.
//
// wake_us: time from the end of the work to the return of a call that waits for it, where context
// or event ask for blocking synchronisation (CU_CTX_SCHED_BLOCKING_SYNC: "block the CPU thread on a
// synchronization primitive"). Assumed.
//
// exit_us: the driver takes itself down in a handler that cuInit registers with atexit. That takes
// so long; a call from another thread from then on crashes (rapidsai/rmm issue 2366), and one from
// the exiting thread gives CUDA_ERROR_DEINITIALIZED. 0: there is no such handler. The time is
// assumed.
//
// exit_late: that handler is registered with the process's first context. Assumed: no document says
// when it is.
#define FK_KNOBS(X) \
	X(granule, "WEIR_FAKE_GRANULE", 0, UINT64_C(2) << 20, UINT64_C(1) << 30) \
	X(context_spread, "WEIR_FAKE_CONTEXT_SPREAD", 0, 25, 1000) \
	X(lazy_us, "WEIR_FAKE_LAZY_US", 0, 400, 1000000) \
	X(lazy_bytes, "WEIR_FAKE_LAZY_BYTES", 0, UINT64_C(128) << 10, UINT64_C(1) << 30) \
	X(lazy_sync, "WEIR_FAKE_LAZY_SYNC", 0, 0, 1) \
	X(teardown_us, "WEIR_FAKE_TEARDOWN_US", 0, 10000, 10000000) \
	X(exit_us, "WEIR_FAKE_EXIT_US", 0, 2000, 10000000) \
	X(late_us, "WEIR_FAKE_LATE_US", 0, 20000, 10000000) \
	X(forks, "WEIR_FAKE_FORKS", 0, 1, 1) \
	X(stack, "WEIR_FAKE_STACK", 0, 1, 1) \
	X(free_sync, "WEIR_FAKE_FREE_SYNC", 0, 1, 1) \
	X(pageable_sync, "WEIR_FAKE_PAGEABLE_SYNC", 0, 1, 1) \
	X(within_async, "WEIR_FAKE_WITHIN_ASYNC", 0, 1, 1) \
	X(launch_ns, "WEIR_FAKE_LAUNCH_NS", 0, 2000, 1000000) \
	X(event_ns, "WEIR_FAKE_EVENT_NS", 0, 1000, 1000000) \
	X(record_ns, "WEIR_FAKE_RECORD_NS", 0, 500, 1000000) \
	X(wake_us, "WEIR_FAKE_WAKE_US", 0, 25, 1000000) \
	X(fifo, "WEIR_FAKE_FIFO", 0, 1, 1) \
	X(exit_late, "WEIR_FAKE_EXIT_LATE", 0, 0, 1)

typedef struct {
#define FK_FIELD(field, variable, plain, hardware, most) uint64_t field;
	FK_KNOBS(FK_FIELD)
#undef FK_FIELD
} fk_knobs;

// fk_number reads an environment variable: digits with an optional KiB, MiB or GiB. Anything else
// is the fallback, and said.
uint64_t fk_number(const char *name, uint64_t fallback, uint64_t least, uint64_t most);

// fk_read_knobs reads the environment.
fk_knobs fk_read_knobs(void);

#endif
