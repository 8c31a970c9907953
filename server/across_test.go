package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// TestAccountsAcross: over HTTP, an account that asks three models at once does not keep another,
// which asks a fourth one after it, from the device.
func TestAccountsAcross(t *testing.T) {
	var sources []Source
	var entered, leave [4]chan struct{}
	for i := range entered {
		entered[i], leave[i] = make(chan struct{}, 9), make(chan struct{}, 9)
		sources = append(sources, held(fmt.Sprint("m", i), entered[i], leave[i], nil))
	}
	s := begin(t, Options{}, sources...)
	done := make(chan int, 9)
	post := func(account string, model int) {
		r := httptest.NewRequest("POST", fmt.Sprintf("http://localhost/v2/models/m%d/infer", model),
			strings.NewReader(holdBody))
		r = r.WithContext(auth.With(r.Context(), &auth.Account{Name: account, Weight: 1}))
		w := httptest.NewRecorder()
		go func() {
			s.ServeHTTP(w, r)
			done <- w.Code
		}()
	}
	waiting := func(n int) {
		t.Helper()
		for {
			s.across.mu.Lock()
			got := len(s.across.goes)
			s.across.mu.Unlock()
			if got == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	post("ann", 0)
	<-entered[0]
	post("ann", 1)
	for s.models["m1"].newest().job.Usage().Queue == 0 { // it is at the host
		time.Sleep(time.Millisecond)
	}
	post("ann", 2)
	waiting(1)
	post("bob", 3)
	waiting(2)
	leave[0] <- struct{}{}
	atHost := func(model string) bool { return s.models[model].newest().job.Usage().Queue > 0 }
	for !atHost("m3") && !atHost("m2") {
		time.Sleep(time.Millisecond)
	}
	if waiting(1); atHost("m2") || !atHost("m3") {
		t.Error("ann's third batch goes before bob's first")
	}
	for _, c := range leave[1:] {
		c <- struct{}{}
	}
	for range 4 {
		if code := <-done; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	s.across.mu.Lock()
	defer s.across.mu.Unlock()
	if len(s.across.goes) > 0 {
		t.Errorf("%d are left", len(s.across.goes))
	}
}

// TestAccountsPart: of what is bounded for all, sequences and the bytes of requests that wait, an
// account has its part by its weight, and leaves some for others; nobody, without accounts, has it
// all.
func TestAccountsPart(t *testing.T) {
	ann, bob := &auth.Account{Name: "ann", Weight: 1}, &auth.Account{Name: "bob", Weight: 2}
	var nobody auth.Account
	q := newSequences(&sequencing{idle: time.Hour})
	enter := func(a *auth.Account, id string) error {
		st := &inSequence{of: q, v: &version{name: "m"}, name: sequenceID{a.Name, id, true},
			at: place{id: id, start: true}}
		return st.enter(t.Context(), a)
	}
	has := func(a *auth.Account) (n int) {
		for enter(a, fmt.Sprint(n)) == nil {
			n++
		}
		return n
	}
	if n := has(ann); n != mostSequences/2 {
		t.Errorf("ann has %d sequences", n)
	}
	if err := enter(ann, "more"); oip.KindOf(err) != oip.Exhausted || oip.RetryAfter(err) == 0 {
		t.Errorf("one more: %v", err)
	}
	if n := has(bob); n < mostSequences/3-1 || n > mostSequences/3+1 {
		t.Errorf("bob has %d sequences", n)
	}
	if n := has(&nobody); n < mostSequences/8 {
		t.Errorf("nobody has %d sequences", n)
	}

	var c waiters
	free := int64(1000)
	wait := func(a *auth.Account) *task {
		x := &task{}
		if err := c.wait(a, x, 100, free-100); err != nil { // its body is held already
			if oip.KindOf(err) != oip.Exhausted || !strings.Contains(err.Error(), "bytes") {
				t.Error(err)
			}
			return nil
		}
		free -= 100
		return x
	}
	var of []*task
	for x := wait(ann); x != nil; x = wait(ann) {
		of = append(of, x)
	}
	if len(of) != 5 || wait(bob) == nil {
		t.Errorf("ann has %d requests of 10", len(of))
	}
	for _, x := range of {
		x.begin()
		free += 100
	}
	if len(c.waiting) != 1 || wait(ann) == nil {
		t.Errorf("%v are waiting", c.waiting)
	}
}

// TestAccountsPay: each account pays for its rows of a batch, whoever's turn that goes by, and for
// what it owes beside.
func TestAccountsPay(t *testing.T) {
	a := newAcross()
	one, two := a.turns.Arrive("ann", 1, 1), a.turns.Arrive("eve", 1, 1)
	a.done(one, []*task{{account: "ann", rows: 1}, {account: "bob", rows: 3}, {account: "cat",
		rows: 1, owes: time.Minute}}, time.Minute+5*time.Second)
	if three := a.turns.Arrive("ann", 1, 1); !three.Goes() { // from 1 s on
		t.Fatal("two go at a time")
	}
	cat, bob := a.turns.Arrive("cat", 1, 1), a.turns.Arrive("bob", 1, 1) // from 61 s and 3 s on
	if next := a.turns.Done(two, 1); next != bob || cat.Goes() {
		t.Errorf("%+v goes, which has %+v before it", next, bob)
	}
	// what ann has paid is less than bob's part
	b := newAcross()
	one, two = b.turns.Arrive("ann", 1, 1), b.turns.Arrive("eve", 1, 1)
	b.done(one, []*task{{account: "ann", rows: 1}, {account: "bob", rows: 3}}, 4*time.Second)
	_ = b.turns.Arrive("eve", 1, 1)
	bob, ann := b.turns.Arrive("bob", 1, 1), b.turns.Arrive("ann", 1, 1)
	if next := b.turns.Done(two, 1); next != ann || bob.Goes() {
		t.Errorf("%+v goes, which has %+v before it", next, ann)
	}
}

// TestSuspects: an account whose request failed a batch has its requests computed alone for a
// while, and others, and nobody, share batches.
func TestSuspects(t *testing.T) {
	s := begin(t, Options{}, picking())
	v := batches(t, s, "pick", 4, 4)
	var batch []*task
	for i, account := range []string{"ann", "bob", "eve"} {
		batch = append(batch, &task{rows: 1, account: account, weight: 1,
			in: weir.Inputs{"i": tensor.From([]int64{int64(7 * i)}, 1)}})
	}
	if err := v.run(t.Context(), batch, func() {}); err != nil || batch[0].err != nil ||
		!errors.Is(batch[1].err, weir.ErrInput) || !errors.Is(batch[2].err, weir.ErrInput) {
		t.Fatalf("%v: %v, %v, %v", err, batch[0].err, batch[1].err, batch[2].err)
	}
	batch[0].free()
	before := v.used(batch) - time.Hour
	v.oneByOne(t.Context(), batch, before)
	batch[0].free()
	ann, bob, eve := batch[0].owes, batch[1].owes, batch[2].owes
	if ann <= 0 || ann >= time.Hour/2 || bob < time.Hour/2 || eve < time.Hour/2 {
		t.Errorf("of an hour in vain ann pays %v, bob %v, eve %v", ann, bob, eve)
	}
	if all := v.used(batch) - before; ann+bob+eve != all {
		t.Errorf("of %v they pay %v", all, ann+bob+eve)
	}
	if v.suspects.has("ann") || !v.suspects.has("bob") || !v.suspects.has("eve") {
		t.Error("bob and eve are why")
	}
	batch = batch[:2]
	batch[0].account, batch[1].account = "cat", "dan"
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.run(over, batch, func() {}); !errors.Is(err, context.Canceled) ||
		v.suspects.has("cat") || v.suspects.has("dan") {
		t.Errorf("a batch that nobody waits for: %v, and %v are why", err, v.suspects.until)
	}
	synctest.Test(t, func(t *testing.T) {
		var of suspects
		of.add("")
		of.add("bob")
		time.Sleep(suspicion - 1)
		if of.has("") || !of.has("bob") {
			t.Error("bob is suspected, and nobody is not")
		}
		time.Sleep(time.Nanosecond)
		if of.has("bob") || len(of.until) > 0 {
			t.Error("it is over")
		}
		for i := range 3 * mostSuspects {
			of.add(fmt.Sprint(i))
		}
		if len(of.until) > mostSuspects {
			t.Errorf("%d are remembered", len(of.until))
		}
	})
}
