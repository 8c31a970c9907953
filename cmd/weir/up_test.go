package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// up begins weir up in an empty folder, and returns what it prints, and a function that ends it and
// returns its exit code.
func up(t *testing.T, args ...string) (printed *bufio.Reader, end func() int) {
	t.Helper()
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	code := make(chan int, 1)
	go func() {
		args = append([]string{"up", "--http", "localhost:0", "--metrics", "", "--grpc", ""},
			args...)
		code <- execute(ctx, args, nil, to, t.Output())
		_ = to.Close()
	}()
	end = sync.OnceValue(func() int {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, from) }()
		return <-code
	})
	t.Cleanup(func() { end() })
	return bufio.NewReader(from), end
}

// TestUp: in an empty folder the digits are served, the printed command has an answer, and the end
// of the command is no failure.
func TestUp(t *testing.T) {
	printed, end := up(t)
	line, err := printed.ReadString('\n')
	address, told := strings.CutSuffix(line, " is the page\n")
	if !told {
		t.Fatalf("printed %q (%v)", line, err)
	}
	if got := read(t, address); !strings.Contains(got, "<title>weir</title>") {
		t.Errorf("the page is %s", got)
	}
	if got := read(t, address+"v1/models/digits/graph"); !strings.Contains(got, "probabilities") {
		t.Errorf("the graph is %s", got)
	}
	if line, err = printed.ReadString('\n'); !strings.Contains(line, "serves 1 model after") {
		t.Fatalf("printed %q (%v)", line, err)
	}
	var command string
	for !strings.HasPrefix(command, "curl ") {
		if command, err = printed.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	words := strings.SplitN(strings.TrimSpace(command), " ", 4)
	r, err := http.Post(words[1], "", strings.NewReader(strings.Trim(words[3], "'")))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	// the first picture is a 0
	if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(answer), `:0","0.`) {
		t.Errorf("%s: %s %s (%v)", command, r.Status, answer, err)
	}
	if path, err := exec.LookPath("curl"); err == nil {
		got, err := exec.Command("sh", "-c", strings.Replace(command, "curl", path+" -s",
			1)).Output()
		if err != nil || !bytes.Equal(got, answer) {
			t.Errorf("%s: %s (%v)", command, got, err)
		}
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// read returns what a server answers at an address.
func read(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("%s: %s (%v)", address, r.Status, err)
	}
	return string(b)
}

// TestUpStreams: readers of the page's events do not hold up the end.
func TestUpStreams(t *testing.T) {
	printed, end := up(t)
	line, _ := printed.ReadString('\n')
	r, err := http.Get(strings.TrimSuffix(line, " is the page\n") + "v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	first, err := bufio.NewReader(r.Body).ReadString('\n')
	if err != nil || first != "event: state\n" {
		t.Errorf("the first event is %q (%v)", first, err)
	}
	began := time.Now()
	if code := end(); code != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(began))
	}
}

// TestUpJSON: a folder's models are served, and what is printed is one JSON object.
func TestUpJSON(t *testing.T) {
	model, err := os.ReadFile(filepath.Join(root, "examples", "digits", "digits.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "mine", "1", "model.onnx")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	printed, end := up(t, "--json", "--no-cache", "--models", folder)
	var got struct {
		HTTP  string
		Page  string
		Ready bool
		Ms    float64 `json:"ready_ms"`
	}
	if err := json.NewDecoder(printed).Decode(&got); err != nil || !got.Ready || got.Ms <= 0 ||
		got.Page != got.HTTP+"/" {
		t.Fatalf("printed %+v (%v)", got, err)
	}
	r, err := http.Get(got.HTTP + "/v2/models/mine/ready")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("the model: %s", r.Status)
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestUpRefuses: wrong options and folders, each with what to do.
func TestUpRefuses(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--http", "0.0.0.0:0"}, 2, "give --tls-cert and --tls-key, or answer on a " +
			"loopback address"},
		{[]string{"--http", "localhost:0", "--tls-cert", "x"}, 2, "give both"},
		{[]string{"--http", "localhost:0", "--tls-client-ca", "x"}, 2, "over TLS only"},
		{[]string{"--http", "localhost:0", "--tls-cert", "no", "--tls-key", "no"}, 2, "no such"},
		{[]string{"--http", "localhost:0", "--state", empty, "--oidc-issuer", "http://x.example"},
			2, "give its https URL"},
		{[]string{"--http", "nonsense"}, 2, "--http nonsense"},
		{[]string{"--http", "localhost:0", "--metrics", "nonsense"}, 2, "--metrics nonsense"},
		{[]string{"--http", "localhost:0", "--otlp", "nonsense"}, 2, "--otlp: collector"},
		{[]string{"--http", "localhost:0", "--metrics", "0.0.0.0:0"}, 2, "give --tls-cert"},
		{[]string{"--http", "localhost:0", "--models", empty}, 2, "NAME/VERSION/model.onnx"},
		{[]string{"--http", "localhost:0", "--models", filepath.Join(empty, "no")}, 2, "no such"},
		{[]string{"--http", "localhost:0", "--policy", "no"}, 2, "no"},
		{[]string{"more"}, 2, "got 1 arguments"},
	} {
		var talk bytes.Buffer
		code := execute(t.Context(), append([]string{"up"}, c.args...), nil, io.Discard, &talk)
		if code != c.code || !strings.Contains(talk.String(), c.says) {
			t.Errorf("up %v: exit code %d, %s; want %d and %q", c.args, code, talk.String(),
				c.code, c.says)
		}
	}
	if left, err := os.ReadDir(empty); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
