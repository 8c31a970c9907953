package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/server/web"
)

// pipes is a listener without a network, whose connections know virtual time.
type pipes struct {
	conns chan net.Conn
	gone  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.gone) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// site is a page that is served in virtual time.
type site struct {
	t      *testing.T
	page   *web.Page
	pipes  *pipes
	client *http.Client
	token  string // that readers of events send, "" for none
	beats  atomic.Int64
}

// open serves a page as weir up does, to an account unless that is nil.
func open(t *testing.T, s web.Source, o web.Options, who *auth.Account) *site {
	t.Helper()
	return openBehind(t, s, o, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if who != nil {
				r = r.WithContext(auth.With(r.Context(), who))
			}
			next.ServeHTTP(w, r)
		})
	})
}

// openBehind serves a page behind a handler.
func openBehind(t *testing.T, s web.Source, o web.Options,
	before func(http.Handler) http.Handler) *site {
	t.Helper()
	p := web.New(s, o)
	mux := http.NewServeMux()
	for pattern, h := range p.Routes() {
		mux.Handle(pattern, h)
	}
	on := &pipes{conns: make(chan net.Conn), gone: make(chan struct{})}
	inner := before(mux)
	h := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(
		w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second))
		inner.ServeHTTP(w, r)
	})}
	h.RegisterOnShutdown(p.Close)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(on) }()
	transport := &http.Transport{DialContext: on.dial}
	t.Cleanup(func() {
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		p.Close()
		transport.CloseIdleConnections()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &site{t: t, page: p, pipes: on, client: &http.Client{Transport: transport}}
}

// ask sends a request, and reads the answer.
func (s *site) ask(method, path, body string, answer any) int {
	s.t.Helper()
	q, err := http.NewRequest(method, "http://page"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.client.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(answer); err != nil {
		s.t.Fatalf("%s %s: %s: %v", method, path, r.Status, err)
	}
	return r.StatusCode
}

// event is one event of a stream.
type event struct {
	kind, id string
	at       time.Time
	state    web.State
}

// watch reads events until its end is called. The channel is closed at the end of the stream.
func (s *site) watch(last string) (events chan event, end func()) {
	s.t.Helper()
	ctx, end := context.WithCancel(context.Background())
	s.t.Cleanup(end)
	q, err := http.NewRequestWithContext(ctx, "GET", "http://page/v1/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if last != "" {
		q.Header.Set("Last-Event-ID", last)
	}
	if s.token != "" {
		q.Header.Set("Authorization", "Bearer "+s.token)
	}
	r, err := s.client.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := r.Header.Get("Content-Type"); r.StatusCode != 200 || got != "text/event-stream" {
		s.t.Fatalf("events: %s, %s", r.Status, got)
	}
	events = make(chan event, 1000)
	go func() {
		defer close(events)
		defer r.Body.Close()
		lines, e := bufio.NewScanner(r.Body), event{}
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case ":":
				s.beats.Add(1)
			case "event":
				e.kind = value
			case "id":
				e.id = value
			case "data":
				if err := json.Unmarshal([]byte(value), &e.state); err != nil {
					s.t.Error(err)
				}
				e.at = time.Now()
				events <- e
				e = event{}
			}
		}
	}()
	return events, end
}

// model finds a model in a state.
func model(s *web.State, name string) *web.Model {
	for i := range s.Models {
		if s.Models[i].Name == name {
			return &s.Models[i]
		}
	}
	return nil
}

// TestState: all of the source is in the state.
func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("b", "a")
		s.change("a", func(u *weir.Usage) {
			u.Share.Compute, u.Share.Class, u.Queue = 0.5, weir.Latency, 3
		})
		s.add("c")
		at := open(t, s, web.Options{Version: "v1", Accounts: true}, nil)
		var got web.State
		if code := at.ask("GET", "/v1/state", "", &got); code != 200 {
			t.Fatal(code)
		}
		if *got.Server != (web.Server{Version: "v1", Started: time.Now().UnixMilli(), Ready: true,
			Accounts: true}) {
			t.Errorf("server %+v", *got.Server)
		}
		d := got.Devices[0]
		if len(got.Devices) != 1 || d.Name != "cpu:0" || d.Policy != "fair" ||
			d.Memory != int64(weir.GiB) || d.Promised != 64<<20 || len(d.Policies) != 2 ||
			d.Policies[1].What == "" {
			t.Errorf("devices %+v", got.Devices)
		}
		a, c := model(&got, "a"), model(&got, "c")
		if len(got.Models) != 3 || a == nil || c == nil {
			t.Fatalf("models %+v", got.Models)
		}
		want := web.Model{Name: "a", Version: "1", State: "READY", Device: "cpu:0",
			Versions: []web.Version{{Version: "1", State: "READY"}}, Class: "latency",
			Compute: 0.5, Limit: 1, Cap: 8 << 20, Held: 1 << 20, Peak: 2 << 20, Where: "resident",
			Queue: 3}
		if !reflect.DeepEqual(*a, want) {
			t.Errorf("a is %+v, want %+v", *a, want)
		}
		if c.State != "LOADING" || c.Version != "" || c.Where != "" {
			t.Errorf("c is %+v", *c)
		}
	})
}

// TestNoVersion: a model of which no version is known, such as one whose configuration cannot be
// read, has a list of versions that is empty, as who reads it expects a list.
func TestNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served()
		s.index = []oip.IndexEntry{{Name: "a", State: "UNAVAILABLE", Reason: "no configuration"}}
		var got struct{ Models []map[string]any }
		open(t, s, web.Options{}, nil).ask("GET", "/v1/state", "", &got)
		list, ok := got.Models[0]["versions"].([]any)
		if !ok || len(list) > 0 || got.Models[0]["reason"] != "no configuration" {
			t.Errorf("the model is %v", got.Models[0])
		}
	})
}

// TestEventsCoalesce: what changes a hundred times a second comes in two events a second, a change
// comes within a second, and what does not change comes never.
func TestEventsCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a", "b")
		events, _ := open(t, s, web.Options{}, nil).watch("")
		if e := <-events; e.kind != "state" || len(e.state.Models) != 2 || e.id != e.state.ID {
			t.Fatalf("the first event is %+v", e)
		}
		time.Sleep(time.Minute)
		if n := len(events); n > 0 {
			t.Errorf("%d events while nothing changed", n)
		}
		for i := range 1000 {
			s.change("a", func(u *weir.Usage) { u.Queue = i })
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(events); n < 19 || n > 20 {
			t.Errorf("%d events in 10 s", n)
		}
		time.Sleep(time.Second)
		var last event
		for len(events) > 0 {
			e := <-events
			if e.kind != "change" || len(e.state.Models) != 1 || e.state.Server != nil ||
				e.state.Devices != nil {
				t.Fatalf("event %+v", e)
			}
			if !last.at.IsZero() && e.at.Sub(last.at) < web.Period {
				t.Errorf("two events within %v", e.at.Sub(last.at))
			}
			last = e
		}
		if q := last.state.Models[0].Queue; q != 999 {
			t.Errorf("the last event has %d", q)
		}
		began := time.Now()
		s.remove("b")
		if e := <-events; e.at.Sub(began) > time.Second ||
			!slices.Equal(e.state.Gone.Models, []string{"b"}) {
			t.Errorf("after %v: %+v", e.at.Sub(began), e.state)
		}
	})
}

// TestLanes: a lane has a value for each half second, in the state and in events.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a", "b")
		at := open(t, s, web.Options{}, nil)
		events, _ := at.watch("")
		<-events
		time.Sleep(100 * time.Millisecond) // apart from the page's looks
		s.work("a", 250*time.Millisecond)
		time.Sleep(time.Second)
		s.work("a", 100*time.Millisecond)
		s.work("b", 400*time.Millisecond)
		time.Sleep(600 * time.Millisecond)
		var got []map[string][]float64
		for len(events) > 0 {
			e := <-events
			got = append(got, e.state.Lanes["cpu:0"])
		}
		want := []map[string][]float64{{"a": {0.5}}, {}, {"a": {0.2}, "b": {0.8}}, {}}
		for i := range want {
			if i < len(got) && !maps.EqualFunc(got[i], want[i], slices.Equal) {
				t.Errorf("event %d has the lanes %v, want %v", i, got[i], want[i])
			}
		}
		var all web.State
		at.ask("GET", "/v1/state", "", &all)
		if a, b := all.Lanes["cpu:0"]["a"], all.Lanes["cpu:0"]["b"]; !slices.Equal(a,
			[]float64{0, 0.5, 0, 0.2}) || !slices.Equal(b, []float64{0, 0, 0, 0.8}) {
			t.Errorf("the state has a %v, b %v", a, b)
		}
		time.Sleep(3 * time.Minute)
		at.ask("GET", "/v1/state", "", &all)
		if all.Lanes = nil; at.ask("GET", "/v1/state", "", &all) != 200 || all.Lanes != nil {
			t.Errorf("after three minutes there are lanes: %v", all.Lanes)
		}
	})
}

// TestEventsResume: who comes back with the number of the last event gets what was missed, and
// whoever has no number of this page the whole.
func TestEventsResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a", "b", "c")
		at := open(t, s, web.Options{}, nil)
		events, end := at.watch("")
		first := <-events
		end()
		s.work("a", 100*time.Millisecond)
		s.remove("b")
		time.Sleep(1100 * time.Millisecond) // apart from the page's looks
		events, end = at.watch(first.id)
		e := <-events
		end()
		if e.kind != "change" || len(e.state.Models) != 1 || e.state.Models[0].Name != "a" ||
			!slices.Equal(e.state.Gone.Models, []string{"b"}) ||
			!slices.Equal(e.state.Lanes["cpu:0"]["a"], []float64{0.2, 0}) {
			t.Errorf("resumed: %+v", e)
		}
		for _, id := range []string{"", "x", "x.1", first.id + "9", strings.ToUpper(first.id)} {
			events, end = at.watch(id)
			if e := <-events; e.kind != "state" || len(e.state.Models) != 2 ||
				e.state.Gone.Models != nil {
				t.Errorf("id %q: %+v", id, e)
			}
			end()
		}
		// more are gone than are remembered
		for i := range 1100 {
			s.add(fmt.Sprint("m", i))
		}
		time.Sleep(time.Second)
		for i := range 1100 {
			s.remove(fmt.Sprint("m", i))
		}
		time.Sleep(time.Second)
		events, end = at.watch(e.id)
		if e := <-events; e.kind != "state" || len(e.state.Models) != 2 {
			t.Errorf("after too much: %s with %d models", e.kind, len(e.state.Models))
		}
		end()
	})
}

// TestEventsBound: there is a bound on readers, and one that takes nothing is cut off and makes
// room.
func TestEventsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		at := open(t, s, web.Options{}, nil)
		var slow []net.Conn
		for range auth.MostStreams {
			c, _ := at.pipes.dial(t.Context(), "", "")
			defer c.Close()
			_, err := c.Write([]byte("GET /v1/events HTTP/1.1\r\nHost: page\r\n\r\n"))
			if err != nil {
				t.Fatal(err)
			}
			slow = append(slow, c)
		}
		synctest.Wait()
		var refused struct{ Error string }
		if code := at.ask("GET", "/v1/events", "", &refused); code != 503 ||
			!strings.Contains(refused.Error, "64 readers") {
			t.Errorf("one too many: %d, %+v", code, refused)
		}
		time.Sleep(11 * time.Second)
		events, _ := at.watch("")
		if e := <-events; e.kind != "state" {
			t.Errorf("event %+v", e)
		}
		if _, err := slow[0].Read(make([]byte, 1)); err == nil {
			t.Error("a reader that took nothing for 11 s was not cut off")
		}
	})
}

// TestEventsEnd: a stream outlives the server's read timeout, shows that it lives, and ends after
// five minutes or with the page.
func TestEventsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := open(t, served("a"), web.Options{}, nil)
		began := time.Now()
		events, _ := at.watch("")
		for range events {
		}
		if d := time.Since(began); d != 5*time.Minute {
			t.Errorf("the stream ended after %v", d)
		}
		if n := at.beats.Load(); n < 19 { // pages give up what is silent for 40 s
			t.Errorf("%d signs of life in five minutes", n)
		}
		events, _ = at.watch("")
		<-events
		began = time.Now()
		at.page.Close()
		if _, open := <-events; open || time.Since(began) > 0 {
			t.Errorf("the stream ended %v after the page", time.Since(began))
		}
	})
}

// TestRights: an account sees the models that it may read, and nothing of others.
func TestRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("mine-1", "theirs", "mine-2")
		who := &auth.Account{Name: "me", Grants: []auth.Grant{{Pattern: "mine-*",
			Rights: auth.Read}}}
		programs := func() ([]web.Device, []web.Program) {
			return []web.Device{{Name: "cuda:0"}}, []web.Program{{Name: "p", Device: "cuda:0"}}
		}
		at := open(t, s, web.Options{Programs: programs}, who)
		events, _ := at.watch("")
		e := <-events
		if len(e.state.Models) != 2 || model(&e.state, "theirs") != nil || e.state.Programs != nil {
			t.Errorf("state %+v", e.state)
		}
		s.work("theirs", 100*time.Millisecond)
		time.Sleep(time.Second)
		s.remove("theirs")
		time.Sleep(time.Second)
		for len(events) > 0 {
			if e := <-events; len(e.state.Models)+len(e.state.Lanes)+len(e.state.Gone.Models) > 0 {
				t.Errorf("event %+v", e.state)
			}
		}
		all := open(t, s, web.Options{Programs: programs}, &auth.Account{Name: "all",
			Grants: []auth.Grant{{Pattern: auth.All, Rights: auth.Read}}})
		var got web.State
		all.ask("GET", "/v1/state", "", &got)
		if len(got.Programs) != 1 || len(got.Devices) != 2 || len(got.Models) != 2 {
			t.Errorf("who may read all sees %+v", got)
		}
	})
}

// TestEventsTooMuch: where more is gone between two events than is remembered, the next one is the
// whole, also in the middle of a stream.
func TestEventsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		for i := range 1100 {
			s.add(fmt.Sprint("m", i))
		}
		events, _ := open(t, s, web.Options{}, nil).watch("")
		if e := <-events; len(e.state.Models) != 1101 {
			t.Fatalf("%d models", len(e.state.Models))
		}
		for i := range 1100 {
			s.remove(fmt.Sprint("m", i))
		}
		if e := <-events; e.kind != "state" || len(e.state.Models) != 1 {
			t.Errorf("an event %s with %d models, and %d gone", e.kind, len(e.state.Models),
				len(e.state.Gone.Models))
		}
		s.work("a", time.Millisecond)
		if e := <-events; e.kind != "change" {
			t.Errorf("then an event %s", e.kind)
		}
	})
}

// TestRightsChange: a reader whose rights change has what they show, and no longer what they do
// not, though nothing of it changes, and so has one who comes back.
func TestRightsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, book := withBook(t, served("a", "b", "c"))
		grant := func(model string) auth.Grant {
			return auth.Grant{Pattern: model, Rights: auth.Read}
		}
		if err := errors.Join(book.Grant(t.Context(), "ann", grant("a")), book.Revoke(t.Context(),
			"ann", grant(auth.All))); err != nil {
			t.Fatal(err)
		}
		events, _ := at.watch("")
		e := <-events
		if len(e.state.Models) != 1 {
			t.Fatalf("at first: %+v", e.state)
		}
		seen := func(what, kind string, want ...string) {
			t.Helper()
			time.Sleep(20 * time.Second)
			var got []string
			select {
			case e = <-events:
			default:
			}
			for _, m := range e.state.Models {
				got = append(got, m.Name)
			}
			if e.kind != kind || !slices.Equal(got, want) || e.id != e.state.ID {
				t.Errorf("%s: %s with %q, want %s with %q", what, e.kind, got, kind, want)
			}
		}
		if err := book.Grant(t.Context(), "ann", grant("b")); err != nil {
			t.Fatal(err)
		}
		seen("with a right more", "state", "a", "b")
		if err := book.Revoke(t.Context(), "ann", grant("a")); err != nil {
			t.Fatal(err)
		}
		seen("with one less", "state", "b")
		last := e.id
		events, end := at.watch(last)
		<-events
		end()
		if err := book.Grant(t.Context(), "ann", grant("c")); err != nil {
			t.Fatal(err)
		}
		events, end = at.watch(last)
		seen("back with one more", "state", "b", "c")
		end()
		events, _ = at.watch(e.id)
		seen("back with the same", "change")
	})
}

// withBook serves a page where ann may read all, to ann.
func withBook(t *testing.T, s web.Source) (*site, *auth.Book) {
	t.Helper()
	state, err := store.Open(t.Context(), t.TempDir(), store.Options{}, audit.Room, auth.Room)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(t.Context(), state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = log.Close(), state.Close() })
	book, err := auth.Open(t.Context(), state, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := auth.NewGuard(book, log, auth.OIDC{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Add(t.Context(), auth.Account{Name: "ann", Weight: 1,
		Grants: []auth.Grant{{Pattern: auth.All, Rights: auth.Read}}}); err != nil {
		t.Fatal(err)
	}
	at := openBehind(t, s, web.Options{}, guard.HTTP)
	if at.token, _, err = book.NewToken(t.Context(), "ann", "t", time.Time{}); err != nil {
		t.Fatal(err)
	}
	return at, book
}

// TestRevoked: a reader of events whose token was revoked hears nothing more.
func TestRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a", "b")
		at, book := withBook(t, s)
		events, _ := at.watch("")
		<-events
		s.work("a", time.Millisecond)
		if e := <-events; len(e.state.Models) != 1 {
			t.Errorf("before: %+v", e.state)
		}
		if err := errors.Join(book.Grant(t.Context(), "ann", auth.Grant{Pattern: "b",
			Rights: auth.Read}), book.Revoke(t.Context(), "ann", auth.Grant{Pattern: auth.All,
			Rights: auth.Read})); err != nil {
			t.Fatal(err)
		}
		s.work("a", time.Millisecond)
		s.work("b", time.Millisecond)
		if e := <-events; len(e.state.Models) != 1 || model(&e.state, "b") == nil {
			t.Errorf("of b alone: %+v", e.state)
		}
		time.Sleep(2 * time.Second)
		for len(events) > 0 {
			<-events
		}
		if err := book.RevokeToken(t.Context(), "ann", "t"); err != nil {
			t.Fatal(err)
		}
		s.work("a", time.Millisecond)
		time.Sleep(2 * time.Second)
		if e, open := <-events; open {
			t.Errorf("after its token was revoked it hears %+v", e.state)
		}
	})
}

// TestEventsOfOneAccount: one account does not take the places of all readers.
func TestEventsOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grants := []auth.Grant{{Pattern: auth.All, Rights: auth.Read}}
		who := &auth.Account{Name: "eve", Grants: grants}
		at := openBehind(t, served("a"), web.Options{}, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
			})
		})
		var end func()
		for range auth.MostStreamsEach {
			var events chan event
			events, end = at.watch("")
			<-events
		}
		var refused struct{ Error string }
		if code := at.ask("GET", "/v1/events", "", &refused); code != 429 ||
			!strings.Contains(refused.Error, "account eve") {
			t.Errorf("one too many: %d, %+v", code, refused)
		}
		end()
		synctest.Wait()
		events, _ := at.watch("")
		<-events
		who = &auth.Account{Name: "ann", Grants: grants}
		events, _ = at.watch("")
		<-events
	})
}
