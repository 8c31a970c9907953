package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/weirgpu/weir/examples/digits"
)

// TestUpSealed: a model that is encrypted at rest is served, with keys of a file or of a command,
// and no file that the server leaves has any of it in plain; without keys it is not, and the server
// says so and is not ready.
func TestUpSealed(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	folder, left := t.TempDir(), t.TempDir()
	keys := filepath.Join(t.TempDir(), "keys")
	path := filepath.Join(folder, "secret", "1", "model.onnx.age")
	var b bytes.Buffer
	w, err := age.Encrypt(&b, key.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(digits.Model); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{path: b.String(), keys: key.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range map[string]string{"WEIR_CACHE": "plans", "TMPDIR": "tmp",
		"XDG_STATE_HOME": "state"} {
		dir := filepath.Join(left, v)
		t.Setenv(name, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--model-keys", keys}, {"--model-keys-command",
		"cat " + keys}} {
		printed, end := up(t, append(flags, "--json", "--models", folder, "--accounts")...)
		url := answering(t, printed)
		firstToken(t, filepath.Join(left, "state", "weir", "server"))
		body := strings.NewReader(`{"inputs":[{"name":"image","datatype":"FP32","shape":` +
			`[1,1,8,8],"data":[` + strings.Repeat("0,", 63) + `0]}]}`)
		if got := post(t, url+"/v2/models/secret/infer", body); got != 200 {
			t.Errorf("%s: status %d", flags, got)
		}
		if code := end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		for _, part := range [][]byte{digits.Model[:64], digits.Model[len(digits.Model)/2:][:64]} {
			holdsNot(t, left, part)
		}
		if err := os.RemoveAll(filepath.Join(left, "state")); err != nil {
			t.Fatal(err)
		}
	}
	printed, _ := up(t, "--json", "--models", folder)
	if got := asked(t, "GET", answering(t, printed)+"/v2/health/ready", ""); got != 503 {
		t.Errorf("without keys: status %d", got)
	}
}

// holdsNot reports files below a folder that have some bytes.
func holdsNot(t *testing.T, dir string, part []byte) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, part) {
			t.Errorf("%s has the model in plain", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
