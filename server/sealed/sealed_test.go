package sealed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// newKey makes a key and a file of it.
func newKey(t *testing.T) (*age.X25519Identity, string) {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.txt")
	text := "# created by a test\n" + k.String() + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return k, path
}

// seal writes a sealed file.
func seal(t *testing.T, plain []byte, armored bool, to ...age.Recipient) string {
	t.Helper()
	var b bytes.Buffer
	out := io.WriteCloser(nopCloser{&b})
	if armored {
		out = armor.NewWriter(&b)
	}
	w, err := age.Encrypt(out, to...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(plain)
	if err = errors.Join(err, w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx"+Extension)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// TestOpen: what was sealed is what is read, of every size, for each of the keys it was sealed to.
func TestOpen(t *testing.T) {
	mine, file := newKey(t)
	other, _ := newKey(t)
	random := rand.NewChaCha8([32]byte{})
	for _, n := range []int{0, 1, 65535, 65536, 65537, 3_000_000} {
		plain := make([]byte, n)
		_, _ = random.Read(plain)
		for _, armored := range []bool{false, true} {
			path := seal(t, plain, armored, other.Recipient(), mine.Recipient())
			got, err := Open(t.Context(), path, KeyFile(file))
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes, armored %v: %d bytes, %v", n, armored, len(got), err)
			}
		}
	}
}

// TestOpenRefuses: for other keys, without one, changed at any place or cut off, nothing is
// returned.
func TestOpenRefuses(t *testing.T) {
	mine, file := newKey(t)
	_, others := newKey(t)
	path := seal(t, bytes.Repeat([]byte("weights "), 20_000), false, mine.Recipient())
	for says, k := range map[string]Keys{"none of the 1 keys opens it": KeyFile(others),
		"no key was given": nil} {
		if got, err := Open(t.Context(), path, k); got != nil || !errors.Is(err, ErrSealed) ||
			!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 1 + len(whole)/200 {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		for name, b := range map[string][]byte{"changed": changed, "cut": whole[:i]} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := Open(t.Context(), path, KeyFile(file)); got != nil ||
				!errors.Is(err, ErrSealed) {
				t.Fatalf("%s at %d: %d bytes, %v", name, i, len(got), err)
			}
		}
	}
}

// TestKeyFile: a file of keys that others may read is refused, and so is one without keys; errors
// do not show what is in it.
func TestKeyFile(t *testing.T) {
	_, file := newKey(t)
	bad := filepath.Join(t.TempDir(), "bad")
	if err := errors.Join(os.Chmod(file, 0o640), os.WriteFile(bad, []byte("secret\n"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{file: "chmod 600", bad: "as age-keygen makes them",
		filepath.Join(t.TempDir(), "none"): "no such file"} {
		_, err := KeyFile(path).Identities(t.Context())
		if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestKeyCommand: a program's keys open files; one that fails is told of with what it said, and one
// that prints without end or does not end is ended.
func TestKeyCommand(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	mine, file := newKey(t)
	path := seal(t, []byte("plain"), false, mine.Recipient())
	got, err := Open(t.Context(), path, KeyCommand("cat", file))
	if err != nil || string(got) != "plain" {
		t.Errorf("got %q, %v", got, err)
	}
	for script, says := range map[string]string{"echo denied >&2; exit 3": "exit status 3: denied",
		"yes": "more than", "exit 0": "as age-keygen"} {
		_, err := Open(t.Context(), path, KeyCommand(sh, "-c", script))
		if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", script, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path, KeyCommand(sh, "-c", "sleep 60")); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestToolsFile: a file that the tool age has sealed is read, with a key that age-keygen has made.
func TestToolsFile(t *testing.T) {
	tool, err := exec.LookPath("age")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	plain, keys := filepath.Join(dir, "m"), filepath.Join(dir, "k")
	path := plain + Extension
	if err := os.WriteFile(plain, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool+"-keygen", "-o", keys).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	recipient, err := exec.Command(tool+"-keygen", "-y", keys).Output()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "-r", strings.TrimSpace(string(recipient)), "-o", path,
		plain).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := Open(t.Context(), path, KeyFile(keys)); err != nil || string(got) != "weights" {
		t.Errorf("got %q, %v", got, err)
	}
}
