package server

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/shm"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
)

// madeAnew returns contexts of an account that was removed, and of one with its name made after.
func madeAnew(t *testing.T) (old, now context.Context) {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{}, audit.Room, auth.Room)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := audit.Open(t.Context(), s, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	book, err := auth.Open(t.Context(), s, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := func() context.Context {
		err := book.Add(t.Context(), auth.Account{Name: "ann", Weight: 1})
		a, more := book.Account("ann")
		if err := errors.Join(err, more); err != nil {
			t.Fatal(err)
		}
		return auth.With(t.Context(), a)
	}
	old = made()
	if err := book.Remove(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	return old, made()
}

// TestAccountMadeAnew: an account that is made under the name of one that was removed has none of
// its shared memory, sequences and answers that are kept.
func TestAccountMadeAnew(t *testing.T) {
	old, now := madeAnew(t)
	s := begin(t, Options{Cache: 1 << 20, Memory: "/"}, counter,
		configured(t, times("m", 2), `response_cache { enable: true }`))
	_, key := sharedFile(t, 4096)
	if err := s.RegisterMemory(old, shm.Info{Name: "r", Key: key, Size: 4096}); err != nil {
		t.Fatal(err)
	}
	lent := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: &tensor.Tensor{
		DType: tensor.Float32, Shape: []int{1, 2}}, Region: &oip.Region{Name: "r", Size: 8}}}}
	for ctx, want := range map[context.Context]bool{old: true, now: false} {
		list, err := s.Memory(ctx, "")
		if err != nil || (len(list) > 0) != want {
			t.Errorf("shared memory %v, %v; want some: %v", list, err, want)
		}
		if a, err := s.Infer(ctx, "m", "", lent); (err == nil) != want {
			t.Errorf("an input in shared memory: %v; want it read: %v", err, want)
		} else if err == nil {
			a.Close()
		}
	}
	if err := s.UnregisterMemory(now, ""); err != nil {
		t.Error(err)
	}
	if list, err := s.Memory(old, ""); err != nil || len(list) == 0 {
		t.Errorf("the old account's memory went with the new one's: %v", err)
	}
	if _, err := count(old, s, 1, int64(7), true, false); err != nil {
		t.Fatal(err)
	}
	if y, err := count(now, s, 1, int64(7), false, false); err == nil {
		t.Errorf("the sequence of the old account goes on with %d", y)
	}
	before := hits(t, s)
	for _, ctx := range []context.Context{old, now} {
		a, err := s.Infer(ctx, "m", "", &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: tensor.From([]float32{7, 1}, 1, 2)}}})
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
	if got := hits(t, s); got != before {
		t.Errorf("%d answers are the old account's", got-before)
	}
}

// hits is how many requests were answered by an answer that was kept.
func hits(t *testing.T, s *Server) uint64 {
	t.Helper()
	list, err := s.Statistics("m", "")
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Requests.CacheHit.Count
}

// hidden is a connection of which the system does not say whose it is.
type hidden struct{ net.Conn }

func (hidden) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// TestStrangersHaveTheirOwn: who is not known to be the server's user has, where there are no
// accounts, none of the shared memory and sequences of who is, by whichever of them they are asked
// for; and takes no memory of the server's user that not all may have.
func TestStrangersHaveTheirOwn(t *testing.T) {
	s := begin(t, Options{Memory: "/"}, counter, times("m", 2))
	path, key := sharedFile(t, 4096)
	own, other := t.Context(), auth.Connected(t.Context(), hidden{})
	in := shm.Info{Name: "r", Key: key, Size: 4096}
	if err := s.RegisterMemory(other, in); oip.KindOf(err) != oip.Invalid {
		t.Errorf("memory of the server's user: %v", err)
	}
	if err := s.RegisterMemory(own, in); err != nil {
		t.Fatal(err)
	}
	lent := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: &tensor.Tensor{
		DType: tensor.Float32, Shape: []int{1, 2}}, Region: &oip.Region{Name: "r", Size: 8}}}}
	into := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: tensor.From([]float32{7, 1}, 1,
		2)}}, Outputs: []oip.Output{{Name: "y", Region: &oip.Region{Name: "r", Size: 8}}}}
	for _, r := range []*oip.Request{lent, into} {
		for ctx, want := range map[context.Context]bool{own: true, other: false} {
			if a, err := s.Infer(ctx, "m", "", r); (err == nil) != want {
				t.Errorf("a region of the server's user: %v; want it taken: %v", err, want)
			} else if err == nil {
				a.Close()
			}
		}
	}
	if list, err := s.Memory(other, ""); err != nil || len(list) > 0 {
		t.Errorf("a stranger sees %v, %v", list, err)
	}
	if err := s.UnregisterMemory(other, ""); err != nil {
		t.Error(err)
	}
	if list, err := s.Memory(own, ""); err != nil || len(list) != 1 {
		t.Errorf("what is the server's user's went with a stranger's: %v, %v", list, err)
	}
	if err := errors.Join(s.UnregisterMemory(own, ""), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := s.RegisterMemory(other, in); err != nil {
		t.Errorf("memory that all may have: %v", err)
	}
	if _, err := count(own, s, 1, int64(7), true, false); err != nil {
		t.Fatal(err)
	}
	if y, err := count(other, s, 1, int64(7), false, false); err == nil {
		t.Errorf("the sequence of the server's user goes on with %d", y)
	}
}
