package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// strangerEnv tells the test's program, as another user, what to ask.
const strangerEnv = "WEIR_TEST_STRANGER"

// visit is a server without accounts and what it has.
type visit struct {
	HTTP, GRPC string
	Patterns   []string
}

// openRows are what other users of the machine may ask such a server, written once more.
const openRows = "health, page, server metadata, model metadata, model ready, model config, " +
	"model statistics, statistics, infer, repository index, shared memory status, shared memory " +
	"register, shared memory unregister, trace setting, log setting, metrics, state, model " +
	"state, training state"

// refusal is what a stranger is told.
const refusal = "this server has no accounts and is of user"

// TestStrangers: whatever weir up has, by either protocol: where it has no accounts another user of
// the machine may read and infer, and nothing else, and its own user may everything.
func TestStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may run a program as another user")
	}
	one := freePort(t)
	for _, more := range [][]string{nil, {"--http", one, "--grpc", one}} {
		recipe := trainFolder(t, "steps: 40", "steps: 1000000")
		models := t.TempDir()
		at := filepath.Join(models, "digits", "1")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(at, "model.onnx"), string(digits.Model))
		visited(t, append(more, "--train", recipe, "--models", models)...)
	}
}

// visited begins a server without accounts, and holds who may what of it.
func visited(t *testing.T, args ...string) {
	t.Helper()
	log := &said{}
	s := opened(t, log, append(args, "--state", filepath.Join(t.TempDir(), "state"), "--no-cache",
		"--shared-memory", "/weir-test-", "--grace", "0s")...)
	if err := s.begin(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	where := s.where()
	v := visit{HTTP: "http://" + where.http, GRPC: where.grpc, Patterns: s.server.Patterns()}
	stranger(t, v)
	v.ask(t, func(closed bool, what, says string) {
		if strings.Contains(says, refusal) {
			t.Errorf("the server's own user is refused %s: %s", what, says)
		}
	})
	if err := s.stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// stranger has another user visit a server.
func stranger(t *testing.T, v visit) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestAsStranger$", "-test.v")
	c.Env = append(os.Environ(), strangerEnv+"="+string(text))
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n--- PASS: TestAsStranger") {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}

// TestAsStranger is the part of TestStrangers that another user does.
func TestAsStranger(t *testing.T) {
	var v visit
	if text := os.Getenv(strangerEnv); text == "" {
		t.Skip("it is for TestStrangers")
	} else if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	open, closed := 0, 0
	v.ask(t, func(is bool, what, says string) {
		if is {
			closed++
		} else {
			open++
		}
		if strings.Contains(says, refusal) != is {
			t.Errorf("%s, closed: %v: %s", what, is, says)
		}
	})
	if open < 50 || closed < 25 {
		t.Errorf("%d that are open and %d that are closed only", open, closed)
	}
	t.Logf("%d that are open and %d that are closed", open, closed)
}

// ask asks for all that there is, once; told is whether that is closed to strangers, and the
// answer.
func (v *visit) ask(t *testing.T, told func(closed bool, what, says string)) {
	t.Helper()
	conn, err := grpc.NewClient(v.GRPC, grpc.WithTransportCredentials(
		insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	open := strings.Split(openRows, ", ")
	for _, pattern := range v.Patterns {
		row := slices.IndexFunc(auth.Endpoints, func(e auth.Endpoint) bool {
			return slices.Contains(e.HTTP, pattern)
		})
		if row < 0 {
			t.Errorf("%s has no row", pattern)
			continue
		}
		told(!slices.Contains(open, auth.Endpoints[row].Name), pattern, v.answer(t, pattern))
	}
	for i := range auth.Endpoints {
		e := &auth.Endpoints[i]
		for _, method := range e.RPC {
			told(!slices.Contains(open, e.Name), method, dialled(t, conn, method, "", e.Changes))
		}
	}
}

// answer is what a pattern is answered, without what events tell.
func (v *visit) answer(t *testing.T, pattern string) string {
	t.Helper()
	method, path, _ := strings.Cut(strings.NewReplacer("{model}", "digits", "{version}", "1",
		"{$}", "", "{job}", "7", "{region}", "r", "{program}", "p", "{name}", "none").
		Replace(pattern), " ")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.HTTP+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	defer answer.Body.Close()
	var said oip.Failure
	if answer.StatusCode >= 400 {
		if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
			t.Errorf("%s: status %d, %v", pattern, answer.StatusCode, err)
		}
	}
	if refused := answer.StatusCode == http.StatusForbidden; refused != strings.Contains(said.Error,
		refusal) {
		t.Errorf("%s: status %d with %s", pattern, answer.StatusCode, said.Error)
	}
	return said.Error
}
