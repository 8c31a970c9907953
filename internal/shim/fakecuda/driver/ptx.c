// PTX: what "Parallel Thread Execution ISA" says of modules is enough to name kernels, their
// parameters and the variables. Bodies are skipped but for the shared memory that they declare.
#include "image.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	const char *at, *end;
	const char *word; // the token that was read last
	size_t length;
} scanner;

static bool part_of_word(char c) {
	return isalnum((unsigned char)c) || strchr("._$%", c);
}

static void skip_to(scanner *s, const char *mark) {
	size_t n = strlen(mark);
	while (s->at < s->end && ((size_t)(s->end - s->at) < n || memcmp(s->at, mark, n)))
		s->at++;
	s->at = (size_t)(s->end - s->at) >= n ? s->at + n : s->end;
}

// next reads a word or one character of punctuation. Comments and strings are passed over.
static bool next(scanner *s) {
	while (s->at < s->end) {
		if (isspace((unsigned char)*s->at))
			s->at++;
		else if (s->end - s->at > 1 && s->at[0] == '/' && s->at[1] == '/')
			skip_to(s, "\n");
		else if (s->end - s->at > 1 && s->at[0] == '/' && s->at[1] == '*')
			skip_to(s, "*/");
		else if (*s->at == '"')
			s->at++, skip_to(s, "\"");
		else
			break;
	}
	if (s->at == s->end || !*s->at)
		return false;
	s->word = s->at++;
	if (part_of_word(*s->word))
		while (s->at < s->end && *s->at && part_of_word(*s->at))
			s->at++;
	s->length = (size_t)(s->at - s->word);
	return true;
}

static bool is(const scanner *s, const char *text) {
	return s->length == strlen(text) && !memcmp(s->word, text, s->length);
}

static uint64_t number(const scanner *s) { return strtoull(s->word, NULL, 0); }

// type_bytes is the size of a fundamental type, 0 if the word is none.
static uint64_t type_bytes(const scanner *s) {
	if (s->length < 3 || s->word[0] != '.' || !strchr("bsuf", s->word[1]))
		return is(s, ".pred") ? 1 : 0;
	uint64_t bits = strtoull(s->word + 2, NULL, 10);
	return bits % 8 ? 0 : bits / 8;
}

typedef struct {
	const char *name;
	size_t length;
	uint64_t bytes, alignment;
} declared;

// declaration reads one up to a character of stop, which is then the last token.
static bool declaration(scanner *s, const char *stop, declared *d) {
	*d = (declared){.alignment = 1};
	uint64_t element = 0, count = 1;
	while (next(s) && !(s->length == 1 && strchr(stop, *s->word))) {
		if (is(s, ".align") && next(s))
			d->alignment = number(s);
		else if (type_bytes(s) && !d->name)
			element = type_bytes(s);
		else if (is(s, ".v2") || is(s, ".v4"))
			count *= number(&(scanner){.word = s->word + 2});
		else if (is(s, "[") && next(s))
			count *= is(s, "]") ? 0 : number(s);
		else if (is(s, "=")) // what the variable begins with is not kept
			while (next(s) && !is(s, ";"))
				;
		else if (!d->name && *s->word != '.' && part_of_word(*s->word))
			d->name = s->word, d->length = s->length;
		if (is(s, ";") && strchr(stop, ';'))
			break;
	}
	if (d->alignment < element)
		d->alignment = element;
	d->bytes = element * count;
	return d->name != NULL;
}

static bool parameters(scanner *s, struct CUfunc_st *f) {
	declared d;
	uint64_t offset = 0;
	while (!is(s, ")") && declaration(s, ",)", &d)) {
		fk_param *all = realloc(f->param, (f->params + 1) * sizeof *all);
		if (!all)
			return false;
		offset = (offset + d.alignment - 1) / d.alignment * d.alignment;
		all[f->params] = (fk_param){.offset = (uint32_t)offset, .bytes = (uint32_t)d.bytes};
		f->param = all, f->params++;
		offset += d.bytes;
	}
	return true;
}

// body skips a function's, whose opening brace has been read.
static void body(scanner *s, struct CUfunc_st *f) {
	declared d;
	for (int depth = 1; depth && next(s);) {
		depth += is(s, "{") - is(s, "}");
		if (f && is(s, ".shared") && declaration(s, ";", &d))
			f->attributes[1] += (int)d.bytes;
	}
}

static uint64_t product(scanner *s) {
	uint64_t all = 1;
	do {
		if (next(s))
			all *= number(s);
	} while (next(s) && is(s, ","));
	return all;
}

static CUresult entry(scanner *s, struct CUmod_st *m) {
	if (!next(s))
		return CUDA_ERROR_INVALID_PTX;
	struct CUfunc_st *f = fk_kernel(m, s->word, s->length);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (bool more = next(s); more && !is(s, "{") && !is(s, ";");) {
		if (is(s, "(") && !parameters(s, f))
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (is(s, ".maxntid") || is(s, ".reqntid"))
			f->attributes[0] = (int)product(s); // which reads one token ahead
		else
			more = next(s);
	}
	if (is(s, "{"))
		body(s, f);
	fk_limits(f);
	return CUDA_SUCCESS;
}

CUresult fk_ptx(struct CUmod_st *m, const fk_image *image) {
	const char *text = (const char *)image->data;
	scanner s = {.at = text, .end = text + image->bytes};
	while (next(&s)) {
		declared d;
		bool outside = false;
		if (is(&s, ".extern")) // a variable of another module, or shared memory of the launch
			outside = next(&s);
		if (is(&s, ".entry"))
			FK_TRY(entry(&s, m));
		else if (is(&s, "{"))
			body(&s, NULL);
		else if ((is(&s, ".global") || is(&s, ".const")) && declaration(&s, ";", &d) && !outside &&
			d.bytes && !fk_variable_add(m, d.name, d.length, d.bytes, d.alignment))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->code = image->bytes;
	return CUDA_SUCCESS;
}
