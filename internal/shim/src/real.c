/*
 * Finding the driver's own functions.
 *
 * As a preloaded library weir finds libcuda.so.1 where the program would. As a stand-in, found
 * under that very name on the library path, it looks for the driver in WEIR_REAL_LIBCUDA, in the
 * folders of LD_LIBRARY_PATH and in the usual ones, leaving itself out.
 */
#include "weir.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *weir_reals[WEIR_CALLS];

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static void *driver;             /* handle of the real library */
static const void *driver_base;  /* where it is mapped */
static bool tried;
static unsigned char absent[WEIR_CALLS]; /* the driver was asked and has it not */

static const void *base_of(const void *p)
{
	Dl_info info;
	return p && dladdr(p, &info) ? info.dli_fbase : NULL;
}

bool weir_own_address(const void *p)
{
	static const void *own;
	if (!own)
		own = base_of((const void *)&weir_own_address);
	return base_of(p) == own;
}

/* weir_driver_address tells whether p lies in a library that is, or is named like, the driver's. */
bool weir_driver_address(const void *p)
{
	Dl_info info;
	if (!dladdr(p, &info) || !info.dli_fname)
		return false;
	if (info.dli_fbase == __atomic_load_n(&driver_base, __ATOMIC_ACQUIRE))
		return true;
	const char *slash = strrchr(info.dli_fname, '/');
	return strncmp(slash ? slash + 1 : info.dli_fname, "libcuda.so", 10) == 0;
}

static bool usable(void *handle)
{
	void *init = handle ? weir_dlsym_real(handle, "cuInit") : NULL;
	return init && !weir_own_address(init);
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void *open_at(const char *path)
{
	Dl_info self;
	if (dladdr((const void *)&open_at, &self) && self.dli_fname && same_file(path, self.dli_fname))
		return NULL;
	void *h = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (usable(h))
		return h;
	if (h)
		dlclose(h);
	return NULL;
}

static void *open_in(const char *dirs)
{
	char path[PATH_MAX];
	while (dirs && *dirs) {
		size_t n = strcspn(dirs, ":");
		if (n && n < sizeof path - 16) {
			snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)n, dirs);
			void *h = open_at(path);
			if (h)
				return h;
		}
		dirs += n + (dirs[n] == ':');
	}
	return NULL;
}

struct loaded {
	char path[PATH_MAX];
};

static int find_loaded(struct dl_phdr_info *info, size_t size, void *to)
{
	(void)size;
	const char *name = info->dlpi_name ? info->dlpi_name : "";
	const char *slash = strrchr(name, '/');
	if (strncmp(slash ? slash + 1 : name, "libcuda.so", 10) != 0)
		return 0;
	Dl_info self;
	if (dladdr((const void *)&find_loaded, &self) && self.dli_fname &&
		same_file(name, self.dli_fname))
		return 0;
	snprintf(((struct loaded *)to)->path, PATH_MAX, "%s", name);
	return 1;
}

static void *open_driver(void)
{
	const char *given = getenv("WEIR_REAL_LIBCUDA");
	if (given && *given)
		return open_at(given);
	struct loaded found;
	if (dl_iterate_phdr(find_loaded, &found)) {
		void *h = open_at(found.path);
		if (h)
			return h;
	}
	void *h = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (usable(h))
		return h;
	if (h)
		dlclose(h);
	h = open_in(getenv("LD_LIBRARY_PATH"));
	static const char usual[] = "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:"
		"/usr/lib:/lib64:/usr/lib/wsl/lib:/usr/local/nvidia/lib64:/usr/local/cuda/compat:"
		"/run/opengl-driver/lib";
	return h ? h : open_in(usual);
}

static void *driver_handle(void)
{
	void *h = __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
	if (h)
		return h;
	pthread_mutex_lock(&open_lock);
	if (!driver && !tried) {
		h = open_driver();
		tried = h != NULL; /* a program may come upon the driver later, by its own dlopen */
		if (h)
			__atomic_store_n(&driver_base, base_of(weir_dlsym_real(h, "cuInit")), __ATOMIC_RELEASE);
		__atomic_store_n(&driver, h, __ATOMIC_RELEASE);
	}
	h = driver;
	pthread_mutex_unlock(&open_lock);
	return h;
}

void weir_driver_reset(void)
{
	pthread_mutex_init(&open_lock, NULL);
}

/* weir_learn notes the function that the driver itself has handed out. */
void weir_learn(int call, void *real)
{
	void *none = NULL;
	if (real && !weir_own_address(real))
		__atomic_compare_exchange_n(
			&weir_reals[call], &none, real, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void *weir_resolve(enum weir_call call)
{
	extern const char *weir_symbol(int call);
	if (__atomic_load_n(&absent[call], __ATOMIC_RELAXED))
		return NULL;
	void *h = driver_handle();
	if (!h)
		return NULL;
	void *p = weir_dlsym_real(h, weir_symbol(call));
	if (p)
		weir_learn(call, p);
	else
		__atomic_store_n(&absent[call], 1, __ATOMIC_RELAXED);
	return __atomic_load_n(&weir_reals[call], __ATOMIC_ACQUIRE);
}

CUresult weir_missing(void)
{
	struct weir_slot *slot = weir_slot();
	if (slot)
		__atomic_fetch_or(&slot->error_flags,
			driver ? WEIR_ERROR_SYMBOL_MISSING : WEIR_ERROR_DRIVER_MISSING, __ATOMIC_RELAXED);
	return driver ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_NO_DEVICE;
}
