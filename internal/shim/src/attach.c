/*
 * This process in its job: the socket to the agent, the shared page, and fork.
 *
 * WEIR_SOCKET names the agent's socket and WEIR_JOB the job. At the first call that needs it the
 * process says HELLO and gets a slot and the page. Both are kept for the life of the process: if
 * the agent dies the page still tells the terms, and the next agent is told what the process holds
 * (rejoin).
 *
 * If the agent cannot be reached at first, or refuses, there is no share: cuInit gives
 * CUDA_ERROR_SYSTEM_NOT_READY and the reason is said once on standard error. The program is not run
 * unmetered in silence.
 */
#include "weir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 2 /* how long the agent's answer is waited for */

struct weir_process weir = {.sock = -1};

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sock_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_try;
static bool said, hooked, foreign;
static int job_named; /* 0 not looked yet, 1 no, 2 yes */

uint64_t weir_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void weir_say(const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	int n = snprintf(line, sizeof line, "weir: ");
	n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

bool weir_job_named(void)
{
	int named = __atomic_load_n(&job_named, __ATOMIC_RELAXED);
	if (weir_likely(named))
		return named == 2;
	const char *job = getenv("WEIR_JOB"), *sock = getenv("WEIR_SOCKET");
	named = job && *job && sock && *sock ? 2 : 1;
	__atomic_store_n(&job_named, named, __ATOMIC_RELAXED);
	if (named == 1)
		__atomic_store_n(&weir.state, WEIR_OFF, __ATOMIC_RELEASE);
	return named == 2;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool parse_token(unsigned char to[16])
{
	const char *hex = getenv("WEIR_JOB");
	if (!hex || strlen(hex) != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		to[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

/* ours tells whether the process that listens at the other end is of this user, or of the one that
 * WEIR_AGENT_UID names: whoever could put a socket there could hand out a page and read what the
 * program does. */
static bool ours(int fd, uid_t *uid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	const char *trusted = getenv("WEIR_AGENT_UID");
	char *end = NULL;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	*uid = peer.uid;
	return peer.uid == geteuid() ||
		(trusted && *trusted && strtoul(trusted, &end, 10) == peer.uid && !*end);
}

static int dial(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const char *path = getenv("WEIR_SOCKET");
	if (!path || strlen(path) >= sizeof at.sun_path)
		return -1;
	strcpy(at.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	struct timeval patience = {.tv_sec = PATIENCE_S};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	int r;
	do
		r = connect(fd, (struct sockaddr *)&at, sizeof at);
	while (r < 0 && errno == EINTR);
	uid_t uid = (uid_t)-1;
	if (r == 0 && ours(fd, &uid))
		return fd;
	if (r == 0 && !__atomic_exchange_n(&foreign, true, __ATOMIC_RELAXED))
		weir_say("the agent at %s is another user's, %u and not %u: not used. Start the program as "
			"that user, or weir exec as this one; or let that agent serve this user (weir agent "
			"--allow-uid %u) and set WEIR_AGENT_UID=%u here",
			path, (unsigned)uid, (unsigned)geteuid(), (unsigned)geteuid(), (unsigned)uid);
	close(fd);
	return -1;
}

union packet {
	uint32_t kind;
	struct weir_welcome welcome;
	struct weir_refused refused;
	char bytes[WEIR_MSG_SIZE + 256];
};

/* receive reads the agent's answer. *page gets the descriptor that came along, or -1. */
static ssize_t receive(int sock, union packet *p, int *page)
{
	struct iovec io = {p, sizeof *p};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n;
	*page = -1;
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return n;
	/* The padding of the control message has room for another. */
	for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
		int fd;
		memcpy(&fd, (char *)c + at, sizeof fd);
		if (*page < 0)
			*page = fd;
		else
			close(fd);
	}
	return n;
}

static bool page_fits(const struct weir_header *h)
{
	return h->magic == WEIR_MAGIC && h->version == WEIR_VERSION && h->page_size == WEIR_PAGE_SIZE &&
		h->slot_count == WEIR_SLOT_COUNT && h->slot_size == WEIR_SLOT_SIZE &&
		h->slots_offset == WEIR_SLOTS_OFFSET;
}

/* map_page maps memory that nobody can make smaller under the program, which access beyond the end
 * would kill. The seals come first: a size that is not sealed yet can still change. */
static struct weir_header *map_page(int fd)
{
	enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
	struct stat s;
	int have = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	if (have < 0 || (have & SEALS) != SEALS || fstat(fd, &s) < 0 ||
		s.st_size != (off_t)WEIR_PAGE_SIZE)
		return NULL;
	void *p = mmap(NULL, WEIR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (page_fits(p))
		return p;
	munmap(p, WEIR_PAGE_SIZE);
	return NULL;
}

static int kept_page = -1; /* descriptor of the page, sent along when rejoining */
static struct stat page_as, sock_as; /* what the page and the socket were when they were opened */

/* is reports whether a descriptor is still what it was. A program may close what it did not open
 * (closefrom(3)), and what it opens has the number then, of which nothing is to be read, into which
 * nothing is to be written, and which is not to be closed. */
static bool is(int fd, const struct stat *as)
{
	struct stat now;
	return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == as->st_dev && now.st_ino == as->st_ino;
}

/* keep has the page's descriptor be this one. */
static void keep(int page)
{
	if (is(kept_page, &page_as))
		close(kept_page);
	kept_page = fstat(page, &page_as) == 0 ? page : -1;
}

/* adopt takes the slot on the page that the agent sent, the same as before where an agent has
 * returned that knows the process. Another page's former one stays mapped, as threads may wait on
 * it. */
static bool adopt(int page, const struct weir_welcome *w)
{
	bool same = weir_page() && is(page, &page_as);
	struct weir_header *h = NULL;
	if (w->slot < WEIR_SLOT_COUNT)
		h = same ? weir_page() : map_page(page);
	if (!h)
		return false;
	struct weir_slot *slot = (struct weir_slot *)((char *)h + WEIR_SLOTS_OFFSET) + w->slot;
	weir_set(&slot->state, WEIR_STATE_ATTACHED);
	weir_mover_adopt(slot);
	weir_set(&slot->thread_percent, weir_get(&weir.threads));
	weir_set(&slot->stalled, weir_get(&weir.aside));
	weir.slot_number = w->slot;
	__atomic_store_n(&weir.notes, (w->flags & WEIR_FLAG_NOTES) != 0, __ATOMIC_SEQ_CST);
	weir_set(&weir.measures, (w->flags & WEIR_FLAG_MEASURES) != 0);
	weir.generation = w->generation;
	weir_ledger_adopt(h, slot);
	keep(page);
	return true;
}

static bool hello(int sock, bool rejoin)
{
	struct weir_hello h = {.kind = WEIR_MSG_HELLO, .version = WEIR_VERSION, .slot = WEIR_NO_SLOT};
	if (!parse_token(h.token))
		return false;
	h.pid = (uint32_t)getpid();
	struct iovec io = {&h, sizeof h};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	if (rejoin) {
		h.flags = WEIR_FLAG_REJOIN;
		h.mem_used = weir_counted();
		h.slot = weir.slot_number;
		h.generation = weir.generation;
	}
	/* without it the agent may know the job all the same */
	if (rejoin && is(kept_page, &page_as)) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &kept_page, sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)sizeof h;
}

static void say_once(const char *why, int size)
{
	if (said)
		return;
	said = true;
	weir_say("no share of the GPU for this program: %.*s", size, why);
}

/* no_share says why there is none, after an answer of n bytes, or errno if that is negative. */
static void no_share(bool asked, const union packet *p, ssize_t n)
{
	char why[160];
	if (!asked) {
		say_once("the agent could not be asked: WEIR_JOB is not what weir exec sets, or the "
			"connection failed", 256);
	} else if (n >= (ssize_t)WEIR_MSG_SIZE && p->kind == WEIR_MSG_REFUSED) {
		say_once(p->bytes + WEIR_MSG_SIZE, (int)(n - (ssize_t)WEIR_MSG_SIZE));
	} else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		snprintf(why, sizeof why,
			"the agent gave no answer in %d s: it is stopped or hangs; let it go on (kill -CONT) "
			"or end it, and start the program again", PATIENCE_S);
		say_once(why, sizeof why);
	} else if (n <= 0) {
		say_once("the agent ended the connection without an answer; its log says why", 256);
	} else {
		say_once("the agent gave no answer that this version of weir knows", 256);
	}
}

/* join says HELLO on a fresh socket and takes the slot. With rejoin the process keeps its page and
 * slot if the agent gives the same ones. */
static bool join(bool rejoin)
{
	int sock = dial(), page = -1;
	union packet p;
	if (sock < 0) {
		if (!rejoin)
			say_once("the agent does not answer (start it with `weir agent`)", 256);
		return false;
	}
	memset(&p, 0, sizeof p);
	bool asked = hello(sock, rejoin);
	ssize_t n = asked ? receive(sock, &p, &page) : -1;
	if (n < (ssize_t)WEIR_MSG_SIZE || p.kind != WEIR_MSG_WELCOME) {
		if (!rejoin)
			no_share(asked, &p, n);
		if (page >= 0)
			close(page);
		close(sock);
		return false;
	}
	if (!adopt(page, &p.welcome)) {
		if (!rejoin)
			say_once("the agent's page is not one of this version of weir", 256);
		if (page >= 0)
			close(page);
		close(sock);
		return false;
	}
	pthread_mutex_lock(&sock_lock);
	weir.sock = fstat(sock, &sock_as) == 0 ? sock : -1;
	pthread_mutex_unlock(&sock_lock);
	__atomic_store_n(&weir.agent_gone, false, __ATOMIC_SEQ_CST);
	return true;
}

/* In a child of fork nothing of the parent's is counted: not its slot, its streams, its memory.
 * Locks may have been held by threads that the child does not have. The parent's socket stays open:
 * like the driver's files, which the child holds too, it is closed by exec and by exit. The driver
 * keeps the parent's memory for as long as somebody holds its files, and the agent sees by the
 * socket for how long that is. A call amid which a signal's handler has forked goes on in the child
 * too: where it writes into the parent's slot there is memory of the child's own. */
static void forked(void)
{
	if (weir.page)
		mmap(weir.page, WEIR_PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	pthread_mutex_init(&attach_lock, NULL);
	pthread_mutex_init(&sock_lock, NULL);
	if (is(kept_page, &page_as))
		close(kept_page);
	kept_page = -1;
	memset(&weir, 0, sizeof weir);
	weir.sock = -1;
	said = foreign = false;
	next_try = 0;
	weir_driver_reset();
	weir_ledger_reset();
	weir_sizes_reset();
	weir_freeing_reset();
	weir_pools_reset();
	weir_vmm_reset();
	weir_contexts_reset();
	weir_measure_reset();
	weir_graphs_reset();
	weir_limits_reset();
	weir_streams_reset();
	weir_capture_reset();
	weir_own_reset();
	weir_unknown_reset();
	weir_movables_reset();
	weir_hold_reset();
	weir_mover_reset();
}

int weir_attach(void)
{
	int before;
	if (!weir_job_named())
		return WEIR_OFF;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* with the lock held */
	pthread_mutex_lock(&attach_lock);
	int state = weir.state;
	uint64_t now = weir_now();
	if (state != WEIR_ATTACHED && now >= next_try) {
		bool ok = join(false);
		next_try = now + WEIR_RECONNECT_NS;
		state = ok ? WEIR_ATTACHED : WEIR_FAILED;
		if (ok && !hooked) {
			hooked = true;
			pthread_atfork(NULL, NULL, forked);
			weir_at_exit();
		}
		if (ok) {
			weir_watcher_start();
			weir_mover_start();
		}
		__atomic_store_n(&weir.state, state, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&attach_lock);
	pthread_setcancelstate(before, NULL);
	return state;
}

static void hang_up(void)
{
	if (is(weir.sock, &sock_as))
		close(weir.sock);
	weir.sock = -1;
}

/* connected reports whether there is a socket, with its lock held. */
static bool connected(void)
{
	if (!is(weir.sock, &sock_as))
		weir.sock = -1;
	return weir.sock >= 0;
}

/* put sends a message; true: it is on its way. It never waits: an agent that does not read has the
 * page. */
static bool put(const void *message)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&sock_lock);
	bool sent = connected() &&
		send(weir.sock, message, WEIR_MSG_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) == WEIR_MSG_SIZE;
	if (!sent && weir.sock >= 0 && errno != EAGAIN)
		hang_up();
	pthread_mutex_unlock(&sock_lock);
	pthread_setcancelstate(before, NULL);
	return sent;
}

/* weir_send tells the agent something; if it cannot be told, the watcher sees the closed socket. */
void weir_send(uint32_t kind, uint32_t gate)
{
	put(&(struct weir_signal){.kind = kind, .slot = weir.slot_number, .gate = gate});
}

/* weir_send_note tells the agent of a call by its name; false: it did not hear of it. */
bool weir_send_note(const char *call)
{
	struct weir_note m = {.kind = WEIR_MSG_NOTE, .slot = weir.slot_number};
	strncpy((char *)m.call, call, sizeof m.call);
	return weir_get(&weir.notes) && put(&m);
}

/* weir_send_message sends any message; true: it is on its way. */
bool weir_send_message(const void *message)
{
	return put(message);
}

/* weir_socket_open looks whether the agent is still at the other end. */
bool weir_socket_open(void)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&sock_lock);
	struct pollfd p = {.fd = weir.sock, .events = POLLIN};
	char drop[WEIR_MSG_SIZE];
	if (connected() && poll(&p, 1, 0) > 0) {
		ssize_t n = recv(weir.sock, drop, sizeof drop, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			hang_up();
	}
	bool open = weir.sock >= 0;
	pthread_mutex_unlock(&sock_lock);
	pthread_setcancelstate(before, NULL);
	return open;
}

bool weir_reconnect(void)
{
	return join(true);
}
