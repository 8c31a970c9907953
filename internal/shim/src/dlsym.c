/*
 * Why dlsym is replaced, and how.
 *
 * Most CUDA programs do not link to libcuda.so.1: the CUDA runtime, often linked into the program
 * or one of its libraries, opens it with dlopen and asks dlsym for its functions, as do Triton,
 * JAX, CuPy and NVML's users. Preloaded functions of the same names are not found that way, because
 * dlsym looks in the library it is given. So weir exports dlsym too. It answers with a wrapper if
 * the name is listed and what the real dlsym finds is the driver's; all else is the real dlsym's.
 *
 * The real dlsym takes the meaning of RTLD_NEXT and the name space from its caller's address. So it
 * must see the program's return address and not one in this library: the exported dlsym is a few
 * instructions that ask weir_dlsym_filter and then jump, with the stack as they found it. That is
 * why it is in assembly: a compiler may or may not turn a call into a jump.
 *
 * With RTLD_NEXT a library that is loaded after this one, and before the driver, means the driver's
 * function too; the same filter is told who asks.
 *
 * What is not seen: a library opened with RTLD_DEEPBIND, which finds the C library's dlsym, and the
 * driver if it is linked to it, before this one.
 *
 * The real dlsym itself cannot be looked up with dlsym. dlvsym finds it under the version of the C
 * library's base.
 */
#include "weir.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef void *(*dlsym_fn)(void *, const char *);

__attribute__((visibility("hidden"))) void *weir_dlsym_next; /* where the assembly jumps */
/* weir's own dlsym, whichever that name means here */
__attribute__((visibility("hidden"))) extern char weir_dlsym_entry[];

/* Sanitizers call dlsym before instrumented code may run, so what they reach is not instrumented.
 * */
#define PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))

static PLAIN void find_dlsym(void)
{
	static const char *const versions[] = {
		"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34", "GLIBC_2.27", "GLIBC_2.36"};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		void *p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
		if (p && p != (void *)weir_dlsym_entry) {
			__atomic_store_n(&weir_dlsym_next, p, __ATOMIC_RELEASE);
			return;
		}
	}
}

static void *no_dlsym(void *handle, const char *name)
{
	(void)handle;
	(void)name;
	return NULL;
}

void *weir_dlsym_real(void *handle, const char *name)
{
	if (!__atomic_load_n(&weir_dlsym_next, __ATOMIC_ACQUIRE))
		find_dlsym();
	dlsym_fn f = (dlsym_fn)__atomic_load_n(&weir_dlsym_next, __ATOMIC_ACQUIRE);
	return f ? f(handle, name) : NULL;
}

void *weir_nvml_wrapper(const char *name, void *real);
void *weir_dlsym_filter(void *handle, const char *name, const void *caller);

static PLAIN bool named(const char *name, const char *prefix)
{
	while (*prefix && *name == *prefix)
		name++, prefix++;
	return !*prefix;
}

static void *choose(void *handle, const char *name, bool cuda);

struct order {
	const void *caller;
	bool after, driver; /* the caller's library is passed, and the driver's after it */
};

static int in_order(struct dl_phdr_info *info, size_t size, void *to)
{
	struct order *o = to;
	const char *name = info->dlpi_name ? info->dlpi_name : "", *slash = strrchr(name, '/');
	bool callers = false, own = false;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t bytes = info->dlpi_phdr[i].p_memsz;
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		callers |= (uintptr_t)o->caller - from < bytes;
		own |= (uintptr_t)&in_order - from < bytes;
	}
	o->driver = o->after && !own && !strncmp(slash ? slash + 1 : name, "libcuda.so", 10);
	o->after |= callers;
	return o->driver;
}

/* next gives the wrapper if the driver comes after the caller's library in the order of loading. */
static void *next(const char *name, const void *caller)
{
	int call = weir_job_named() ? weir_find(name) : -1;
	struct order o = {.caller = caller};
	if (call < 0 || !dl_iterate_phdr(in_order, &o) || !o.driver)
		return NULL;
	return weir_real((enum weir_call)call) ? weir_wrapper(call) : NULL;
}

/* weir_dlsym_filter gives the wrapper to answer with, or NULL to leave it to the real dlsym. */
__attribute__((visibility("hidden"), used)) PLAIN void *weir_dlsym_filter(
	void *handle, const char *name, const void *caller)
{
	if (!weir_dlsym_next) {
		find_dlsym();
		if (!weir_dlsym_next)
			weir_dlsym_next = (void *)&no_dlsym;
	}
	bool cuda = name && named(name, "cu") && name[2] >= 'A' && name[2] <= 'Z';
	if (!name || (!cuda && !named(name, "nvml")))
		return NULL;
	if (handle == RTLD_NEXT)
		return cuda ? next(name, caller) : NULL;
	return choose(handle, name, cuda);
}

static void *choose(void *handle, const char *name, bool cuda)
{
	if (!weir_job_named())
		return NULL;
	int call = cuda ? weir_find(name) : -1;
	void *real = weir_dlsym_real(handle, name);
	if (cuda && call < 0) {
		if (real && !weir_own_address(real) && weir_driver_address(real))
			weir_unknown(name);
		return NULL;
	}
	if (!real || weir_own_address(real))
		return NULL;
	if (!cuda)
		return weir_nvml_wrapper(name, real);
	if (!weir_driver_address(real))
		return NULL;
	weir_learn(call, real);
	return weir_wrapper(call);
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	".globl weir_dlsym_entry\n"
	".hidden weir_dlsym_entry\n"
	"weir_dlsym_entry:\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov 24(%rsp), %rdx\n"
	"	call weir_dlsym_filter\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	test %rax, %rax\n"
	"	jne 1f\n"
	"	mov weir_dlsym_next(%rip), %rax\n"
	"	jmp *%rax\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	".globl weir_dlsym_entry\n"
	".hidden weir_dlsym_entry\n"
	"weir_dlsym_entry:\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	.cfi_offset x29, -32\n"
	"	.cfi_offset x30, -24\n"
	"	stp x0, x1, [sp, #16]\n"
	"	mov x29, sp\n"
	"	mov x2, x30\n"
	"	bl weir_dlsym_filter\n"
	"	mov x9, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	cbnz x9, 1f\n"
	"	adrp x9, weir_dlsym_next\n"
	"	ldr x9, [x9, #:lo12:weir_dlsym_next]\n"
	"	br x9\n"
	"1:	mov x0, x9\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, .-dlsym\n");
#else
#error "weir knows no way to hand dlsym its caller on this processor"
#endif
