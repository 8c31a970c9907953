// Fat binaries: several images of one program, of which the device runs one.
//
// A wrapper, which nvcc puts into the program, points to the fat binary. That is a header and
// entries, each a header and one image, which may be compressed: by LZ4 or Zstandard, as the flags
// say.
#include "image.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
	WRAPPER = 0x466243b1,
	FATBIN = 0xba55ed50,
	ELF = 0x464c457f,
	KIND_PTX = 1,
	KIND_ELF = 2,
	LZ4 = 0x2000,
	ZSTANDARD = 0x8000,
	LARGEST = 1 << 30, // an image that is said to be larger is damaged
};

typedef struct {
	uint32_t magic, version;
	const void *data, *more;
} wrapper;

typedef struct {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; // of all entries
} header;

typedef struct {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes; // to the next entry
	uint32_t compressed, options;
	uint16_t minor, major;
	uint32_t architecture, name, name_bytes;
	uint64_t flags, reserved, plain; // plain: bytes when decompressed
} entry;

// length reads the rest of a length whose first four bits are all set.
static bool length(const unsigned char **p, const unsigned char *end, size_t *n) {
	unsigned char c;
	do {
		if (*p == end)
			return false;
		c = *(*p)++;
		*n += c;
	} while (c == 255);
	return true;
}

// lz4 decompresses one block, after "LZ4 Block Format Description".
static bool lz4(const unsigned char *p, size_t bytes, unsigned char *out, size_t room) {
	const unsigned char *end = p + bytes;
	size_t at = 0;
	while (p < end) {
		unsigned char token = *p++;
		size_t literals = token >> 4, match = token & 15;
		if (literals == 15 && !length(&p, end, &literals))
			return false;
		if (literals > (size_t)(end - p) || literals > room - at)
			return false;
		memcpy(out + at, p, literals);
		at += literals, p += literals;
		if (p == end)
			break;
		if (end - p < 2)
			return false;
		size_t back = p[0] | (size_t)p[1] << 8;
		p += 2;
		if (match == 15 && !length(&p, end, &match))
			return false;
		match += 4;
		if (!back || back > at || match > room - at)
			return false;
		for (; match; match--, at++) // byte by byte: what is copied may be just being written
			out[at] = out[at - back];
	}
	return at == room;
}

// zstandard decompresses with the host's library, which every distribution's package manager needs.
static bool zstandard(const void *p, size_t bytes, void *out, size_t room) {
	size_t (*decompress)(void *, size_t, const void *, size_t);
	void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "ZSTD_decompress") : NULL;
	if (!symbol) {
		fk_missing("library", "libzstd.so.1", 0);
		return false;
	}
	memcpy(&decompress, &symbol, sizeof symbol);
	return decompress(out, room, p, bytes) == room;
}

static CUresult unpack(const entry *e, fk_image *out) {
	const unsigned char *payload = (const unsigned char *)e + e->header_bytes;
	*out = (fk_image){.data = payload, .bytes = e->bytes, .text = e->kind == KIND_PTX};
	if (!(e->flags & (LZ4 | ZSTANDARD)))
		return CUDA_SUCCESS;
	if (e->plain > LARGEST || e->compressed > e->bytes)
		return CUDA_ERROR_INVALID_IMAGE;
	unsigned char *plain = malloc(e->plain + 1);
	if (!plain)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bool ok = e->flags & LZ4 ? lz4(payload, e->compressed, plain, e->plain)
							 : zstandard(payload, e->compressed, plain, e->plain);
	if (!ok) {
		free(plain);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	plain[e->plain] = 0;
	out->data = out->owned = plain;
	out->bytes = e->plain;
	return CUDA_SUCCESS;
}

// value ranks an entry: a cubin runs on devices of its own major version from its own minor one on,
// and PTX on all from its version on ("Binary Compatibility" and "PTX Compatibility" in NVIDIA's
// programming guide). 0 is for one that cannot run.
static unsigned value(const entry *e) {
	bool fits = e->architecture <= FK_ARCHITECTURE;
	if (e->kind == KIND_ELF && fits && e->architecture / 10 == FK_ARCHITECTURE / 10)
		return 1000 + e->architecture;
	return e->kind == KIND_PTX && fits ? e->architecture : 0;
}

static CUresult choose(const header *h, fk_image *out) {
	const unsigned char *p = (const unsigned char *)h + h->header_bytes, *end = p + h->bytes;
	const entry *best = NULL;
	while ((size_t)(end - p) >= sizeof(entry)) {
		const entry *e = (const void *)p;
		if (e->header_bytes < sizeof *e || e->bytes > (size_t)(end - p) - e->header_bytes)
			return CUDA_ERROR_INVALID_IMAGE;
		if (value(e) > (best ? value(best) : 0))
			best = e;
		p += e->header_bytes + e->bytes;
	}
	return best ? unpack(best, out) : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// elf_bytes is where an ELF file ends: its section headers are last, or its program headers.
static size_t elf_bytes(const unsigned char *p) {
	uint64_t programs, sections;
	uint16_t sizes[4]; // of program headers and section headers: bytes of each, and how many
	memcpy(&programs, p + 32, 8);
	memcpy(&sections, p + 40, 8);
	memcpy(sizes, p + 54, 8);
	programs += (uint64_t)sizes[0] * sizes[1];
	sections += (uint64_t)sizes[2] * sizes[3];
	return programs > sections ? programs : sections;
}

CUresult fk_image_of(const void *image, fk_image *out) {
	*out = (fk_image){0};
	uint32_t magic;
	memcpy(&magic, image, sizeof magic);
	if (magic == WRAPPER) {
		image = ((const wrapper *)image)->data;
		memcpy(&magic, image, sizeof magic);
	}
	if (magic == FATBIN)
		return choose(image, out);
	if (magic == ELF) {
		*out = (fk_image){.data = image, .bytes = elf_bytes(image)};
		return CUDA_SUCCESS;
	}
	const char *text = image;
	if (strstr(text, ".version") && strstr(text, ".target"))
		*out = (fk_image){.data = image, .bytes = strlen(text), .text = true};
	return CUDA_SUCCESS;
}
