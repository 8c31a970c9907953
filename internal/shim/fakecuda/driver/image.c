// What modules and libraries have in common, whatever their image: kernels, variables, and the
// device memory that both take.
#include "image.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_NS = 10000 }; // of a kernel whose image does not say

void fk_kernel_time(uint64_t *least_ns, uint64_t *most_ns) {
	const char *text = getenv("WEIR_FAKE_KERNEL_US");
	unsigned long long least, most;
	int n = text ? sscanf(text, "%llu-%llu", &least, &most) : 0;
	*least_ns = n > 0 ? least * 1000 : DEFAULT_NS;
	*most_ns = n > 1 && most >= least ? most * 1000 : *least_ns;
}

static char *copy_of(const char *name, size_t length) {
	char *own = malloc(length + 1);
	if (!own)
		return NULL;
	memcpy(own, name, length);
	own[length] = 0;
	return own;
}

struct CUfunc_st *fk_kernel(struct CUmod_st *m, const char *name, size_t length) {
	if (!(m->count & (m->count - 1))) { // room is a power of two
		struct CUfunc_st *all =
			realloc(m->functions, (m->count ? 2 * m->count : 1) * sizeof *all);
		if (!all)
			return NULL;
		m->functions = all;
	}
	struct CUfunc_st *f = &m->functions[m->count];
	*f = (struct CUfunc_st){
		.kind = FK_FUNCTION, .argument = -1, .module = m, .loaded = !fk_lazy(0)};
	f->name = copy_of(name, length);
	if (!f->name)
		return NULL;
	fk_kernel_time(&f->least_ns, &f->most_ns);
	// registers, versions of PTX and of the binary
	f->attributes[4] = 32, f->attributes[5] = f->attributes[6] = FK_ARCHITECTURE;
	m->count++;
	return f;
}

void fk_limits(struct CUfunc_st *f) {
	enum { REGISTERS = 65536, MOST = 1024, WARP = 32, SHARED = 49152 };
	int each = (f->attributes[4] + 7) / 8 * 8;
	int by_registers = each ? REGISTERS / each / WARP * WARP : MOST;
	int threads = f->attributes[0] ? f->attributes[0] : MOST;
	f->attributes[0] = threads < by_registers ? threads : by_registers;
	// dynamic shared memory without asking for more
	f->attributes[8] = SHARED - (f->attributes[1] < SHARED ? f->attributes[1] : SHARED);
}

fk_variable *fk_variable_add(
	struct CUmod_st *m, const char *name, size_t length, uint64_t bytes, uint64_t alignment) {
	if (!(m->variable_count & (m->variable_count - 1))) {
		fk_variable *all = realloc(
			m->variables, (m->variable_count ? 2 * m->variable_count : 1) * sizeof *all);
		if (!all)
			return NULL;
		m->variables = all;
	}
	if (alignment > 1)
		m->bytes = (m->bytes + alignment - 1) / alignment * alignment;
	fk_variable *v = &m->variables[m->variable_count];
	*v = (fk_variable){.name = copy_of(name, length), .offset = m->bytes, .bytes = bytes};
	if (!v->name)
		return NULL;
	m->bytes += bytes;
	m->variable_count++;
	return v;
}

static uint64_t code_of(const struct CUmod_st *m) { return (m->code + 511) / 512 * 512; }

// begin puts the variables' first content into a new block.
static void begin(const struct CUmod_st *m, CUdeviceptr variables) {
	for (uint32_t i = 0; i < m->variable_count; i++) {
		const fk_variable *v = &m->variables[i];
		if (v->content)
			fk_poke(variables + v->offset, v->content, v->bytes);
	}
}

static CUresult new_block(struct CUmod_st *m, CUcontext c, fk_placement *p) {
	uint64_t bytes = code_of(m) + m->bytes;
	fk_hold hold;
	FK_TRY(fk_hold_memory(c->device, bytes, &hold));
	CUdeviceptr at = fk_place(bytes, 512);
	fk_allocation *a = at ? fk_insert((fk_allocation){.address = at,
								.bytes = bytes,
								.hold = hold,
								.device = c->device,
								.context = c})
						  : NULL;
	if (!a) {
		fk_drop_memory(c->device, &hold);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->context = c, p->address = at, p->id = a->id;
	begin(m, at + code_of(m));
	return CUDA_SUCCESS;
}

static fk_allocation *block_of(const fk_placement *p) {
	fk_allocation *a = fk_find(p->address);
	return a && a->id == p->id ? a : NULL;
}

CUresult fk_module_place(struct CUmod_st *m, CUcontext c, CUdeviceptr *address) {
	*address = 0;
	if (!m->code && !m->bytes)
		return CUDA_SUCCESS;
	fk_placement *p = m->placements, *unused = NULL;
	for (; p; p = p->next) {
		bool there = block_of(p) != NULL;
		if (there && p->context == c)
			break;
		if (!there)
			unused = p;
	}
	if (!p) {
		p = unused ? unused : calloc(1, sizeof *p);
		CUresult r = p ? new_block(m, c, p) : CUDA_ERROR_OUT_OF_MEMORY;
		if (r && p != unused)
			free(p);
		FK_TRY(r);
		if (p != unused) {
			p->next = m->placements;
			m->placements = p;
		}
	}
	*address = p->address + code_of(m);
	return CUDA_SUCCESS;
}

void fk_module_drop(struct CUmod_st *m) {
	while (m->placements) {
		fk_placement *p = m->placements;
		m->placements = p->next;
		fk_allocation *a = block_of(p);
		if (a)
			fk_drop(a);
		free(p);
	}
	for (uint32_t i = 0; i < m->variable_count; i++) {
		fk_allocation *a = m->variables[i].address ? fk_find(m->variables[i].address) : NULL;
		if (a && a->origin == FK_MANAGED)
			fk_drop(a);
	}
}

void fk_module_free(struct CUmod_st *m) {
	for (uint32_t i = 0; i < m->count; i++) {
		m->functions[i].kind = 0;
		free(m->functions[i].name);
		free(m->functions[i].param);
	}
	for (uint32_t i = 0; i < m->variable_count; i++) {
		free(m->variables[i].name);
		free(m->variables[i].content);
	}
	free(m->functions);
	free(m->variables);
}

bool fk_lazy(CUdevice d) {
	const fk_device *device = &fk.queues[d].device;
	return FK_KNOB(device, lazy_us) || FK_KNOB(device, lazy_bytes) || FK_KNOB(device, lazy_sync);
}

CUresult fk_load_function(CUfunction f) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	c = fk_root(c);
	fk_queue *q = &fk.queues[c->device];
	CUdeviceptr at;
	fk_enter();
	CUresult r = f->module->context ? CUDA_SUCCESS : fk_module_place(f->module, c, &at);
	if (r || f->loaded)
		return fk_leave(r);
	uint64_t code = c->code + FK_KNOB(&q->device, lazy_bytes),
			 more = fk_rounded(c->device, code) - fk_rounded(c->device, c->code);
	r = more ? fk_context_take(c, more) : CUDA_SUCCESS;
	if (!r)
		f->loaded = true, c->code = code;
	fk_leave(0);
	if (!r && FK_KNOB(&q->device, lazy_sync))
		fk_wait_all(q);
	if (!r)
		fk_spend(1000 * FK_KNOB(&q->device, lazy_us));
	return r;
}
