package shm_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/server/shm"
)

// shared makes shared memory, and returns its key.
func shared(t *testing.T, contents []byte) string {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "test-region-")
	if err != nil {
		t.Skip("no shared memory here:", err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.Write(contents); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(f.Name(), "/dev/shm")
}

func regions(t *testing.T, prefix string) *shm.Regions {
	t.Helper()
	r, err := shm.New(prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func get(t *testing.T, r *shm.Regions, account, name string) *shm.Region {
	t.Helper()
	g, err := r.Get(account, name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestReadWrite: what a client has put there is read, and what is written it sees, from the
// region's offset on; nothing outside of the region is reached.
func TestReadWrite(t *testing.T) {
	r, key := regions(t, "/"), shared(t, []byte("0123456789abcdef"))
	if err := r.Register("", shm.Info{Name: "a", Key: key, Offset: 4, Size: 8}); err != nil {
		t.Fatal(err)
	}
	g := get(t, r, "", "a")
	defer g.Close()
	p := make([]byte, 3)
	if err := g.Read(p, 5); err != nil || string(p) != "9ab" {
		t.Errorf("%q, %v", p, err)
	}
	if err := g.Write([]byte("XY"), 0); err != nil {
		t.Error(err)
	}
	if all, _ := os.ReadFile("/dev/shm" + key); string(all) != "0123XY6789abcdef" {
		t.Errorf("%q", all)
	}
	for _, c := range []struct{ offset, size int64 }{{6, 3}, {9, 0}, {-1, 1}, {1, 8},
		{math.MaxInt64, 2}, {2, math.MaxInt64}, {0, -1}} {
		if err := g.Holds(c.offset, c.size); !errors.Is(err, shm.ErrInvalid) {
			t.Errorf("%d bytes from %d on: %v", c.size, c.offset, err)
		}
	}
	if err := g.Write(make([]byte, 4), 5); !errors.Is(err, shm.ErrInvalid) {
		t.Errorf("written behind the end: %v", err)
	}
}

// TestRefused: keys that lead elsewhere and parts that are not there are refused.
func TestRefused(t *testing.T) {
	r, key := regions(t, "/test-"), shared(t, make([]byte, 16))
	link, pipe := "/dev/shm/test-link-"+key[1:], "/dev/shm/test-pipe-"+key[1:]
	if err := errors.Join(os.Symlink("/etc/passwd", link), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	other := "/dev/shm/other-" + key[1:]
	if err := os.WriteFile(other, make([]byte, 16), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Remove(link), os.Remove(pipe), os.Remove(other)) })
	for _, in := range []shm.Info{
		{Name: "", Key: key, Size: 1},
		{Name: strings.Repeat("n", 256), Key: key, Size: 1},
		{Name: "a", Key: key[1:], Size: 1},
		{Name: "a", Key: "/", Size: 1},
		{Name: "a", Key: "/..", Size: 1},
		{Name: "a", Key: "/test-/../../../etc/passwd", Size: 1},
		{Name: "a", Key: "/test-\x00", Size: 1},
		{Name: "a", Key: strings.TrimPrefix(other, "/dev/shm"), Size: 1},
		{Name: "a", Key: "/test-nothing", Size: 1},
		{Name: "a", Key: strings.TrimPrefix(link, "/dev/shm"), Size: 1},
		{Name: "a", Key: strings.TrimPrefix(pipe, "/dev/shm"), Size: 1},
		{Name: "a", Key: key, Size: 17},
		{Name: "a", Key: key, Size: 0},
		{Name: "a", Key: key, Size: -1},
		{Name: "a", Key: key, Offset: 16, Size: 1},
		{Name: "a", Key: key, Offset: -1, Size: 2},
		{Name: "a", Key: key, Offset: math.MaxInt64, Size: 2},
		{Name: "a", Key: key, Offset: 2, Size: math.MaxInt64},
	} {
		if err := r.Register("", in); !errors.Is(err, shm.ErrInvalid) {
			t.Errorf("%.60v: %v", in, err)
		}
	}
	if list := r.List(""); len(list) != 0 {
		t.Errorf("registered all the same: %v", list)
	}
	for _, prefix := range []string{"", "weir", "/a/b"} {
		if _, err := shm.New(prefix); !errors.Is(err, shm.ErrInvalid) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// TestUnregisteredBetween: what has a region goes on with it though it is unregistered meanwhile.
func TestUnregisteredBetween(t *testing.T) {
	r, key := regions(t, "/"), shared(t, []byte("0123456789"))
	if err := r.Register("", shm.Info{Name: "a", Key: key, Size: 10}); err != nil {
		t.Fatal(err)
	}
	g := get(t, r, "", "a")
	r.Unregister("", "a")
	p := make([]byte, 3)
	if err := errors.Join(g.Read(p, 7), g.Write([]byte("x"), 0)); err != nil || string(p) != "789" {
		t.Errorf("%q, %v", p, err)
	}
	g.Close()
	if err := g.Read(p, 0); err == nil {
		t.Error("its memory is open still after the last use")
	}
}

// TestShorter: memory that is cut off while it is registered is an error, and does not become
// longer again.
func TestShorter(t *testing.T) {
	r, key := regions(t, "/"), shared(t, make([]byte, 8192))
	if err := r.Register("", shm.Info{Name: "a", Key: key, Size: 8192}); err != nil {
		t.Fatal(err)
	}
	g := get(t, r, "", "a")
	defer g.Close()
	if err := os.Truncate("/dev/shm"+key, 10); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8192)
	if err := g.Read(p, 0); !errors.Is(err, shm.ErrInvalid) {
		t.Errorf("read: %v", err)
	}
	if err := g.Write(p, 0); !errors.Is(err, shm.ErrInvalid) {
		t.Errorf("write: %v", err)
	}
	if s, err := os.Stat("/dev/shm" + key); err != nil || s.Size() != 10 {
		t.Errorf("%d bytes, %v", s.Size(), err)
	}
}

// TestAccounts: a region is there for the account that registered it only, and memory that one has
// registered no other can.
func TestAccounts(t *testing.T) {
	r, key := regions(t, "/"), shared(t, []byte("ann's"))
	in := shm.Info{Name: "a", Key: key, Size: 5}
	if err := r.Register("ann", in); err != nil {
		t.Fatal(err)
	}
	if err := r.Register("ann", in); !errors.Is(err, shm.ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if err := r.Register("bob", in); !errors.Is(err, shm.ErrExists) {
		t.Errorf("of another account: %v", err)
	}
	if _, err := r.Get("bob", "a"); !errors.Is(err, shm.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if list := r.List("bob"); len(list) != 0 {
		t.Errorf("bob sees %v", list)
	}
	r.UnregisterAll("bob")
	r.Unregister("bob", "a")
	if list := r.List("ann"); len(list) != 1 || list[0] != in {
		t.Errorf("ann has %v", list)
	}
	other := in
	other.Name = "b" // the same memory twice is the account's own affair
	if err := r.Register("ann", other); err != nil {
		t.Error(err)
	}
	r.UnregisterAll("ann")
	if err := r.Register("bob", in); err != nil {
		t.Errorf("once it is free: %v", err)
	}
}

// TestMany: an account has so many regions at most.
func TestMany(t *testing.T) {
	r, key := regions(t, "/"), shared(t, make([]byte, 1))
	for i := range shm.Max {
		if err := r.Register("a", shm.Info{Name: fmt.Sprint(i), Key: key, Size: 1}); err != nil {
			t.Skip("not as many files may be open here:", err)
		}
	}
	if err := r.Register("a", shm.Info{Name: "x", Key: key, Size: 1}); !errors.Is(err,
		shm.ErrInvalid) {
		t.Errorf("one more: %v", err)
	}
}

// TestManyOfAll: accounts together leave most files to others, whatever each of them may have.
func TestManyOfAll(t *testing.T) {
	var limit, few unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few = limit
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	r, key := regions(t, "/test-"), shared(t, make([]byte, 16))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for i := range 17 {
		key := key
		if i%2 > 0 {
			key = shared(t, make([]byte, 16))
		}
		err := r.Register([]string{"ann", "bob"}[i%2], shm.Info{Name: fmt.Sprint(i), Key: key,
			Size: 1})
		if (err != nil) != (i == 16) || err != nil && !errors.Is(err, shm.ErrInvalid) {
			t.Errorf("region %d: %v", i, err)
		}
	}
	r.Unregister("ann", "0")
	if err := r.Register("ann", shm.Info{Name: "a", Key: key, Size: 1}); err != nil {
		t.Error(err)
	}
}

// TestUnregisteredInUse: a region that is unregistered while requests use it stays for them.
func TestUnregisteredInUse(t *testing.T) {
	r, key := regions(t, "/"), shared(t, bytes.Repeat([]byte{7}, 64))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			p := make([]byte, 64)
			for range 200 {
				g, err := r.Get("", "a")
				if err != nil {
					continue
				}
				if err := errors.Join(g.Read(p, 0), g.Write(p, 0)); err != nil || p[63] != 7 {
					t.Error(err, p[63])
				}
				g.Close()
			}
		})
	}
	for range 200 {
		if err := r.Register("", shm.Info{Name: "a", Key: key, Size: 64}); err != nil {
			t.Error(err)
		}
		r.Unregister("", "a")
	}
	wait.Wait()
}
