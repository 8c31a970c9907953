// Package fakecuda carries a stand-in for NVIDIA's driver, libcuda.so.1 and libnvidia-ml.so.1, with
// a model of a device behind it, so that the shim and the agent are tested, and shown, without a
// GPU. The model is a file shared by processes: a ledger of memory, queues of work, and one
// timeline on which kernels of stated duration run. Memory has contents, which copies, sets and a
// few kernels change when the timeline has come to them (driver/content.h); else nothing computes:
// results are about who runs when and who holds what. Everything that the stand-in reports calls
// itself [Name].
//
// Meet first: [Build], which compiles the C sources below this folder with the host's compiler, and
// model/model.h, which says what the device does. fakecuda.h declares the calls; driver/ has one
// file per family of them; nvml/ is the management library; example/train.c is a program that knows
// nothing of weir; stress/ has the programs that tests drive.
//
// A device is set up by the environment of the process that first uses it:
//
//	WEIR_FAKE_DIR         folder of the devices' files; weir-fake-UID among temporary files
//	WEIR_FAKE_GPUS        number of devices, 0 to 8; 1
//	WEIR_FAKE_MEMORY      memory of each, such as 16GiB; 16GiB
//	WEIR_FAKE_CONTEXT     memory that one context takes; 256MiB
//	WEIR_FAKE_SLICE_US    time slice between processes in microseconds; 2000
//	WEIR_FAKE_SWITCH_US   cost of changing between processes in microseconds; 20
//	WEIR_FAKE_CONCURRENT  operations of one process that run at a time, 1 to 16; 1
//
// Results are exact in the profile "plain", which is the default. WEIR_FAKE_PROFILE=hardware makes
// the driver cost and round as a real one is believed to: memory in granules, functions that load
// at their first launch, contexts of several sizes, memory that is free some time after the end of
// its process, calls that take time. mix:SEED draws each of these between the two. The list of
// knobs, with the source of each belief, is model/knobs.h; each can be set alone by its variable.
//
// WEIR_FAKE_HOLD names a file, such as a FIFO, that a process reads to its end before it makes a
// context: with it a test says when that happens.
//
// With WEIR_FAKE_NVML_BLIND set a process's management library lists no processes, as in a
// container that sees no others' numbers; set to "zero" it lists them as holding nothing.
//
// The management library limits what the processes of a control group hold, as drivers from branch
// 615 on do (model/limits.c). A process is in the group whose folder WEIR_FAKE_CGROUP names, or
// else in that which the kernel says. WEIR_FAKE_LIMITS is the error that setting a limit answers, 0
// where it is done for others than root too; WEIR_FAKE_DRIVER_VERSION=575 makes the driver an older
// one.
//
// A client of MPS is a process that finds the control daemon when it calls cuInit: the program
// [Control] -d, in $CUDA_MPS_PIPE_DIRECTORY or, unless that is set, in the folder mps of
// WEIR_FAKE_DIR. All clients run at once, each on the part of the device that
// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE leaves it (driver/mps.c).
//
// Concurrency: any number of processes and threads may use one folder; Build may run in several
// processes at once.
//
// NVIDIA's own runtime runs on it, unmodified: it finds the tables that it asks for
// (driver/export.c), and modules may be fat binaries, cubins and PTX (driver/image.h), whose
// kernels, attributes and variables are those that the image names. bench/userland runs it. The
// runtime goes on with no driver that does not answer its self-test; the stand-in does, with a key
// that NVIDIA does not document and ZLUDA has published (driver/integrity.c).
//
//	WEIR_FAKE_KERNEL_US  time that a kernel of such an image takes, such as 10 or 5-50; 10
//	WEIR_FAKE_MISSING    file to which a line is added for each call and table that was asked for
//	                     and is not here
//
// What it refuses: to compute. A kernel takes time and leaves memory as it was. A module that is
// not NVIDIA's is a text that names kernels, their durations, and what little some of them do
// (driver/module.c).
package fakecuda
