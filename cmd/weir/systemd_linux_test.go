package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServiceManager: the server answers on sockets that it is handed, requests of before too, and
// says when it is ready, reads its file again, is ready again, and stops.
func TestServiceManager(t *testing.T) {
	dir := t.TempDir()
	notes, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram",
		Name: filepath.Join(dir, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer notes.Close()
	told := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		_ = notes.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := notes.Read(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Fatalf("told %q (%v), want %s", b[:n], err, want)
		}
	}
	var files []*os.File
	var addresses []string
	for range 2 {
		on, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		f, err := on.File()
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, on.Addr().String())
		files = append(files, f)
		_ = on.Close()
		defer f.Close()
	}
	file := filepath.Join(dir, "weir.yaml")
	write(t, file, "listen: {grpc: ''}\nlimits: {grace: 0s}")
	out := &bytes.Buffer{}
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" up --config "$1"`, os.Args[0], file)
	cmd.Env = append(os.Environ(), commandEnv+"=1", "LISTEN_FDS=2", "LISTEN_FDNAMES=metrics:http",
		"NOTIFY_SOCKET="+notes.LocalAddr().String())
	cmd.Dir, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = dir, files, out, out
	early := make(chan string, 1)
	go func() {
		early <- inferred(addresses[1], "digits", `{"inputs":[{"name":"image","datatype":"FP32",`+
			`"shape":[1,1,8,8],"data":[`+strings.Repeat("0,", 63)+`0]}]}`)
	}()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	told("READY=1")
	if got := <-early; got != "200 OK" {
		t.Errorf("a request that came before the server: %s", got)
	}
	if got := read(t, "http://"+addresses[0]+"/metrics"); !strings.Contains(got, "weir_load") {
		t.Errorf("metrics are %.200s", got)
	}
	if got := read(t, "http://"+addresses[1]+"/v2"); !strings.Contains(got, "weir") {
		t.Errorf("/v2 is %s", got)
	}
	r, err := http.Get("http://" + addresses[0] + "/v2")
	if err != nil || r.StatusCode != http.StatusNotFound {
		t.Errorf("/v2 where metrics are: %+v, %v", r, err)
	}
	_ = r.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	told("RELOADING=1\nMONOTONIC_USEC=")
	told("READY=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHandedNames: sockets that nobody can tell apart are refused.
func TestHandedNames(t *testing.T) {
	on, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	for _, c := range []struct{ names, says string }{
		{"weir.socket", ""},
		{"weir.socket:weir.socket", "FileDescriptorName="},
		{"http:other", "socket other of the service manager"},
	} {
		cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" up --metrics "" --grpc "" --json`,
			os.Args[0])
		n := strings.Count(c.names, ":") + 1
		cmd.Env = append(os.Environ(), commandEnv+"=1", "LISTEN_FDS="+strconv.Itoa(n),
			"LISTEN_FDNAMES="+c.names)
		for range n {
			f, err := on.File()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		}
		cmd.Dir = t.TempDir()
		var out, talk bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &talk
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if c.says == "" {
			if got := read(t, "http://"+on.Addr().String()+"/v2"); !strings.Contains(got, "weir") {
				t.Errorf("/v2 is %s", got)
			}
			_ = cmd.Process.Signal(os.Interrupt)
		}
		err := cmd.Wait()
		if c.says != "" && (err == nil || !strings.Contains(talk.String(), c.says)) {
			t.Errorf("%s: %v: %s, want %q", c.names, err, &talk, c.says)
		}
	}
}
