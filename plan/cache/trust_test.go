package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/plan"
)

// warnings makes a cache write its warnings, one a line, to the buffer that it returns.
func (c *Cache) warnings() *bytes.Buffer {
	var b bytes.Buffer
	c.log = slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return &b
}

func lines(b *bytes.Buffer) int { return strings.Count(b.String(), "\n") }

// stranger makes files whose names have a suffix another user's.
func (c *Cache) stranger(suffix string) {
	c.owner = func(info fs.FileInfo) (int, error) {
		if strings.HasSuffix(info.Name(), suffix) {
			return c.user + 1, nil
		}
		return ownerOf(info)
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// openDir is a folder that other users can get at, as far as those above it let them.
func openDir(t *testing.T) (dir string, shut bool) {
	t.Helper()
	dir = t.TempDir()
	chmod(t, filepath.Dir(dir), 0o755)
	chmod(t, dir, 0o755)
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		shut = shut || info.Mode()&enteredByOthers == 0
	}
	return dir, shut
}

// TestUntrustedFolder starts a model with folders that another user could have written, and with
// some that look so and are safe. The former serve nothing that is in them and get nothing, and the
// log has one warning.
func TestUntrustedFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	want, _ := start(t, nil, path, plan.Options{Target: host})
	above := func(t *testing.T, c *Cache) string { return filepath.Dir(c.dir) }
	for name, tc := range map[string]struct {
		change  func(t *testing.T, c *Cache)
		trusted bool
	}{
		"written by the group": {func(t *testing.T, c *Cache) { chmod(t, c.dir, 0o770) }, false},
		"written by others":    {func(t *testing.T, c *Cache) { chmod(t, c.dir, 0o702) }, false},
		"sticky": {func(t *testing.T,
			c *Cache) {
			chmod(t, c.dir, 0o777|fs.ModeSticky)
		}, false},
		"read by others": {func(t *testing.T, c *Cache) { chmod(t, c.dir, 0o755) }, true},
		"another's": {func(t *testing.T, c *Cache) {
			// the root handle gives its own name, "."
			c.owner = func(fs.FileInfo) (int, error) { return c.user + 1, nil }
		}, false},
		"root's": {func(t *testing.T, c *Cache) {
			c.user, c.owner = 12345, func(fs.FileInfo) (int, error) { return 0, nil }
		}, true},
		"below one of another": {func(t *testing.T, c *Cache) {
			c.stranger(filepath.Base(above(t, c)))
		}, false},
		"below one that others write": {func(t *testing.T, c *Cache) {
			chmod(t, above(t, c), 0o777)
		}, false},
		"below a sticky one": {func(t *testing.T, c *Cache) {
			chmod(t, above(t, c), 0o777|fs.ModeSticky)
		}, true},
		"below one that others write and cannot get at": {func(t *testing.T, c *Cache) {
			chmod(t, above(t, c), 0o777)
			chmod(t, filepath.Dir(above(t, c)), 0o700)
		}, true},
		"a link": {func(t *testing.T, c *Cache) {
			symlink(t, c.dir, c.dir+"-link")
			c.dir += "-link"
		}, true},
		"a link to one that others write": {func(t *testing.T, c *Cache) {
			chmod(t, c.dir, 0o777)
			symlink(t, c.dir, c.dir+"-link")
			c.dir += "-link"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, shut := openDir(t)
			if shut && strings.HasPrefix(name, "below one that others write") {
				t.Skip("the folder for temporary files is shut to others")
			}
			c := newCache(t)
			c.dir = filepath.Join(dir, "plans")
			start(t, c, path, plan.Options{Target: host})
			before := c.files(t, "")
			fresh := newCache(t)
			fresh.dir = c.dir
			warned := fresh.warnings()
			tc.change(t, fresh)
			for range 2 {
				got, cached := start(t, fresh, path, plan.Options{Target: host})
				if cached != tc.trusted || !bytes.Equal(got, want) {
					t.Errorf("from the cache: %v; right: %v", cached, bytes.Equal(got, want))
				}
			}
			if err := fresh.KeepChoices(host, someChoices); (err == nil) != tc.trusted ||
				!tc.trusted && !errors.Is(err, errUntrusted) {
				t.Errorf("keeping choices: %v", err)
			}
			if n := lines(warned); tc.trusted == (n > 0) || n > 1 {
				t.Errorf("%d lines of warnings: %s", n, warned)
			}
			if after := c.files(t, ""); !tc.trusted && len(after) != len(before) {
				t.Errorf("files %v became %v", before, after)
			}
		})
	}
}

// TestNothingMadeElsewhere has the folder still to be made where it would be refused, as when root
// runs a program with the home of a user: nothing is made there.
func TestNothingMadeElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	dir, _ := openDir(t)
	c := newCache(t)
	c.dir = filepath.Join(dir, "weir", "plans")
	c.stranger(filepath.Base(dir))
	warned := c.warnings()
	for range 2 {
		start(t, c, path, plan.Options{Target: host})
	}
	if err := c.KeepChoices(host, someChoices); !errors.Is(err, errUntrusted) {
		t.Errorf("keeping choices: %v", err)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 || lines(warned) != 1 {
		t.Errorf("%v was made, error %v; want one warning: %s", made, err, warned)
	}
}

// TestUntrustedFiles makes each kind of file one that another user could have written. It is not
// used, told of once, and made anew.
func TestUntrustedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	want, _ := start(t, nil, path, plan.Options{Target: host})
	away := t.TempDir()
	for _, suffix := range []string{planSuffix, recordSuffix, receiptSuffix, choicesSuffix} {
		for what, change := range map[string]func(c *Cache, name string){
			"written by the group": func(_ *Cache, name string) { chmod(t, name, 0o620) },
			"written by others":    func(_ *Cache, name string) { chmod(t, name, 0o602) },
			"another's":            func(c *Cache, _ string) { c.stranger(suffix) },
			"a link": func(_ *Cache, name string) {
				to := filepath.Join(away, filepath.Base(name))
				if err := os.Rename(name, to); err != nil {
					t.Fatal(err)
				}
				symlink(t, to, name)
			},
			"a link in the folder": func(_ *Cache, name string) {
				if err := os.Rename(name, name+"2"); err != nil {
					t.Fatal(err)
				}
				symlink(t, filepath.Base(name)+"2", name)
			},
			"a folder": func(_ *Cache, name string) {
				if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
					t.Fatal(err)
				}
			},
		} {
			c := newCache(t)
			start(t, c, path, plan.Options{Target: host})
			if err := c.KeepChoices(host, someChoices); err != nil {
				t.Fatal(err)
			}
			start(t, c, path, plan.Options{Target: host})
			name := c.only(t, suffix)
			whole, warned := read(t, name), c.warnings()
			change(c, name)
			got, cached := start(t, c, path, plan.Options{Target: host})
			if cached == (suffix == planSuffix) || !bytes.Equal(got, want) {
				t.Errorf("*%s %s: plan from the cache: %v; right: %v", suffix, what, cached,
					bytes.Equal(got, want))
			}
			if lines(warned) != 1 || !strings.Contains(warned.String(), filepath.Base(name)) {
				t.Errorf("*%s %s: warnings %q, want one line that names the file", suffix, what,
					warned)
			}
			c.owner = ownerOf
			if err := c.KeepChoices(host, someChoices); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 ||
				suffix != receiptSuffix && !bytes.Equal(read(t, name), whole) {
				t.Errorf("*%s %s: not made anew as it was: %v, %v", suffix, what, info, err)
			}
			if got := c.Choices(host); !maps.Equal(got, someChoices) {
				t.Errorf("*%s %s: choices %v", suffix, what, got)
			}
		}
	}
}

// TestSwappedEntry gives an entry of another model the place of a model's own, with and without the
// receipt that it came with, whole and with the model's key written into it.
func TestSwappedEntry(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1.onnx"), filepath.Join(dir, "2.onnx")
	smallModel(t, one, 1)
	smallModel(t, two, 2)
	c, other := newCache(t), newCache(t)
	want, _ := start(t, c, one, plan.Options{Target: host})
	start(t, other, two, plan.Options{Target: host})
	name, receipt := c.only(t, planSuffix), c.only(t, receiptSuffix)
	whole, foreign := read(t, name), read(t, other.only(t, planSuffix))
	keyed := bytes.Clone(foreign)
	copy(keyed[headBytes:], whole[headBytes:headBytes+len(key{})])
	for what, entry := range map[string][]byte{"of another": foreign, "with this key": keyed} {
		for _, r := range [][]byte{nil, read(t, receipt), read(t, other.only(t, receiptSuffix))} {
			write(t, name, entry)
			if err := os.Remove(receipt); err != nil {
				t.Fatal(err)
			}
			if r != nil {
				write(t, receipt, r)
			}
			warned := c.warnings()
			got, cached := start(t, c, one, plan.Options{Target: host})
			if cached || !bytes.Equal(got, want) || lines(warned) != 1 {
				t.Errorf("an entry %s: from the cache: %v; right: %v; warnings %q", what, cached,
					bytes.Equal(got, want), warned)
			}
			if !bytes.Equal(read(t, name), whole) {
				t.Errorf("an entry %s is still there", what)
			}
		}
	}
}

// TestReceipts holds that the SHA-256 of an entry's parts decides unless a receipt says that this
// very file had it, and that CRC-32C then finds damage.
func TestReceipts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	name, receipt := c.only(t, planSuffix), c.only(t, receiptSuffix)
	whole := read(t, name)
	e, err := parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	sums := headBytes + 2*len(key{})
	digests := sums + len(e.sums)
	for what, tc := range map[string]struct {
		damage       int // the byte, under a right digest of the table
		first, again bool
	}{
		"a wrong CRC-32C": {sums, true, false}, "a wrong SHA-256": {digests, false, true}} {
		damaged := flipped(whole, tc.damage)
		resign(damaged)
		write(t, name, damaged)
		if _, cached := start(t, c, path, plan.Options{Target: host}); cached != tc.first {
			t.Errorf("%s, without a receipt: from the cache: %v", what, cached)
		}
		if !tc.first { // the entry was made anew: give the damaged one a receipt
			write(t, name, damaged)
			if err := c.forge(name); err != nil {
				t.Fatal(err)
			}
		}
		if _, cached := start(t, c, path, plan.Options{Target: host}); cached != tc.again {
			t.Errorf("%s, with a receipt: from the cache: %v", what, cached)
		}
		write(t, name, whole)
	}
	testForeignReceipts(t, c, path, name, flipped(whole, digests))
	if err := os.Remove(receipt); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with every byte right
		if _, cached := start(t, c, path, plan.Options{Target: host}); !cached {
			t.Error("not from the cache")
		}
		read(t, receipt)
	}
}

// testForeignReceipts starts a model whose entry has a wrong SHA-256 and a receipt that is not the
// entry's or the file's.
func testForeignReceipts(t *testing.T, c *Cache, path, name string, damaged []byte) {
	t.Helper()
	resign(damaged)
	for what, change := range map[string]func(r *receipt){
		"file":  func(r *receipt) { r.File.Changed++ },
		"entry": func(r *receipt) { r.Root[0]++ },
	} {
		whole := read(t, name)
		write(t, name, damaged)
		id, err := identityAt(name, "")
		if err != nil {
			t.Fatal(err)
		}
		r := receipt{Root: key(damaged[len(magic):digestEnd]), File: id}
		change(&r)
		if err := c.giveReceipt(filepath.Base(name), r); err != nil {
			t.Fatal(err)
		}
		if _, cached := start(t, c, path, plan.Options{Target: host}); cached {
			t.Errorf("from the cache by the receipt of another %s", what)
		}
		write(t, name, whole)
	}
}

// forge gives an entry the receipt that it would have if it had been verified.
func (c *Cache) forge(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	e, err := parse(data)
	if err != nil {
		return err
	}
	id, err := identityAt(name, "")
	if err != nil {
		return err
	}
	return c.giveReceipt(filepath.Base(name), receipt{Root: e.digest, File: id})
}

// TestDamagedChunks flips a bit of each chunk, which both ways of verifying find.
func TestDamagedChunks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	data := read(t, c.only(t, planSuffix))
	e, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	nc := chunks(len(e.constants))
	for _, known := range []bool{false, true} {
		for helpers := range 2 {
			if err := e.verify(helpers, known); err != nil {
				t.Fatal(err)
			}
			for i := range nc + chunks(len(e.weights)) {
				chunk := e.chunk(i, nc)
				for _, at := range []int{0, len(chunk) / 2, len(chunk) - 1} {
					chunk[at] ^= 4
					if err := e.verify(helpers, known); !errors.Is(err, errDamaged) {
						t.Errorf("chunk %d, byte %d, %d helpers, known: %v: error %v", i, at,
							helpers, known, err)
					}
					chunk[at] ^= 4
				}
			}
		}
	}
}

// TestOnlyConstantsLeave: what becomes of chunks that were compared is done to all constants, and
// not to weights.
func TestOnlyConstantsLeave(t *testing.T) {
	e := &entry{constants: make([]byte, 3*chunkBytes/2), weights: make([]byte, 2*chunkBytes),
		sums: make([]byte, 4*4)}
	for i := range 4 {
		binary.LittleEndian.PutUint32(e.sums[4*i:], checksum(e.chunk(i, 2)))
	}
	var left []int
	c := check{entry: e, known: true,
		checked: func(chunk []byte) { left = append(left, len(chunk)) }}
	c.begin(0)
	if err := c.end(); err != nil || !slices.Equal(left, []int{chunkBytes, chunkBytes / 2}) {
		t.Errorf("chunks of %v bytes are let go, error %v", left, err)
	}
}

// TestChangedAfterVerification overwrites and cuts short the file of an entry that is in use. The
// plan computes what it would have.
func TestChangedAfterVerification(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	want, _ := start(t, nil, path, plan.Options{Target: host})
	for what, lease := range map[string]func(*os.File) error{"with leases": takeLease,
		"without": func(*os.File) error { return errors.ErrUnsupported }} {
		c := newCache(t)
		c.lease = lease
		start(t, c, path, plan.Options{Target: host})
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		compiled := m.Find(context.Background(),
			plan.Options{Target: host, Shapes: oneImage, Threads: 2})
		if !compiled.Cached() {
			t.Fatalf("%s: not found", what)
		}
		before := bytes.Clone(compiled.Weights)
		name := c.only(t, planSuffix)
		write(t, name, make([]byte, len(read(t, name)))) // which cuts it to nothing first
		if !bytes.Equal(compiled.Weights, before) {
			t.Errorf("%s: the weights have changed", what)
		}
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
		if got := runCompiled(t, compiled); !bytes.Equal(got, want) {
			t.Errorf("%s: other outputs than before the change", what)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenForWriting finds an entry that somebody has open for writing, who may change it at any
// time: it is used as it is now.
func TestOpenForWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	want, _ := start(t, c, path, plan.Options{Target: host})
	f, err := os.OpenFile(c.only(t, planSuffix), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	compiled := m.Find(context.Background(),
		plan.Options{Target: host, Shapes: oneImage, Threads: 2})
	if !compiled.Cached() {
		t.Fatal("not found")
	}
	if err := f.Truncate(1); err != nil {
		t.Fatal(err)
	}
	if got := runCompiled(t, compiled); !bytes.Equal(got, want) {
		t.Error("other outputs than before the change")
	}
}

// TestFindCancelled looks for an entry when nobody waits for it any more: there is no plan, and the
// entry is neither damaged nor gone.
func TestFindCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	o := plan.Options{Target: host}
	start(t, c, path, o)
	o.Shapes, o.Threads = oneImage, 2
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if m.Find(ctx, o).Plan != nil {
		t.Error("a plan was made after its context was done")
	}
	if _, err := m.Compile(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("compiling after the context was done: error %v", err)
	}
	if !m.Find(context.Background(), o).Cached() {
		t.Error("the entry is gone")
	}
}
