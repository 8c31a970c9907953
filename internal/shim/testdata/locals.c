// A library whose thread-local variables take a megabyte of each thread.
static __thread char room[1 << 20];

__attribute__((constructor)) static void begin(void) { *(volatile char *)room = 1; }
