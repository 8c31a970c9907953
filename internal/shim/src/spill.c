/*
 * The folder for what the host's memory has no room for (weir exec --spill): movable memory that is
 * written to a file and read back.
 *
 * The file has no name, so that nobody opens it by one, none is left when the process ends in
 * whatever way, and a folder that several processes use needs no order. Its room is taken before a
 * byte of the device's is copied, so that a full disk is told while nothing has changed. What is
 * read back is held against a checksum that stays in the process: other bytes are an error, and the
 * memory stays away, with the file, for another try.
 *
 * All of it is of the mover's thread, but weir_spill_free, which the end of an allocation calls,
 * too.
 */
#include "weir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (UINT64_C(4) << 20) /* what is copied at a time, through pageable memory */

static char *folder; /* NULL: none was named */
static int file = -1;
static struct stat as; /* what the file was when it was opened */
static uint64_t end;  /* of what is used of the file */
static uint64_t used; /* by pieces */

/* weir_spill_begin takes the folder that weir exec names. */
void weir_spill_begin(void)
{
	const char *name = getenv("WEIR_SPILL");
	if (name && *name == '/' && !folder)
		folder = strdup(name);
}

/* ours reports whether the descriptor is still the file's. A program may close what it did not open
 * (closefrom(3)), and its own file has the number then, which is not to be written or cut off. */
static bool ours(void)
{
	struct stat now;
	if (file < 0)
		return false;
	if (fstat(file, &now) == 0 && now.st_dev == as.st_dev && now.st_ino == as.st_ino)
		return true;
	file = -1;
	return false;
}

/* weir_spill_reset is for a forked process, whose parent goes on using the file. */
void weir_spill_reset(void)
{
	if (ours())
		close(file);
	file = -1;
	end = used = 0;
}

bool weir_spills(void)
{
	return folder != NULL;
}

/* anonymous opens a file that has no name, or none any more; -1, and errno. */
static int anonymous(void)
{
	char name[4096];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	/* file systems without files that have no name (open(2), O_TMPFILE) */
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	if ((size_t)snprintf(name, sizeof name, "%s/weir-spill-XXXXXX", folder) >= sizeof name) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0 && unlink(name) != 0) {
		int why = errno;
		close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

/* open_file opens the file; 0 or what errno says. With pieces in one that the program has closed
 * there is to be no other: who reads them back would take its bytes for theirs. */
static int open_file(void)
{
	if (ours())
		return 0;
	if (weir_get(&used))
		return EBADF;
	end = 0;
	int fd = anonymous();
	if (fd < 0)
		return errno;
	if (fstat(fd, &as) != 0) {
		int why = errno;
		close(fd);
		return why;
	}
	file = fd;
	return 0;
}

/* fletcher adds to a checksum: fletcher4 of ZFS (zfs_fletcher.c), in native byte order. */
static void fletcher(uint64_t sums[4], const uint32_t *words, uint64_t bytes)
{
	uint64_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
	for (uint64_t i = 0; i < bytes / sizeof *words; i++) {
		a += words[i];
		b += a;
		c += b;
		d += c;
	}
	sums[0] = a;
	sums[1] = b;
	sums[2] = c;
	sums[3] = d;
}

static int write_all(const char *from, uint64_t bytes, uint64_t at)
{
	while (bytes) {
		ssize_t n = pwrite(file, from, bytes, (off_t)at);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			return EIO;
		if (n > 0) {
			from += n;
			at += (uint64_t)n;
			bytes -= (uint64_t)n;
		}
	}
	return 0;
}

/* read_all; a file that ends too soon is EIO. */
static int read_all(char *into, uint64_t bytes, uint64_t at)
{
	while (bytes) {
		ssize_t n = pread(file, into, bytes, (off_t)at);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			return EIO;
		if (n > 0) {
			into += n;
			at += (uint64_t)n;
			bytes -= (uint64_t)n;
		}
	}
	return 0;
}

/* take_room has the file hold so many bytes more; *later: it cannot be had before they are written,
 * and a file system over a network may tell no sooner than when they are to be there. */
static int take_room(uint64_t bytes, bool *later)
{
	int r = open_file();
	if (r)
		return r;
	while (fallocate(file, 0, (off_t)end, (off_t)bytes) != 0) {
		if (errno == EOPNOTSUPP || errno == ENOSYS) {
			*later = true;
			break;
		}
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

static int sync_file(void)
{
	while (fdatasync(file) != 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

/* block copies one block out or in, through the buffer; CUDA_SUCCESS, or what the driver says. */
static CUresult block(bool out, CUdeviceptr at, void *buffer, uint64_t n, CUstream s)
{
	CUresult r = out ? WEIR_DRIVER(cuMemcpyDtoHAsync_v2)(buffer, at, n, s)
					 : WEIR_DRIVER(cuMemcpyHtoDAsync_v2)(at, buffer, n, s);
	return r == CUDA_SUCCESS ? WEIR_DRIVER(cuStreamSynchronize)(s) : r;
}

/* through copies a piece by blocks between the device and its place in the file, and sums it. */
static int through(bool out, const struct weir_spilled *p, uint64_t sums[4], CUdeviceptr at,
	uint64_t bytes, CUstream s, CUresult *driver)
{
	char *buffer = malloc(bytes < BLOCK ? bytes : BLOCK);
	int r = buffer ? 0 : ENOMEM;
	for (uint64_t i = 0; i < bytes && !r && *driver == CUDA_SUCCESS; i += BLOCK) {
		if (weir_get(&weir.stopping)) /* exit waits for calls of weir's own, but not for a disk */
			r = ECANCELED;
		else if (!ours())
			r = EBADF;
		if (r)
			break;
		uint64_t n = bytes - i < BLOCK ? bytes - i : BLOCK;
		if (out)
			*driver = block(true, at + i, buffer, n, s);
		else
			r = read_all(buffer, n, p->at + i);
		if (r || *driver != CUDA_SUCCESS)
			break;
		fletcher(sums, (const uint32_t *)(void *)buffer, n);
		if (out)
			r = write_all(buffer, n, p->at + i);
		else
			*driver = block(false, at + i, buffer, n, s);
	}
	free(buffer);
	return r;
}

/* weir_spill_adopt says in a slot what holds of the process. */
void weir_spill_adopt(struct weir_slot *slot)
{
	weir_set(&slot->spilled_bytes, weir_get(&used));
}

static void count(uint64_t more)
{
	weir_set(&weir_slot()->spilled_bytes, weir_add(&used, more));
}

/* weir_spill_out writes memory of the device, which nothing uses, to the file. It returns 0, with
 * what the driver says, or an errno: then the memory is not in the file. */
int weir_spill_out(
	struct weir_spilled *p, CUdeviceptr at, uint64_t bytes, CUstream s, CUresult *driver)
{
	bool later = false;
	*driver = CUDA_SUCCESS;
	int r = take_room(bytes, &later);
	if (r)
		return r;
	*p = (struct weir_spilled){.at = end};
	r = through(true, p, p->sums, at, bytes, s, driver);
	if (later && !r && *driver == CUDA_SUCCESS)
		r = sync_file();
	if (r || *driver != CUDA_SUCCESS)
		return r;
	p->there = true;
	end += bytes;
	count(bytes);
	return 0;
}

/* weir_spill_in reads it back, and leaves it in the file. It returns 0, with what the driver says,
 * an errno, or EILSEQ where the file has not the bytes that were written. */
int weir_spill_in(
	const struct weir_spilled *p, CUdeviceptr at, uint64_t bytes, CUstream s, CUresult *driver)
{
	uint64_t sums[4] = {0};
	*driver = CUDA_SUCCESS;
	int r = through(false, p, sums, at, bytes, s, driver);
	if (r || *driver != CUDA_SUCCESS)
		return r;
	return memcmp(sums, p->sums, sizeof sums) == 0 ? 0 : EILSEQ;
}

/* weir_spill_free gives back what a piece has of the file, which is empty with the last. */
void weir_spill_free(struct weir_spilled *p, uint64_t bytes)
{
	if (!p->there)
		return;
	p->there = false;
	count(-bytes);
}

/* weir_spill_trim gives the file's room back once no piece has any of it. */
void weir_spill_trim(void)
{
	if (weir_get(&used) || !ours())
		return;
	end = 0;
	if (ftruncate(file, 0) != 0) {
		close(file); /* which gives it back too */
		file = -1;
	}
}
