/*
 * Predictions from times that are told: "N" is a launch of N microseconds, "dN" one that was
 * delayed until it had lasted N, and "sN" one that stalled so. It prints the prediction after each,
 * in microseconds.
 */
#include "../src/weir.h"

#include "../src/predict.c"

#include <stdio.h>
#include <stdlib.h>

int main(int n, char **times)
{
	struct weir_function *f = weir_function_of(1, 1);
	for (int i = 1; i < n; i++) {
		const char *t = times[i];
		if (*t == 'd' || *t == 's')
			weir_function_delayed(f, *t == 's');
		else
			weir_function_measured(f, strtoull(t, NULL, 10) * 1000);
		printf("%llu\n", (unsigned long long)f->guess * WEIR_UNIT_NS / 1000);
	}
	return 0;
}
