// One program with all samples: main NAME runs that one. It is also the child of the samples that
// need two processes: main NAME ARGUMENT.
#include "sample.h"

#define SAMPLES(X) \
	X(vectoradd) X(properties) X(streams) X(perthread) X(graphs) X(capture) X(pools) X(vmm) \
	X(managed) X(groups) X(ipc) X(print) X(memory) X(outofmemory)
#define DECLARE(name) int name(const char *argument);
SAMPLES(DECLARE)

const char *self;

int main(int argc, char **argv) {
	self = argv[0];
#define RUN(name) \
	if (argc > 1 && !std::strcmp(argv[1], #name)) \
		return name(argc > 2 ? argv[2] : nullptr);
	SAMPLES(RUN)
	if (argc > 1)
		std::fprintf(stderr, "there is no sample %s\n", argv[1]);
#define LIST(name) std::puts(#name);
	SAMPLES(LIST)
	return argc > 1;
}
