/*
 * Checks by value in programs that are made of parts of the library: those that fail are printed,
 * and at the end how many there were.
 */
#ifndef WEIR_EXPECT_H
#define WEIR_EXPECT_H

#include <inttypes.h>
#include <stdio.h>

static unsigned checks;

static void expect(const char *what, uint64_t got, uint64_t want)
{
	checks++;
	if (got != want)
		printf("%s: %" PRIu64 ", want %" PRIu64 "\n", what, got, want);
}

static int checked(void)
{
	printf("%u checks\n", checks);
	return 0;
}

#endif
