// Runs a model on ONNX Runtime, on one thread, once to warm up and then RUNS times, and marks for
// count.c where each run begins and where the last ends:
//
//   ort MODEL RUNS OUTPUT FILE [INPUT TYPE SHAPE FILE]...
//
// TYPE is a number of ONNX's TensorProto.DataType, SHAPE is like 1,3,224,224, and the files hold
// values of the host's byte order. The float32 output is that of the first run. The functions
// are taken by their places in OrtApi, a table to whose end alone new versions add.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK (-0x77656972)
#define INPUTS 16
#define DIMENSIONS 16

typedef void *status;
typedef struct {
  void *const *(*api)(uint32_t version);
  const char *(*version)(void);
} base;
extern const base *OrtGetApiBase(void);

static void *const *api;
#define CALL(place, ...) check(((status(*)())api[place])(__VA_ARGS__))

enum {
  ERROR_MESSAGE = 2,
  CREATE_ENV = 3,
  CREATE_SESSION = 7,
  RUN = 9,
  CREATE_SESSION_OPTIONS = 10,
  SET_INTRA_OP_THREADS = 24,
  SET_INTER_OP_THREADS = 25,
  CREATE_TENSOR_WITH_DATA = 49,
  TENSOR_DATA = 51,
  ELEMENT_TYPE = 60,
  ELEMENT_COUNT = 64,
  TYPE_AND_SHAPE = 65,
  CREATE_CPU_MEMORY_INFO = 69,
  RELEASE_VALUE = 96,
};

static void check(status s) {
  if (!s) return;
  fprintf(stderr, "ort: %s\n", ((const char *(*)(status))api[ERROR_MESSAGE])(s));
  exit(1);
}

static void *read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END)) goto failed;
  *n = ftell(f);
  rewind(f);
  void *data = malloc(*n + 1);
  if (!data || fread(data, 1, *n, f) != *n) goto failed;
  fclose(f);
  return data;
failed:
  perror(path);
  exit(1);
}

static void write_output(void *value, const char *path) {
  void *info, *data;
  size_t n;
  int type;
  CALL(TYPE_AND_SHAPE, value, &info);
  CALL(ELEMENT_TYPE, info, &type);
  CALL(ELEMENT_COUNT, info, &n);
  CALL(TENSOR_DATA, value, &data);
  FILE *f = fopen(path, "wb");
  if (type != 1 || !f || fwrite(data, 4, n, f) != n || fclose(f)) {
    fprintf(stderr, "ort: the output of type %d is not written to %s\n", type, path);
    exit(1);
  }
}

int main(int argc, char **argv) {
  if (argc < 5 || (argc - 5) % 4 || (argc - 5) / 4 > INPUTS) {
    fprintf(stderr, "usage: ort MODEL RUNS OUTPUT FILE [INPUT TYPE SHAPE FILE]...\n");
    return 2;
  }
  api = OrtGetApiBase()->api(1);
  if (!api) {
    fprintf(stderr, "ort: ONNX Runtime %s has no API 1\n", OrtGetApiBase()->version());
    return 1;
  }
  void *env, *options, *session, *memory;
  CALL(CREATE_ENV, 3, "weir", &env);
  CALL(CREATE_SESSION_OPTIONS, &options);
  CALL(SET_INTRA_OP_THREADS, options, 1);
  CALL(SET_INTER_OP_THREADS, options, 1);
  CALL(CREATE_SESSION, env, argv[1], options, &session);
  CALL(CREATE_CPU_MEMORY_INFO, 0, 0, &memory);

  const char *names[INPUTS];
  void *values[INPUTS];
  size_t inputs = (argc - 5) / 4;
  for (size_t i = 0; i < inputs; i++) {
    char **a = argv + 5 + 4 * i;
    int64_t shape[DIMENSIONS];
    size_t rank = 0, n;
    for (char *d = strtok(a[2], ","); d && rank < DIMENSIONS; d = strtok(NULL, ","))
      shape[rank++] = atoll(d);
    void *data = read_file(a[3], &n);
    names[i] = a[0];
    CALL(CREATE_TENSOR_WITH_DATA, memory, data, n, shape, rank, atoi(a[1]), &values[i]);
  }
  const char *output = argv[3];
  int runs = atoi(argv[2]);
  for (int run = 0; run <= runs; run++) {
    void *result = NULL;
    close(MARK);
    CALL(RUN, session, NULL, names, values, inputs, &output, (size_t)1, &result);
    if (run == 0) write_output(result, argv[4]);
    ((void (*)(void *))api[RELEASE_VALUE])(result);
  }
  close(MARK);
  printf("%s\n", OrtGetApiBase()->version());
  return 0;
}
