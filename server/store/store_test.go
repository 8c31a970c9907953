package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notes is a room for tests.
var notes = Room{Name: "notes", Migrations: []string{
	"CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;" +
		"CREATE TABLE notes_about (note INTEGER NOT NULL REFERENCES notes(id)) STRICT",
}}

// begin opens the folder, until the test ends.
func begin(t *testing.T, dir string, o Options, rooms ...Room) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, o, rooms...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// add writes notes.
func add(t *testing.T, s *Store, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := s.Write(t.Context(), insert(text)); err != nil {
			t.Fatal(err)
		}
	}
}

func insert(text string) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO notes(text) VALUES (?)", text)
		return err
	}
}

// texts are the notes in order.
func texts(t *testing.T, s *Store) []string {
	t.Helper()
	list, err := readTexts(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func readTexts(ctx context.Context, s *Store) (list []string, err error) {
	err = s.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT text FROM notes ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			list = append(list, text)
		}
		return rows.Err()
	})
	return list, err
}

// TestWrite: what a transaction wrote is there, also after the store was closed; nothing is of one
// that failed, panicked, or broke a constraint.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a%20?b#", "state")
	s := begin(t, dir, Options{}, notes)
	add(t, s, "one")
	broken := errors.New("broken")
	if err := s.Write(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(insert("two")(tx), broken)
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Write(t.Context(), func(tx *sql.Tx) error {
			_ = insert("three")(tx)
			panic("now")
		})
	}()
	err := s.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO notes(id, text) VALUES (1, 'again')")
		return err
	})
	if !errors.Is(err, ErrExists) {
		t.Errorf("a second row of one key: %v", err)
	}
	if err := s.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO notes_about VALUES (7)")
		return err
	}); err == nil || errors.Is(err, ErrExists) {
		t.Errorf("a row about none: %v", err)
	}
	add(t, s, "four")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := texts(t, begin(t, dir, Options{}, notes))
	if !slices.Equal(got, []string{"one", "four"}) {
		t.Errorf("got %q", got)
	}
}

// TestDurable: commits wait for the disk, in the mode in which they survive a loss of power.
func TestDurable(t *testing.T) {
	s := begin(t, t.TempDir(), Options{}, notes)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2",
		"foreign_keys": "1"} {
		var got string
		if err := s.Write(t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRow("PRAGMA " + pragma).Scan(&got)
		}); err != nil || got != want {
			t.Errorf("%s is %q (%v), not %q", pragma, got, err, want)
		}
	}
}

// TestReadersDoNotWait: a read sees the state from before a write that is under way.
func TestReadersDoNotWait(t *testing.T) {
	s := begin(t, t.TempDir(), Options{}, notes)
	add(t, s, "one")
	if err := s.Write(t.Context(), func(tx *sql.Tx) error {
		if err := insert("two")(tx); err != nil {
			return err
		}
		if got := texts(t, s); len(got) != 1 {
			t.Errorf("a read saw %q", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), insert("three")); err == nil {
		t.Error("a read wrote")
	}
	if got := texts(t, s); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// TestOneWriter: a second process that would write is refused, one that reads is not.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	s := begin(t, dir, Options{}, notes)
	add(t, s, "one")
	if _, err := Open(t.Context(), dir, Options{}, notes); !errors.Is(err, ErrRunning) ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("a second writer: %v", err)
	}
	r := begin(t, dir, Options{ReadOnly: true}, notes)
	add(t, s, "two")
	if got := texts(t, r); len(got) != 2 {
		t.Errorf("read %q", got)
	}
	if err := r.Write(t.Context(), insert("three")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write: %v", err)
	}
	if _, _, err := r.Blobs().Put(strings.NewReader("")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("blob: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	begin(t, dir, Options{}, notes)
}

// TestReadOnlyMakesNothing: where there is no state, reading it makes none.
func TestReadOnlyMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := Open(t.Context(), dir, Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("a folder was made")
	}
}

// TestMigrate: tables are brought from version to version with what is in them, all or none; those
// of a newer weir are refused, and those of an older one where they are only read.
func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	open := func(o Options, r Room) error {
		s, err := Open(t.Context(), dir, o, r)
		if err != nil {
			return err
		}
		return s.Close()
	}
	s := begin(t, dir, Options{}, notes)
	add(t, s, "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	broken := Room{Name: "notes", Migrations: append(slices.Clip(notes.Migrations),
		"ALTER TABLE notes ADD COLUMN more TEXT; UPDATE notes SET more = text || '!'", "nonsense")}
	if err := open(Options{}, broken); err == nil || !strings.Contains(err.Error(),
		"tables of notes, version 3") {
		t.Errorf("a migration that fails: %v", err)
	}
	if err := open(Options{}, notes); err != nil {
		t.Errorf("half of it is there: %v", err)
	}
	second := Room{Name: "notes", Migrations: broken.Migrations[:2]}
	if err := open(Options{ReadOnly: true}, second); !errors.Is(err, ErrOlder) {
		t.Errorf("reading older tables: %v", err)
	}
	for range 2 {
		if err := open(Options{}, second); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Options{{}, {ReadOnly: true}} {
		if err := open(o, notes); !errors.Is(err, ErrNewer) {
			t.Errorf("newer tables with %+v: %v", o, err)
		}
	}
	s = begin(t, dir, Options{}, second)
	var more string
	if err := s.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT more FROM notes").Scan(&more)
	}); err != nil || more != "one!" {
		t.Errorf("got %q, %v", more, err)
	}
}

// TestDamaged: a file that is none of SQLite's, one that is cut off and one with a page that was
// written over are errors that say so, and the file stays as it is.
func TestDamaged(t *testing.T) {
	whole := t.TempDir()
	s := begin(t, whole, Options{}, notes)
	add(t, s, slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(whole, fileName))
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	if len(good) < 20*page {
		t.Fatalf("the file has %d bytes", len(good))
	}
	over := bytes.Clone(good)
	copy(over[10*page:], bytes.Repeat([]byte{0xa5}, page))
	for name, b := range map[string][]byte{"no database": []byte(strings.Repeat("text ", 2000)),
		"cut": good[:len(good)/2], "overwritten": over} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), dir, Options{}, notes); !errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
	}
}

// TestTorn holds what a loss of power leaves: a log that ends anywhere gives the transactions that
// are whole in it, in order; and pages of the file that were half written are brought back from a
// log that has them.
func TestTorn(t *testing.T) {
	from := t.TempDir()
	s := begin(t, from, Options{}, notes)
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprint(i, strings.Repeat(" ", 300)))
	}
	add(t, s, want...)
	file, err := os.ReadFile(filepath.Join(from, fileName))
	log, err2 := os.ReadFile(filepath.Join(from, fileName+"-wal"))
	if err = errors.Join(err, err2); err != nil || len(log) < 40*4096 {
		t.Fatalf("log of %d bytes, %v", len(log), err)
	}
	opened := func(file, log []byte) []string {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, fileName), file, 0o600),
			os.WriteFile(filepath.Join(dir, fileName+"-wal"), log, 0o600)); err != nil {
			t.Fatal(err)
		}
		s := begin(t, dir, Options{}, notes)
		defer s.Close()
		return texts(t, s)
	}
	last := -1
	// the tables themselves are in the first transaction, which every server has awaited
	for cut := len(log); cut > len(log)/2; cut -= 2777 {
		got := opened(file, log[:cut])
		if !slices.Equal(got, want[:len(got)]) || last >= 0 && len(got) > last {
			t.Fatalf("a log of %d bytes gave %q", cut, got)
		}
		last = len(got)
	}
	if last == len(want) {
		t.Error("no cut lost anything")
	}
	torn := bytes.Clone(file)
	for i := range torn[100:] {
		if i%512 < 256 {
			torn[100+i] = 0xa5
		}
	}
	if got := opened(torn, log); !slices.Equal(got, want) {
		t.Errorf("pages of the file that the log has: %q", got)
	}
}

// TestBlobs: a blob is what was put, by its digest; one that was changed is found.
func TestBlobs(t *testing.T) {
	dir := t.TempDir()
	s := begin(t, dir, Options{})
	b := s.Blobs()
	content := bytes.Repeat([]byte("weights "), 100_000)
	for range 2 {
		d, size, err := b.Put(bytes.NewReader(content))
		if err != nil || d != DigestOf(content) || size != int64(len(content)) {
			t.Fatalf("%s, %d bytes, %v", d, size, err)
		}
	}
	d := DigestOf(content)
	f, err := b.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(content)+1)
	if n, _ := f.Read(got); n != len(content) || !bytes.Equal(got[:n], content) {
		t.Errorf("read %d bytes", n)
	}
	if err := b.Verify(d); err != nil {
		t.Error(err)
	}
	count := 0
	if err := b.Each(func(each Digest, size int64) error {
		if count++; each != d || size != int64(len(content)) {
			t.Errorf("%s, %d bytes", each, size)
		}
		return nil
	}); err != nil || count != 1 {
		t.Errorf("%d blobs, %v", count, err)
	}
	if err := os.WriteFile(b.path(d), content[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(d); !errors.Is(err, ErrDamaged) {
		t.Errorf("changed: %v", err)
	}
	for range 2 {
		if err := b.Remove(d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Open(d); !errors.Is(err, ErrNoBlob) {
		t.Errorf("removed: %v", err)
	}
}

// TestBlobDigests: a name from outside is a digest or refused, and never a path.
func TestBlobDigests(t *testing.T) {
	b := begin(t, t.TempDir(), Options{}).Blobs()
	for _, d := range []Digest{"", "sha256:", "sha256:../../state.db", DigestOf(nil)[7:],
		"sha256:" + Digest(strings.Repeat("A", 64)), DigestOf(nil) + "0"} {
		_, err := b.Open(d)
		if err == nil || !strings.Contains(err.Error(), "give sha256:") {
			t.Errorf("open %q: %v", d, err)
		}
		if err := b.Remove(d); err == nil {
			t.Errorf("remove %q", d)
		}
	}
}

// roomOf is a room whose rows name blobs.
func roomOf(room string) Room {
	return Room{Name: room, Migrations: []string{"CREATE TABLE " + room +
		"_rows (digest TEXT NOT NULL) STRICT"}, Blobs: []string{"SELECT digest FROM " + room +
		"_rows"}}
}

// keepIn makes a blob that a row of a room names.
func keepIn(t *testing.T, s *Store, room, content string) Digest {
	t.Helper()
	p, err := s.Blobs().Stage(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context(), p, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO "+room+"_rows VALUES (?)", p.Digest)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p.Digest
}

// TestBlobsOfOtherRooms: blobs that rows of a room name stay, also where the folder is opened by a
// weir that does not know the room: one from before it.
func TestBlobsOfOtherRooms(t *testing.T) {
	dir := t.TempDir()
	s := begin(t, dir, Options{}, roomOf("old"), roomOf("new"))
	old, later := keepIn(t, s, "old", "one"), keepIn(t, s, "new", "two")
	stray, _, err := s.Blobs().Put(strings.NewReader("three"))
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, rooms := range [][]Room{{roomOf("old")}, {}, {notes}, {roomOf("old"), roomOf("new")}} {
		s := begin(t, dir, Options{}, rooms...)
		if err := errors.Join(s.Blobs().Verify(old), s.Blobs().Verify(later)); err != nil {
			t.Errorf("with %d rooms: %v", len(rooms), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = begin(t, dir, Options{}, notes, roomOf("old"), roomOf("new"))
	if err := s.Blobs().Verify(stray); !errors.Is(err, ErrNoBlob) {
		t.Errorf("a blob that no row names: %v", err)
	}
}

// TestFoldersAreSynced: a folder is on the disk with what is in it: that of the state with those
// above it, and that of a blob also where a process that died had made it.
func TestFoldersAreSynced(t *testing.T) {
	dir := t.TempDir()
	blobs := filepath.Join(dir, blobsName)
	// where "abc" belongs (FIPS 180-4, appendix B.1)
	if err := os.MkdirAll(filepath.Join(blobs, "ba"), 0o700); err != nil {
		t.Fatal(err)
	}
	was := syncFolder
	defer func() { syncFolder = was }()
	synced := map[string]bool{}
	syncFolder = func(dir string) error {
		synced[dir] = true
		return was(dir)
	}
	s := begin(t, dir, Options{})
	if _, _, err := s.Blobs().Put(strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	begin(t, filepath.Join(dir, "of", "another"), Options{})
	for _, path := range []string{dir, blobs, filepath.Join(blobs, "ba"),
		filepath.Join(dir, "of")} {
		if !synced[path] {
			t.Errorf("%s may be lost with the power", path)
		}
	}
}

// TestBlobUnderWay: nothing stays of a blob whose source fails, nor of one whose process died.
func TestBlobUnderWay(t *testing.T) {
	dir := t.TempDir()
	s := begin(t, dir, Options{})
	if _, _, err := s.Blobs().Put(failing{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, blobsName, partName+"7"),
		nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	begin(t, dir, Options{})
	if left, err := os.ReadDir(filepath.Join(dir, blobsName)); len(left) != 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// failing gives a few bytes and then an error.
type failing struct{}

// Read implements io.Reader.
func (failing) Read(p []byte) (int, error) { return 3, os.ErrDeadlineExceeded }
