// anew checks by value memory that was another's before, in whole and in parts, memory that is seen
// from two sides, and addresses that are no memory.
//
// usage: anew
// The last line is JSON: checks, the number that held. A check that fails ends the program.
#include "../example/load.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, GRANULE = 2 << 20, BYTES = 4 * GRANULE };

static int checks;
static CUfunction fill;

static void hold(bool holds, const char *what, int line) {
	if (!holds) {
		fprintf(stderr, "anew.c:%d: %s\n", line, what);
		_exit(1);
	}
	checks++;
}

#define HOLD(condition) hold(condition, #condition, __LINE__)

static uint32_t word(CUdeviceptr p) {
	uint32_t w;
	CHECK(CU(cuMemcpyDtoH_v2)(&w, p, 4));
	return w;
}

static void put(CUdeviceptr p, uint32_t w) { CHECK(CU(cuMemcpyHtoD_v2)(p, &w, 4)); }

// A mapped is memory by a handle that no other process can have.
typedef struct {
	CUdeviceptr at;
	size_t bytes;
	CUmemGenericAllocationHandle handle;
} mapped;

static mapped map(size_t bytes) {
	CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = 3};
	mapped m = {.bytes = bytes};
	CHECK(CU(cuMemCreate)(&m.handle, bytes, &props, 0));
	CHECK(CU(cuMemAddressReserve)(&m.at, bytes, 0, 0, 0));
	CHECK(CU(cuMemMap)(m.at, bytes, 0, m.handle, 0));
	CHECK(CU(cuMemSetAccess)(m.at, bytes, &access, 1));
	return m;
}

static void unmap(mapped m) {
	CHECK(CU(cuMemUnmap)(m.at, m.bytes));
	CHECK(CU(cuMemRelease)(m.handle));
	CHECK(CU(cuMemAddressFree)(m.at, m.bytes));
}

// dirty leaves memory full of a value for who is next.
static void dirty(uint32_t value, size_t bytes) {
	mapped m = map(bytes);
	CHECK(CU(cuMemsetD32_v2)(m.at, value, bytes / 4));
	HOLD(word(m.at + bytes - 4) == value);
	unmap(m);
}

// Whatever is done first with memory that was another's, nothing of the other's is in it.
static void another_s(void) {
	enum { READ, WRITE, KERNEL, PART, ZERO, WHOLE, LESS, WAYS };
	static uint32_t all[BYTES / 4];
	for (int how = 0; how < WAYS; how++) {
		dirty(0x5a5a5a5a, BYTES);
		mapped m = map(how == LESS ? BYTES / 2 : BYTES);
		uint32_t one = 1, two = 2, expected = 0;
		CUdeviceptr middle = m.at + 8192;
		memset(all, 0x11, sizeof all);
		if (how == WRITE)
			put(middle, 7);
		if (how == KERNEL)
			CHECK(CU(cuLaunchKernel)(fill, 1, 1, 1, 32, 1, 1, 0, NULL,
				(void *[]){&middle, &two, &one}, NULL));
		if (how == PART)
			CHECK(CU(cuMemcpyHtoD_v2)(m.at, all, m.bytes - 4));
		if (how == ZERO)
			CHECK(CU(cuMemsetD8_v2)(m.at + 100, 0, m.bytes - 200));
		if (how == WHOLE)
			CHECK(CU(cuMemcpyHtoD_v2)(m.at, all, m.bytes));
		if (how == PART || how == WHOLE)
			expected = 0x11111111;
		HOLD(word(m.at) == expected && word(m.at + m.bytes - 8) == expected);
		HOLD(word(m.at + m.bytes - 4) == (how == WHOLE ? expected : 0));
		HOLD(word(middle) == (how == WRITE ? 7 : how == KERNEL ? 2 : expected));
		HOLD(word(middle + 4) == expected && word(m.at + m.bytes / 2) == expected);
		unmap(m);
	}
}

static bool all(mapped m, uint32_t value) {
	static uint32_t got[GRANULE / 2];
	CHECK(CU(cuMemcpyDtoH_v2)(got, m.at, m.bytes));
	for (size_t i = 0; i < m.bytes / 4; i++)
		if (got[i] != value)
			return false;
	return true;
}

// Two at a time have not the same, also where one is larger than what was given up, in whichever
// order that was.
static void two(bool turned) {
	mapped m = map(GRANULE), n = map(GRANULE);
	CHECK(CU(cuMemsetD32_v2)(m.at, 1, GRANULE / 4));
	CHECK(CU(cuMemsetD32_v2)(n.at, 2, GRANULE / 4));
	HOLD(all(m, 1) && all(n, 2));
	unmap(turned ? n : m);
	unmap(turned ? m : n);
	m = map(2 * GRANULE), n = map(GRANULE);
	CHECK(CU(cuMemsetD32_v2)(m.at, 3, m.bytes / 4));
	CHECK(CU(cuMemsetD32_v2)(n.at, 4, n.bytes / 4));
	HOLD(all(m, 3) && all(n, 4));
	unmap(m);
	unmap(n);
}

// What is set to zero is that and nothing else, whole pages or not.
static void zeroed(void) {
	const size_t from[] = {0, 4096, MIB + 100, 2 * MIB},
				 n[] = {MIB, 2 * MIB + 100, 2 * MIB, MIB + 9};
	mapped m = map(BYTES);
	for (int i = 0; i < 4; i++) {
		unsigned char edge[2];
		CHECK(CU(cuMemsetD8_v2)(m.at, 0x5a, m.bytes));
		CHECK(CU(cuMemsetD8_v2)(m.at + from[i], 0, n[i]));
		HOLD(!i || word(m.at + from[i] - 4) == 0x5a5a5a5a);
		HOLD(word(m.at + from[i]) == 0 && word(m.at + from[i] + n[i] / 2) == 0);
		CHECK(CU(cuMemcpyDtoH_v2)(edge, m.at + from[i] + n[i] - 1, 2));
		HOLD(edge[0] == 0 && edge[1] == 0x5a && word(m.at + m.bytes - 4) == 0x5a5a5a5a);
	}
	unmap(m);
}

// A word that a stream writes is in memory that nothing else has touched.
static void written(void) {
	CUdeviceptr p;
	CUstream s;
	CHECK(CU(cuMemAlloc_v2)(&p, 64));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamWriteValue32_v2)(s, p + 8, 77, 0));
	CHECK(CU(cuStreamSynchronize)(s));
	HOLD(word(p + 8) == 77 && word(p) == 0);
	HOLD(CU(cuStreamWaitValue32_v2)(s, p + 64, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuMemAlloc_v2)(&p, 2)); // too little for a word
	HOLD(CU(cuStreamWaitValue32_v2)(s, p, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// A variable has from the beginning what its image says.
static void image(void) {
	enum { OF_CUDA = 190 }; // EM_CUDA
	static const uint32_t values[] = {4711, 4712};
	static const char names[] = "\0.nv.global.init\0known";
	struct {
		Elf64_Ehdr head;
		Elf64_Sym symbol[2];
		char names[24];
		uint32_t values[2];
		Elf64_Shdr part[4]; // with which a file ends
	} elf = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
				 .e_type = ET_EXEC,
				 .e_machine = OF_CUDA,
				 .e_version = EV_CURRENT,
				 .e_shoff = offsetof(__typeof__(elf), part),
				 .e_flags = 80,
				 .e_ehsize = sizeof(Elf64_Ehdr),
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = 4,
				 .e_shstrndx = 1},
		.part = {{0},
			{.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(__typeof__(elf), names),
				.sh_size = sizeof names},
			{.sh_type = SHT_SYMTAB,
				.sh_offset = offsetof(__typeof__(elf), symbol),
				.sh_size = sizeof elf.symbol,
				.sh_link = 1,
				.sh_entsize = sizeof(Elf64_Sym)},
			{.sh_name = 1,
				.sh_type = SHT_PROGBITS,
				.sh_offset = offsetof(__typeof__(elf), values),
				.sh_size = sizeof values,
				.sh_addralign = 4}},
		.symbol = {{0},
			{.st_name = 17,
				.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				.st_shndx = 3,
				.st_size = sizeof values}}};
	CUmodule m;
	CUdeviceptr p;
	size_t bytes;
	memcpy(elf.names, names, sizeof names);
	memcpy(elf.values, values, sizeof values);
	CHECK(CU(cuModuleLoadData)(&m, &elf));
	CHECK(CU(cuModuleGetGlobal_v2)(&p, &bytes, m, "known"));
	HOLD(bytes == sizeof values && word(p) == values[0] && word(p + 4) == values[1]);
	CHECK(CU(cuModuleUnload)(m));
}

// Two views of one memory, from where each begins.
static void viewed(void) {
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC of = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.handle = {.fd = 0},
		.size = MIB};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = {.size = MIB}, end = {.offset = 4096, .size = 4096};
	CUexternalMemory m;
	CUdeviceptr p, q;
	CUstream s;
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuImportExternalMemory)(&m, &of));
	CHECK(CU(cuExternalMemoryGetMappedBuffer)(&p, m, &whole));
	CHECK(CU(cuExternalMemoryGetMappedBuffer)(&q, m, &end));
	put(q, 9);
	HOLD(word(p + 4096) == 9 && word(p) == 0);
	put(p + 4100, 10);
	put(p + 4, 11);
	HOLD(word(q + 4) == 10);
	CHECK(CU(cuStreamWaitValue32_v2)(s, q + 4, 10, 1)); // EQ
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuMemFree_v2)(q));
	CHECK(CU(cuDestroyExternalMemory)(m));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// Planes are read of pageable memory when the call is made, each from its place.
static void planes(void) {
	enum { W = 16, H = 3, D = 4, WIDE = 24, HIGH = 5 };
	unsigned char in[D][HIGH][WIDE], out[D][H][W];
	CUdeviceptr p;
	CUstream s;
	for (int i = 0; i < D * HIGH * WIDE; i++)
		((unsigned char *)in)[i] = (unsigned char)(i * 7);
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuMemAlloc_v2)(&p, sizeof out));
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.srcPitch = WIDE,
		.srcHeight = HIGH,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = p,
		.dstPitch = W,
		.dstHeight = H,
		.WidthInBytes = W,
		.Height = H,
		.Depth = D};
	CHECK(CU(cuMemcpy3DAsync_v2)(&c, s));
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuMemcpyDtoH_v2)(out, p, sizeof out));
	for (int z = 0; z < D; z++)
		for (int y = 0; y < H; y++)
			HOLD(!memcmp(out[z][y], in[z][y], W));
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// An address of the device's that no memory has is an error, also in the place of the host's.
static void nowhere(void) {
	CUdeviceptr p, q;
	CHECK(CU(cuMemAlloc_v2)(&p, 4096));
	CHECK(CU(cuMemAlloc_v2)(&q, 4096));
	CHECK(CU(cuMemFree_v2)(q));
	HOLD(CU(cuMemcpyHtoD_v2)(p, (void *)(uintptr_t)q, 4) == CUDA_ERROR_INVALID_VALUE);
	HOLD(CU(cuMemcpyDtoH_v2)((void *)(uintptr_t)q, p, 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(CU(cuMemFree_v2)(p));
}

static void begin(void) {
	CUcontext c;
	CUmodule m;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&c, 0));
	CHECK(CU(cuCtxSetCurrent)(c));
	CHECK(CU(cuModuleLoadData)(&m, "kernel fill us=20 does=fill\n"));
	CHECK(CU(cuModuleGetFunction)(&fill, m, "fill"));
}

// What another process writes is there for one that has touched nothing of it itself.
static void by_others(void) {
	CUipcMemHandle h;
	CUdeviceptr p, q;
	int to[2], from[2];
	char over;
	HOLD(!pipe(to) && !pipe(from));
	pid_t pid = fork();
	if (!pid) {
		alarm(60);
		close(to[1]);
		begin();
		HOLD(read(to[0], &h, sizeof h) == (ssize_t)sizeof h);
		CHECK(CU(cuIpcOpenMemHandle_v2)(&q, h, 1));
		put(q + 4096, 8);
		HOLD(write(from[1], "", 1) == 1);
		HOLD(read(to[0], &over, 1) == 1);
		HOLD(word(q) == 12);
		_exit(0);
	}
	close(from[1]);
	begin();
	CHECK(CU(cuMemAlloc_v2)(&p, MIB));
	CHECK(CU(cuIpcGetMemHandle)(&h, p));
	HOLD(write(to[1], &h, sizeof h) == (ssize_t)sizeof h);
	HOLD(read(from[0], &over, 1) == 1);
	HOLD(word(p + 4096) == 8);
	put(p, 12);
	HOLD(write(to[1], "", 1) == 1);
	int status;
	HOLD(waitpid(pid, &status, 0) == pid && !status);
	CHECK(CU(cuMemFree_v2)(p));
}

int main(void) {
	alarm(60); // what waits for ever has failed
	by_others(); // before the driver is there, which no child can use
	two(false);
	two(true);
	another_s();
	image();
	zeroed();
	written();
	viewed();
	planes();
	nowhere();
	printf("{\"checks\":%d}\n", checks);
	return 0;
}
