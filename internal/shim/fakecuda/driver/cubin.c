// Cubins: ELF files whose symbols name kernels and variables, with sections .nv.info beside them
// that hold the attributes of each kernel.
#include "image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { // in a symbol's other field
	ENTRY = 0x10, // a kernel, and no function that kernels call
	MANAGED = 0x04,
};

enum { // attributes in .nv.info
	MAX_THREADS = 0x05,
	REQUIRED_THREADS = 0x10,
	FRAME_SIZE = 0x11,
	PARAMETER = 0x17,
	CLUSTER = 0x3d,
	REGISTERS = 0x2f,
};

enum { RESERVED_SHARED = 1024 }; // of each block, from compute capability 9.0 on

typedef struct {
	const unsigned char *data;
	size_t bytes;
	const Elf64_Shdr *sections;
	size_t count;
	const char *section_names, *names;
	size_t section_names_bytes, names_bytes;
	const Elf64_Sym *symbols;
	size_t symbol_count;
	uint64_t constants; // bytes of __constant__ variables
} cubin;

static bool within(const cubin *c, uint64_t offset, uint64_t bytes) {
	return offset <= c->bytes && bytes <= c->bytes - offset;
}

// text finds a NUL-terminated string within a table; "" if there is none.
static const char *text(const char *table, size_t bytes, uint64_t at) {
	return table && at < bytes && memchr(table + at, 0, bytes - at) ? table + at : "";
}

static const char *section_name(const cubin *c, const Elf64_Shdr *s) {
	return text(c->section_names, c->section_names_bytes, s->sh_name);
}

static const Elf64_Shdr *section_of(const cubin *c, const char *prefix, const char *kernel) {
	size_t n = strlen(prefix);
	for (size_t i = 0; i < c->count; i++) {
		const char *name = section_name(c, &c->sections[i]);
		if (!strncmp(name, prefix, n) && !strcmp(name + n, kernel))
			return &c->sections[i];
	}
	return NULL;
}

static bool open_elf(cubin *c) {
	const Elf64_Ehdr *h = (const void *)c->data;
	if (c->bytes < sizeof *h || h->e_ident[EI_CLASS] != ELFCLASS64 ||
		h->e_shentsize != sizeof *c->sections || h->e_shstrndx >= h->e_shnum ||
		!within(c, h->e_shoff, (uint64_t)h->e_shnum * sizeof *c->sections))
		return false;
	c->sections = (const void *)(c->data + h->e_shoff), c->count = h->e_shnum;
	for (size_t i = 0; i < c->count; i++) {
		const Elf64_Shdr *s = &c->sections[i];
		if (s->sh_type != SHT_NOBITS && !within(c, s->sh_offset, s->sh_size))
			return false;
	}
	const Elf64_Shdr *names = &c->sections[h->e_shstrndx];
	c->section_names = (const char *)c->data + names->sh_offset;
	c->section_names_bytes = names->sh_size;
	for (size_t i = 0; i < c->count; i++) {
		const Elf64_Shdr *s = &c->sections[i];
		if (s->sh_type == SHT_SYMTAB && s->sh_link < c->count) {
			c->symbols = (const void *)(c->data + s->sh_offset);
			c->symbol_count = s->sh_size / sizeof *c->symbols;
			c->names = (const char *)c->data + c->sections[s->sh_link].sh_offset;
			c->names_bytes = c->sections[s->sh_link].sh_size;
		} else if (!strcmp(section_name(c, s), ".nv.constant3"))
			c->constants = s->sh_size;
	}
	return c->symbols != NULL;
}

static bool parameter(struct CUfunc_st *f, const uint32_t *v) {
	uint32_t ordinal = v[1] & 0xffff;
	if (ordinal >= f->params) {
		fk_param *all = realloc(f->param, (ordinal + 1) * sizeof *all);
		if (!all)
			return false;
		memset(all + f->params, 0, (ordinal + 1 - f->params) * sizeof *all);
		f->param = all, f->params = ordinal + 1;
	}
	f->param[ordinal] = (fk_param){.offset = v[1] >> 16, .bytes = v[2] >> 18};
	return true;
}

// attribute takes one of the kernel's own attributes, whose value has n words.
static bool attribute(struct CUfunc_st *f, unsigned kind, const uint32_t *v, size_t n) {
	if ((kind == MAX_THREADS || kind == REQUIRED_THREADS) && n >= 3)
		f->attributes[0] = (int)(v[0] * v[1] * v[2]);
	if (kind == CLUSTER && n >= 3)
		for (int i = 0; i < 3; i++)
			f->attributes[11 + i] = (int)v[i];
	return kind != PARAMETER || n < 3 || parameter(f, v);
}

// each_attribute reads a section: a byte that says how the value is stored, one for the attribute,
// two that are the value or its size, and then the value. The words after it are a symbol and a
// number where the section is that of the whole cubin.
static bool each_attribute(
	const cubin *c, const Elf64_Shdr *s, bool (*take)(struct CUfunc_st *, unsigned,
	const uint32_t *, size_t), struct CUfunc_st *f) {
	const unsigned char *p = c->data + s->sh_offset, *end = p + s->sh_size;
	while (end - p >= 4) {
		unsigned format = p[0], kind = p[1];
		size_t size = format == 4 ? p[2] | (size_t)p[3] << 8 : 0;
		p += 4;
		if (size > (size_t)(end - p))
			return true;
		uint32_t words[16];
		size_t n = size / 4 < 16 ? size / 4 : 16;
		memcpy(words, p, n * 4);
		if (format == 4 && !take(f, kind, words, n))
			return false;
		p += size;
	}
	return true;
}

// numbered is what of_cubin looks for: the number that an attribute of the cubin gives a symbol.
typedef struct {
	struct CUfunc_st base;
	uint32_t symbol;
} numbered;

static bool of_cubin(struct CUfunc_st *f, unsigned kind, const uint32_t *v, size_t n) {
	if (n < 2 || v[0] != ((numbered *)(void *)f)->symbol)
		return true;
	if (kind == REGISTERS)
		f->attributes[4] = (int)v[1];
	if (kind == FRAME_SIZE)
		f->attributes[3] = (int)v[1];
	return true;
}

static CUresult kernel(const cubin *c, struct CUmod_st *m, uint32_t symbol) {
	const char *name = text(c->names, c->names_bytes, c->symbols[symbol].st_name);
	struct CUfunc_st *f = fk_kernel(m, name, strlen(name));
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	numbered all = {.symbol = symbol};
	const Elf64_Shdr *s = section_of(c, ".nv.info", "");
	if (s)
		each_attribute(c, s, of_cubin, &all.base);
	f->attributes[3] = all.base.attributes[3];
	f->attributes[4] = all.base.attributes[4];
	s = section_of(c, ".nv.shared.", name);
	if (s)
		f->attributes[1] = (int)(s->sh_size > RESERVED_SHARED ? s->sh_size - RESERVED_SHARED : 0);
	f->attributes[2] = (int)c->constants;
	s = section_of(c, ".nv.info.", name);
	if (s && !each_attribute(c, s, attribute, f))
		return CUDA_ERROR_OUT_OF_MEMORY;
	fk_limits(f);
	return CUDA_SUCCESS;
}

static CUresult variable(const cubin *c, struct CUmod_st *m, const Elf64_Sym *symbol) {
	const Elf64_Shdr *s = &c->sections[symbol->st_shndx];
	const char *name = text(c->names, c->names_bytes, symbol->st_name);
	if (!symbol->st_size || *name == '$')
		return CUDA_SUCCESS;
	fk_variable *v = fk_variable_add(m, name, strlen(name), symbol->st_size, s->sh_addralign);
	if (!v)
		return CUDA_ERROR_OUT_OF_MEMORY;
	v->managed = symbol->st_other & MANAGED;
	if (s->sh_type == SHT_NOBITS || symbol->st_value > s->sh_size ||
		symbol->st_size > s->sh_size - symbol->st_value)
		return CUDA_SUCCESS;
	v->content = malloc(symbol->st_size);
	if (!v->content)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(v->content, c->data + s->sh_offset + symbol->st_value, symbol->st_size);
	return CUDA_SUCCESS;
}

static bool is_variable(const cubin *c, const Elf64_Sym *s) {
	if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT || !s->st_shndx || s->st_shndx >= c->count)
		return false;
	const char *section = section_name(c, &c->sections[s->st_shndx]);
	return !strncmp(section, ".nv.global", 10) || !strcmp(section, ".nv.constant3");
}

CUresult fk_cubin(struct CUmod_st *m, const fk_image *image) {
	cubin c = {.data = image->data, .bytes = image->bytes};
	if (!open_elf(&c))
		return CUDA_ERROR_INVALID_IMAGE;
	for (size_t i = 0; i < c.count; i++)
		if (c.sections[i].sh_flags & SHF_EXECINSTR)
			m->code += c.sections[i].sh_size;
	for (uint32_t i = 0; i < c.symbol_count; i++) {
		const Elf64_Sym *s = &c.symbols[i];
		if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_other & ENTRY)
			FK_TRY(kernel(&c, m, i));
		else if (is_variable(&c, s))
			FK_TRY(variable(&c, m, s));
	}
	return CUDA_SUCCESS;
}
