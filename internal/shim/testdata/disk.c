// disk is a folder for what is spilled on a file system that can less, or is full. DISK says which:
// full has no room to take; old has no files without a name and takes no room beforehand; with
// DISK_HOLDS it holds so many bytes of a file, and with DISK_LOSES it fails when they are to be
// there. With DISK_STOPS it never comes to the end of a write from so many bytes on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is(const char *what) {
	const char *disk = getenv("DISK");
	return disk && strcmp(disk, what) == 0;
}

static int gives(int error) {
	errno = error;
	return -1;
}

int open(const char *name, int flags, ...) {
	int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	va_list more;
	va_start(more, flags);
	mode_t mode = va_arg(more, mode_t);
	va_end(more);
	if ((flags & O_TMPFILE) == O_TMPFILE && is("old"))
		return gives(EOPNOTSUPP);
	return real(name, flags, mode);
}

int fallocate(int file, int mode, off_t at, off_t bytes) {
	int (*real)(int, int, off_t, off_t) =
		(int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate");
	if (is("full"))
		return gives(ENOSPC);
	return is("old") ? gives(EOPNOTSUPP) : real(file, mode, at, bytes);
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t at) {
	ssize_t (*real)(int, const void *, size_t, off_t) =
		(ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
	const char *holds = getenv("DISK_HOLDS"), *stops = getenv("DISK_STOPS");
	while (stops && at >= (off_t)strtoll(stops, NULL, 10))
		pause();
	if (is("full"))
		abort(); // without its room nothing is written
	if (holds) {
		off_t most = (off_t)strtoll(holds, NULL, 10);
		if (at >= most)
			return gives(ENOSPC);
		if ((off_t)bytes > most - at)
			bytes = (size_t)(most - at);
	}
	return real(file, from, bytes, at);
}

int fdatasync(int file) {
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	return getenv("DISK_LOSES") ? gives(EIO) : real(file);
}
