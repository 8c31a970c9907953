package store

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// backedUp is a backup of two notes and a blob.
func backedUp(t *testing.T) (file string, want []string, blob Digest) {
	t.Helper()
	dir := t.TempDir()
	s := begin(t, dir, Options{}, notes)
	want = []string{"one", "two"}
	add(t, s, want...)
	blob, _, err := s.Blobs().Put(strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "backup.tar")
	if _, err := Backup(t.Context(), dir, file); !errors.Is(err, ErrRunning) {
		t.Errorf("while it is used: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sum, err := Backup(t.Context(), dir, file)
	if err != nil || sum.Blobs != 1 || sum.Bytes < 4096 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, incomingName+"*")); len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("who may read it: %v, %v", info.Mode(), err)
	}
	return file, want, blob
}

// holds reports what is wrong with a folder that a backup was brought back to.
func holds(t *testing.T, dir string, want []string, blob Digest) {
	t.Helper()
	s := begin(t, dir, Options{}, notes)
	if got := texts(t, s); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if err := errors.Join(s.Blobs().Verify(blob), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestBackup: what was backed up comes back, in an empty folder and in one with another state,
// which is moved away and not lost.
func TestBackup(t *testing.T) {
	file, want, blob := backedUp(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if _, replaced, err := Restore(file, empty, time.Now()); err != nil || replaced != "" {
		t.Errorf("replaced %q, %v", replaced, err)
	}
	holds(t, empty, want, blob)

	dir := t.TempDir()
	s := begin(t, dir, Options{}, notes)
	add(t, s, "other")
	if _, _, err := Restore(file, dir, time.Now()); !errors.Is(err, ErrRunning) {
		t.Errorf("while it is used: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, replaced, err := Restore(file, dir, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if err != nil || !strings.HasPrefix(filepath.Base(replaced), "replaced-20260301-120000-") {
		t.Fatalf("replaced %q, %v", replaced, err)
	}
	holds(t, dir, want, blob)
	if got := texts(t, begin(t, replaced, Options{}, notes)); !slices.Equal(got,
		[]string{"other"}) {
		t.Errorf("what was replaced has %q", got)
	}
}

// TestRestoreMovesLogs: what SQLite left beside the state of a server that was killed goes with
// that, and is no log of what is brought back.
func TestRestoreMovesLogs(t *testing.T) {
	file, want, blob := backedUp(t)
	dir := t.TempDir()
	if err := begin(t, dir, Options{}, notes).Close(); err != nil {
		t.Fatal(err)
	}
	beside := []string{fileName + "-wal", fileName + "-shm"}
	for _, name := range beside {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, replaced, err := Restore(file, dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range beside {
		if b, err := os.ReadFile(filepath.Join(replaced, name)); string(b) != name {
			t.Errorf("%s was moved as %q (%v)", name, b, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", name, err)
		}
	}
	holds(t, dir, want, blob)
}

// TestBackupInterrupted: what a backup that was interrupted had copied goes with the next start.
func TestBackupInterrupted(t *testing.T) {
	dir := t.TempDir()
	if err := begin(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	aside, err := os.MkdirTemp(dir, incomingName+"-*")
	if err == nil {
		err = os.WriteFile(filepath.Join(aside, fileName), []byte("a copy"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	begin(t, dir, Options{})
	if left, err := filepath.Glob(filepath.Join(dir, incomingName+"*")); len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestRestoreWhileRead: nothing is moved below a process that reads, which would remove the log of
// the new state as its own when it ends.
func TestRestoreWhileRead(t *testing.T) {
	file, want, blob := backedUp(t)
	dir := t.TempDir()
	if err := begin(t, dir, Options{}, notes).Close(); err != nil {
		t.Fatal(err)
	}
	r, second := begin(t, dir, Options{ReadOnly: true}, notes), begin(t, dir,
		Options{ReadOnly: true}, notes)
	if _, replaced, err := Restore(file, dir, time.Now()); !errors.Is(err, ErrReading) ||
		replaced != "" {
		t.Errorf("while it is read: replaced %q, %v", replaced, err)
	}
	if err := errors.Join(begin(t, dir, Options{}, notes).Close(), r.Close(),
		second.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(file, dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, want, blob)
}

// TestBackupIsWhole: a backup that is ended leaves no file, and the one that was there as it was.
func TestBackupIsWhole(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	s := begin(t, dir, Options{})
	if _, _, err := s.Blobs().Put(strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	blob := s.Blobs().path(DigestOf([]byte("abc")))
	if err := errors.Join(s.Close(), os.WriteFile(blob, []byte("other"), 0o600), os.WriteFile(
		filepath.Join(out, "old"), []byte("before"), 0o640)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "old"} {
		if _, err := Backup(t.Context(), dir, filepath.Join(out, name)); !errors.Is(err,
			ErrDamaged) {
			t.Errorf("of a damaged blob: %v", err)
		}
	}
	left, err := os.ReadDir(out)
	b, _ := os.ReadFile(filepath.Join(out, "old"))
	if len(left) != 1 || string(b) != "before" || err != nil {
		t.Errorf("left: %v, %q, %v", left, b, err)
	}
}

// TestBackupOfNothing: where there is no state none is made for its backup.
func TestBackupOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	file := filepath.Join(t.TempDir(), "backup.tar")
	if _, err := Backup(t.Context(), dir, file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("a folder was made")
	}
}

// TestRestoreRefuses: a backup that was cut off anywhere, changed, or is none moves nothing.
func TestRestoreRefuses(t *testing.T) {
	file, _, _ := backedUp(t)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(good, []byte("content"), []byte("CONTENT"), 1)
	other := bytes.Replace(good, []byte("two"), []byte("TWO"), 1)
	stranger := bytes.Replace(good, []byte(summaryName), []byte("../../backup.json"), 1)
	bad := map[string][]byte{"a changed blob": changed, "a changed row": other,
		"another name": stranger, "empty": nil, "text": []byte(strings.Repeat("text", 1000))}
	for n := 512; n < len(good)-2048; n += 1536 {
		bad["cut "+string(rune('a'+n%26))] = good[:n]
	}
	for name, b := range bad {
		dir := t.TempDir()
		s := begin(t, dir, Options{}, notes)
		add(t, s, "mine")
		path := filepath.Join(t.TempDir(), "backup.tar")
		if err := errors.Join(s.Close(), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, replaced, err := Restore(path, dir, time.Now()); !errors.Is(err, ErrBackup) ||
			!strings.Contains(err.Error(), path) || replaced != "" {
			t.Errorf("%s: replaced %q, %v", name, replaced, err)
		}
		if got := texts(t, begin(t, dir, Options{}, notes)); !slices.Equal(got, []string{"mine"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRestoreOfDamage: a backup that is whole, and whose state is none, moves nothing.
func TestRestoreOfDamage(t *testing.T) {
	const state = "no database, for as long as it may be"
	sum, err := json.Marshal(Summary{formatNow, DigestOf([]byte(state)), 0, int64(len(state))})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range [][2]string{{fileName, state}, {summaryName, string(sum)}} {
		if err := w.WriteHeader(&tar.Header{Name: m[0], Mode: 0o600,
			Size: int64(len(m[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m[1])); err != nil {
			t.Fatal(err)
		}
	}
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "backup.tar")
	s := begin(t, dir, Options{}, notes)
	add(t, s, "mine")
	if err := errors.Join(w.Close(), s.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, replaced, err := Restore(path, dir, time.Now()); !errors.Is(err, ErrDamaged) ||
		replaced != "" {
		t.Errorf("replaced %q, %v", replaced, err)
	}
	if got := texts(t, begin(t, dir, Options{}, notes)); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("there is %q", got)
	}
}

// TestRestoreInterrupted: a restore that was interrupted while it moved files is told of, and is
// brought to its end by another.
func TestRestoreInterrupted(t *testing.T) {
	file, want, blob := backedUp(t)
	dir := t.TempDir()
	s := begin(t, dir, Options{}, notes)
	add(t, s, "mine")
	if err := errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, restoreName), nil, 0o600),
		os.Mkdir(filepath.Join(dir, incomingName), 0o700),
		os.Remove(filepath.Join(dir, fileName))); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {ReadOnly: true}} {
		if _, err := Open(t.Context(), dir, o, notes); !errors.Is(err, ErrRestoring) {
			t.Errorf("with %+v: %v", o, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, fileName)); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty state was made")
	}
	if _, _, err := Restore(file, dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, want, blob)
}
