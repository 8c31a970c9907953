package dra

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/shim"
	"github.com/weirgpu/weir/internal/shim/fakecuda"
	"github.com/weirgpu/weir/share"
)

// hungry is a program that takes device memory until there is none, as the user that it is told.
const hungry = `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int),
	cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, size_t);
int main(int argc, char **argv)
{
	int device, r = argc > 1 ? setuid(atoi(argv[1])) : 0;
	unsigned long long at, sum = 0;
	void *context;
	if (r || (r = cuInit(0)) || (r = cuDeviceGet(&device, 0)) ||
		(r = cuDevicePrimaryCtxRetain(&context, device)) || (r = cuCtxSetCurrent(context))) {
		printf("begin: %d\n", r);
		return 1;
	}
	while (!(r = cuMemAlloc_v2(&at, 4 << 20)))
		sum += 4 << 20;
	printf("%d %llu %d\n", r, sum, getuid());
	return 0;
}
`

// container runs a program as a runtime would run it in a container with a claim's devices: in a
// mount namespace of its own, with the mounts and the environment of the specification.
func container(t *testing.T, s *spec, program string, args ...string) string {
	t.Helper()
	var script strings.Builder
	script.WriteString("set -e\nmount -t tmpfs none /opt\nmount -t tmpfs none /run\n" +
		"mkdir /run/bin\ntouch /run/bin/program\nmount --bind " + program + " /run/bin/program\n")
	e := s.Devices[0].Edits
	for _, m := range e.Mounts {
		make := "mkdir -p"
		if fi, err := os.Stat(m.Host); err == nil && !fi.IsDir() {
			make = "touch"
		}
		fmt.Fprintf(&script, "mkdir -p %s\n%s %s\nmount --bind -o %s %s %s\n",
			filepath.Dir(m.Container), make, m.Container, m.Options[0], m.Host, m.Container)
	}
	script.WriteString("exec env " + strings.Join(e.Env, " ") + " /run/bin/program " +
		strings.Join(args, " "))
	out, err := exec.CommandContext(t.Context(), "unshare", "-m", "--propagation", "private", "sh",
		"-c", script.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestContainerCannotTakeMore prepares claims of a fake GPU and runs programs as containers with
// them, one as another user: each gets its memory and then CUDA's error, and neither more nor
// another's. Another driver takes over before each runs. It needs root, for the mounts.
func TestContainerCannotTakeMore(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("WEIR_LONG is not set: it compiles the library and the fake driver")
	}
	err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/opt").Run()
	if err != nil {
		t.Skip("no mount namespace of one's own:", err)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	library, err := shim.Build(t.Context(), cache, "")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := fakecuda.Build(t.Context(), filepath.Join(cache, "weir"), "")
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	program := filepath.Join(t.TempDir(), "hungry")
	compile := exec.Command("cc", "-x", "c", "-o", program, "-", "-x", "none",
		filepath.Join(fake, "libcuda.so.1"))
	compile.Stdin = strings.NewReader(hungry)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gpu := t.TempDir()
	if err := os.Chmod(gpu, 0o777); err != nil {
		t.Fatal(err)
	}
	d := agent.Device{Name: "fake", Memory: 16 * share.GiB, Fake: true}
	copy(d.UUID[:], "weir fake GPU")
	a, err := agent.Start(agent.Config{Dir: dir, Door: true, Devices: []agent.Device{d}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	r := newRig(t)
	r.c.Agent = Local{dir}
	r.c.Node = Node{Runtime: dir, UID: os.Getuid(), Shim: library, FakeDriver: fake, FakeState: gpu}
	r.start()
	for i, memory := range []share.Bytes{3 * share.GiB, 5 * share.GiB} {
		uid := "u" + strconv.Itoa(i)
		if _, err := r.d.Prepare(t.Context(), claimOf(uid, "cuda-0", memory, 300)); err != nil {
			t.Fatal(err)
		}
		r.start()
		if err := r.d.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		as := []string{"", "1234"}[i]
		files, _ := filepath.Glob(filepath.Join(gpu, "*")) // of the fake driver, as root made them
		for _, f := range files {
			if err := os.Chmod(f, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		var code, user int
		var got share.Bytes
		out := container(t, r.specOf(uid), program, as)
		line := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
		if _, err := fmt.Sscan(line, &code, &got, &user); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		const outOfMemory = 2 // CUDA_ERROR_OUT_OF_MEMORY
		if code != outOfMemory || got > memory || got < memory-share.GiB {
			t.Errorf("a container with %v got %v, and then %d: %s", memory, got, code, out)
		}
		if as != "" && strconv.Itoa(user) != as {
			t.Errorf("the program ran as %d", user)
		}
	}
}
