package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

// needed is what each endpoint needs, written once more: where the two tables differ, one is wrong.
var needed = map[string]string{
	"health": "nothing", "page": "nothing", "server metadata": "an account",
	"own account": "an account", "model metadata": "read on it", "model ready": "read on it",
	"model config": "read on it", "model statistics": "read on it", "statistics": "read on all",
	"infer": "infer on it", "repository index": "read on some", "model load": "load on it",
	"model unload": "load on it", "shared memory status": "infer on some",
	"shared memory register": "infer on some", "shared memory unregister": "infer on some",
	"trace setting": "read on all", "trace change": "admin on all", "log setting": "read on all",
	"log change": "admin on all", "metrics": "read on all", "state": "read on some",
	"model state": "read on it", "model share": "admin on it",
	"model push": "push on it", "model rollback": "load on it", "policy change": "admin on all",
	"job list": "job on some", "job change": "job on some", "account list": "admin on all",
	"account change": "admin on all", "audit": "admin on all", "training state": "read on all",
	"training change": "admin on all", "program share": "admin on all",
}

// may says whether a right on a pattern is enough for a need, where the model is m-1.
func may(need, right, pattern string) bool {
	want, on, _ := strings.Cut(need, " on ")
	if need == "nothing" || need == "an account" {
		return true
	}
	if right != want && right != "admin" {
		return false
	}
	return pattern == "*" || on == "some" || on == "it" && pattern == "m-*"
}

// TestMatrix holds each right, on all models, on some and on others, against every endpoint in both
// protocols.
func TestMatrix(t *testing.T) {
	p := begin(t, t.TempDir())
	g := p.guard(t, OIDC{})
	h := g.HTTP(who)
	tokens := map[[2]string]string{}
	for i, right := range append(slices.Clone(rightNames), "") {
		for k, pattern := range []string{"*", "m-*", "n-*"} {
			name := fmt.Sprint("a", i, "-", k)
			var grants []string
			if right != "" {
				grants = []string{right + " on " + pattern}
			}
			tokens[[2]string{right, pattern}] = p.add(t, name, grants...)
		}
	}
	concrete := strings.NewReplacer("{model}", "m-1", "{version}", "1", "{$}", "", "{job}", "7",
		"{part...}", "log", "{region}", "r", "{account}", "x", "{program}", "p", "{token}", "y",
		"/assets/", "/assets/x.js").Replace
	asked := 0
	for _, e := range Endpoints {
		need := needed[e.Name]
		if need == "" {
			t.Errorf("%s is not in the test's table", e.Name)
		}
		for grant, token := range tokens {
			want := may(need, grant[0], grant[1])
			for _, pattern := range e.HTTP {
				method, path, _ := strings.Cut(concrete(pattern), " ")
				got := get(h, method, path, "Bearer "+token).StatusCode
				if asked++; want != (got == http.StatusOK) || !want && got != http.StatusForbidden {
					t.Errorf("%s with %s: status %d", pattern, grant, got)
				}
			}
			for _, method := range e.RPC {
				ctx, err := g.call(method, token, !e.Changes)
				if asked++; want != (err == nil) || !want && !errors.Is(err, ErrDenied) ||
					err == nil && need != "nothing" && From(ctx).Name == "" {
					t.Errorf("%s with %s: %v", method, grant, err)
				}
			}
		}
		for _, pattern := range e.HTTP {
			method, path, _ := strings.Cut(concrete(pattern), " ")
			got := get(h, method, path, "").StatusCode
			if (got == http.StatusOK) != (need == "nothing") || got != 200 && got != 401 {
				t.Errorf("%s without an account: status %d", pattern, got)
			}
		}
		for _, method := range e.RPC {
			if _, err := g.call(method, "", !e.Changes); (err == nil) != (need == "nothing") ||
				err != nil && !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s without an account: %v", method, err)
			}
		}
	}
	t.Logf("%d requests", asked)
}

// call calls a method about model m-1, as a stream too where that is one.
func (g *Guard) call(method, token string, asks bool) (context.Context, error) {
	c := Call{Method: method, Asks: asks, Model: "m-1", Stream: strings.Contains(method, "Stream")}
	if token != "" {
		c.Authorization = []string{"Bearer " + token}
	}
	ctx, done, err := g.RPC(context.Background(), c)
	if err != nil {
		return nil, err
	}
	done(nil)
	if c.Stream {
		err = g.Message(ctx, method, "m-1")
	}
	return ctx, err
}

// TestUnknownMethods: an RPC without a row is for who may administer the server.
func TestUnknownMethods(t *testing.T) {
	p := begin(t, t.TempDir())
	g := p.guard(t, OIDC{})
	ann, root := p.add(t, "ann", "read,infer,load,push,job on *"), p.add(t, "root", "admin on *")
	if _, err := g.call("/x.Y/Z", ann, true); !errors.Is(err, ErrDenied) {
		t.Errorf("got %v", err)
	}
	if _, err := g.call("/x.Y/Z", root, true); err != nil {
		t.Error(err)
	}
	for token, want := range map[string]error{ann: ErrDenied, root: nil} {
		if _, err := g.call("/x.Y/Stream", token, true); !errors.Is(err, want) {
			t.Errorf("as a stream: %v, want %v", err, want)
		}
	}
}

// TestFaults: refusals are faults of the kinds that both protocols know.
func TestFaults(t *testing.T) {
	p := begin(t, t.TempDir())
	g := p.guard(t, OIDC{})
	token := p.add(t, "ann", "read on *")
	method := inference + "ModelInfer"
	_, err := g.call(method, token, true)
	if oip.KindOf(err) != oip.Denied {
		t.Errorf("denied: %v", err)
	}
	for i := range failBurst + 1 {
		want, wait := oip.Unauthenticated, time.Duration(0)
		if i == failBurst {
			want, wait = oip.Exhausted, failEvery
		}
		_, err = g.call(method, "x", true)
		if oip.KindOf(err) != want || oip.RetryAfter(err) != wait {
			t.Errorf("attempt %d: %v after %v", i+1, err, oip.RetryAfter(err))
		}
	}
}

// TestStreams: each message of a stream is held against the rights on the model that it names.
func TestStreams(t *testing.T) {
	p := begin(t, t.TempDir())
	g := p.guard(t, OIDC{})
	method := inference + "ModelStreamInfer"
	ctx, _, err := g.RPC(t.Context(), Call{Method: method, Stream: true,
		Authorization: []string{"Bearer " + p.add(t, "ann", "infer on m-*")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Message(ctx, method, "m-1"); err != nil {
		t.Error(err)
	}
	if err := g.Message(ctx, method, "n-1"); !errors.Is(err, ErrDenied) {
		t.Errorf("another model: %v", err)
	}
}

// TestRightsOfTheAccountBefore: a request that goes on has nothing of an account that is added
// under the name of its own once that was removed, also where no token showed it.
func TestRightsOfTheAccountBefore(t *testing.T) {
	p := begin(t, t.TempDir())
	p.add(t, "root", "admin on *")
	p.add(t, "ann", "read on *")
	a, err := p.book.Account("ann")
	if err != nil {
		t.Fatal(err)
	}
	ctx := p.guard(t, OIDC{}).with(t.Context(), a.shownBy("certificate CN=ann"))
	if !MayAll(ctx, Read) {
		t.Error("it has no rights at first")
	}
	if err := p.book.Remove(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	p.add(t, "ann", "read,infer on *")
	if _, err := p.book.Owning(a.Owner()); !errors.Is(err, ErrUnknown) {
		t.Errorf("the account of before: %v", err)
	}
	if now, err := p.book.Account("ann"); err != nil {
		t.Error(err)
	} else if got, err := p.book.Owning(now.Owner()); err != nil || got != now {
		t.Errorf("the account of now: %v, %v", got, err)
	}
	if MayAll(ctx, Read) || MayAll(ctx, Infer) {
		t.Error("it has the rights of the account that was added after it")
	}
}

// TestReaders: readers of events are bounded, for each account below what there may be of all, and
// one that leaves makes room.
func TestReaders(t *testing.T) {
	var s Streams
	ann, bob := With(t.Context(), &Account{Name: "ann"}), With(t.Context(), &Account{Name: "bob"})
	enter := func(ctx context.Context, n int) (leave func()) {
		t.Helper()
		for range n {
			var err error
			if leave, err = s.Enter(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return leave
	}
	refused := func(ctx context.Context, kind oip.Kind) {
		t.Helper()
		if _, err := s.Enter(ctx); oip.KindOf(err) != kind || oip.RetryAfter(err) == 0 {
			t.Errorf("one more: %v, want %v with a time to ask again", err, kind)
		}
	}
	leave := enter(ann, MostStreamsEach)
	refused(ann, oip.Exhausted)
	enter(bob, 1)
	leave()
	enter(ann, 1)
	refused(ann, oip.Exhausted)
	enter(t.Context(), MostStreams-MostStreamsEach-1) // who has no account has no part of its own
	refused(t.Context(), oip.Unavailable)
	refused(bob, oip.Unavailable)
}
