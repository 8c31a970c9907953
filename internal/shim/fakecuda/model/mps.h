// How clients find the fake MPS control daemon (mps/nvidia-cuda-mps-control.c) and what they say to
// it: one packet of text each way.
#ifndef WEIR_FAKE_MPS_H
#define WEIR_FAKE_MPS_H

#include <stdbool.h>
#include <stddef.h>

enum { FK_MPS_PACKET = 256 };

// fk_mps_folder is the folder $CUDA_MPS_PIPE_DIRECTORY, or mps among the files of the devices.
void fk_mps_folder(char *path, size_t size);

// FK_MPS_SOCKET is the daemon's file there. The name is not NVIDIA's: the daemon of a real driver
// is never spoken to.
#define FK_MPS_SOCKET "weir-fake-control"

struct sockaddr_un;

// fk_mps_socket fills in the daemon's address. False: it is too long.
bool fk_mps_socket(struct sockaddr_un *at);

// fk_mps_ask connects to the daemon, sends it a request and gives its answer. False: none answers.
bool fk_mps_ask(const char *request, char answer[FK_MPS_PACKET]);

// fk_mps_dial connects to the daemon; -1: there is none.
int fk_mps_dial(void);

#endif
