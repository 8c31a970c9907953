package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// site serves with a front and without, in memory.
type site struct {
	fronted, plain pipes
	handed         atomic.Int64 // connections that net/http got from the front
}

func newSite(t *testing.T, s *Server) *site {
	x := &site{fronted: make(pipes), plain: make(pipes)}
	h := &http.Server{Handler: s, IdleTimeout: 2 * time.Minute, ReadHeaderTimeout: 5 * time.Second,
		ConnState: func(_ net.Conn, now http.ConnState) {
			if now == http.StateNew {
				x.handed.Add(1)
			}
		}}
	other := &http.Server{Handler: s}
	go func() { _ = h.Serve(s.Front(x.fronted, h)) }()
	go func() { _ = other.Serve(x.plain) }()
	t.Cleanup(func() { _, _ = h.Close(), other.Close() })
	return x
}

// outcome is an answer, without the date if that is right.
type outcome struct {
	status int
	header http.Header
	body   string
}

// replies sends bytes and reads so many answers; fewer where the connection ends before.
func (p pipes) replies(t *testing.T, sent string, n int) (list []outcome) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	p <- there
	go func() { _, _ = io.WriteString(here, sent) }()
	_ = here.SetReadDeadline(time.Now().Add(10 * time.Second))
	from := bufio.NewReader(here)
	for range n {
		r, err := http.ReadResponse(from, nil)
		if err != nil {
			return list
		}
		at, err := http.ParseTime(r.Header.Get("Date"))
		if err == nil && time.Since(at) < time.Hour {
			r.Header.Set("Date", "now")
		}
		list = append(list, outcome{r.StatusCode, r.Header, string(all(t, r))})
	}
	return list
}

// posted is a request for the digits with lines of its head, and a body.
func posted(lines, body string) string {
	return "POST /v2/models/digits/infer HTTP/1.1\r\n" + lines + "\r\n" + body
}

// TestFrontAnswersAsNetHTTP: what is answered in front is what net/http has answered, and what is
// said in any way that two readers might read in two is left to it.
func TestFrontAnswersAsNetHTTP(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	x := newSite(t, s)
	raw := string(make([]byte, 256))
	const host, rawHead = "Host: localhost\r\n", headerLength + ": 0\r\nContent-Length: 256\r\n"
	asJSON := `{"id":"a","inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":[` +
		strings.Repeat("0,", 63) + `0]}]}`
	good := posted(host+rawHead, raw)
	jsonHead := fmt.Sprintf("content-length: %d\r\nHOST:  127.0.0.1:80 \r\n", len(asJSON))
	for _, c := range []struct {
		what, sent string
		answers    int
		own        bool // answered in front
	}{
		{"a picture as bytes", good, 1, true},
		{"JSON, and fields in other letters", posted(jsonHead, asJSON), 1, true},
		{"a version", strings.Replace(good, "digits/", "digits/versions/3/", 1), 1, true},
		{"all fields", posted(host+rawHead+"User-Agent: a b\r\nAccept: */*\r\nConnection: "+
			"Keep-Alive\r\nContent-Type: application/octet-stream\r\nAccept-Encoding: identity\r\n",
			raw), 1, true},
		{"one after another", good + good + good, 3, true},
		{"no such model", strings.Replace(good, "digits", "letters", 1), 1, true},
		{"no such version", strings.Replace(good, "digits/", "digits/versions/4/", 1), 1, true},
		{"no request", posted(host+"Content-Length: 2\r\n", "{]"), 1, true},
		{"an empty body", posted(host+"Content-Length: 0\r\n", ""), 1, true},
		{"more JSON than body", posted(host+headerLength+": 9\r\nContent-Length: 2\r\n", "{}"), 1,
			true},
		{"another shape", posted(host+headerLength+": 0\r\nContent-Length: 5\r\n", "12345"), 1,
			true},
		{"no host", posted(rawHead, raw), 1, false},
		{"another's host", posted("Host: example.org\r\n"+rawHead, raw), 1, false},
		{"two hosts", posted(host+host+rawHead, raw), 1, false},
		{"two lengths", posted(host+rawHead+"Content-Length: 256\r\n", raw), 1, false},
		{"two lengths that differ", posted(host+rawHead+"Content-Length: 25\r\n", raw), 1, false},
		{"a length with a sign", posted(host+headerLength+": 0\r\nContent-Length: +256\r\n", raw),
			1, false},
		{"lengths of JSON that differ", posted(host+rawHead+headerLength+": 1\r\n", raw), 1, false},
		{"a length of JSON that is none", posted(host+headerLength+": -1\r\nContent-Length: 256"+
			"\r\n", raw), 1, false},
		{"chunks", posted(host+headerLength+": 0\r\nTransfer-Encoding: chunked\r\n",
			"100\r\n"+raw+"\r\n0\r\n\r\n"), 1, false},
		{"chunks and a length", posted(host+rawHead+"Transfer-Encoding: chunked\r\n",
			"100\r\n"+raw+"\r\n0\r\n\r\n"), 1, false},
		{"a folded line", posted(host+rawHead+" more\r\n", raw), 1, false},
		{"a space before the colon", posted(host+rawHead+"Accept : a\r\n", raw), 1, false},
		{"LF alone", strings.ReplaceAll(posted(host+rawHead, ""), "\r\n", "\n") + raw, 1, false},
		{"CR within a name", posted(host+headerLength+": 0\r\nContent\rLength: 256\r\n", raw), 1,
			false},
		{"NUL within a value", posted(host+rawHead+"Accept: \x00\r\n", raw), 1, false},
		{"letters that fold", posted("Ho\u017ft: localhost\r\n"+rawHead, raw), 1, false},
		{"another field", posted(host+rawHead+"X-A: b\r\n", raw), 1, false},
		{"a page from elsewhere", posted(host+rawHead+"Origin: http://example.org\r\n", raw), 1,
			false},
		{"an answer that is packed", posted(host+rawHead+"Accept-Encoding: gzip\r\n", raw), 1,
			false},
		{"an answer that is the last", posted(host+rawHead+"Connection: close\r\n", raw), 2, false},
		{"what is expected", posted(host+rawHead+"Expect: never\r\n", raw), 1, false},
		{"HTTP/1.0", strings.Replace(good, "1.1", "1.0", 1), 2, false},
		{"another method", strings.Replace(good, "POST", "GET", 1), 1, false},
		{"an encoded name", strings.Replace(good, "digits", "d%69gits", 1), 1, false},
		{"a way up", strings.Replace(good, "digits", "../models/digits", 1), 1, false},
		{"a question", strings.Replace(good, "infer", "infer?a", 1), 1, false},
		{"a way about", strings.Replace(good, "/v2/", "//v2/", 1), 1, false},
		{"one for both", good + "GET /v2 HTTP/1.1\r\n" + host + "\r\n" + good, 3, false},
		{"a large body", posted(host+headerLength+": 0\r\nContent-Length: 20480\r\n",
			strings.Repeat(raw, 80)), 1, false},
		{"a second one that is wrong", good + "POST \r\n\r\n", 2, false},
	} {
		before := x.handed.Load()
		got := x.fronted.replies(t, c.sent, c.answers)
		if own := x.handed.Load() == before; own != c.own {
			t.Errorf("%s: answered in front: %v", c.what, own)
		}
		if want := x.plain.replies(t, c.sent, c.answers); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: in front\n%+v\nby net/http\n%+v", c.what, got, want)
		}
		if len(got) == 0 {
			t.Errorf("%s: no answer", c.what)
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are held without a request", n)
	}
}

// TestFrontReadsInPieces: a request may come in any pieces, and what is answered is the same.
func TestFrontReadsInPieces(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	x := newSite(t, s)
	whole := posted("Host: localhost\r\n"+headerLength+": 0\r\nContent-Length: 256\r\n",
		string(make([]byte, 256)))
	head := strings.Index(whole, "\r\n\r\n") + 4
	want := x.plain.replies(t, whole, 1)
	for at := 1; at < len(whole); at += 7 {
		here, there := net.Pipe()
		before := x.handed.Load()
		x.fronted <- there
		go func() {
			_, _ = io.WriteString(here, whole[:at])
			_, _ = io.WriteString(here, whole[at:])
		}()
		code, body := answered(t, here)
		_ = here.Close()
		if code != want[0].status || body != want[0].body {
			t.Errorf("cut at %d: %d %q", at, code, body)
		}
		if own := x.handed.Load() == before; own != (at >= head) {
			t.Errorf("cut at %d of a head of %d: answered in front: %v", at, head, own)
		}
	}
}

// FuzzFrontHead: a head that is read in front is one that net/http reads as the same.
func FuzzFrontHead(f *testing.F) {
	for _, lines := range []string{"Host: a\r\nContent-Length: 3\r\n", "host:localhost:1\r\n" +
		headerLength + ": 2 \r\ncontent-length: 03\r\nAccept: a,b\r\n", "Host: [::1]\r\n" +
		"Content-Length: 0\r\nConnection: keep-alive\r\nUser-Agent: x\r\n"} {
		f.Add([]byte(posted(lines, "{}")))
		f.Add([]byte(strings.Replace(posted(lines, "{}"), "digits/", "a.b/versions/-_/", 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h head
		n := h.read(b)
		if n == 0 {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:n])))
		if err != nil {
			t.Fatalf("%q: net/http: %v", b[:n], err)
		}
		path := "/v2/models/" + string(h.model)
		if h.version != nil {
			path += "/versions/" + string(h.version)
		}
		header := -1
		if v := r.Header.Values(headerLength); len(v) == 1 {
			header, _ = whole([]byte(v[0]))
		} else if len(v) > 1 {
			t.Errorf("%q: %v", b[:n], v)
		}
		if r.Method != "POST" || r.RequestURI != path+"/infer" || r.URL.Path != path+"/infer" ||
			r.Host != string(h.host) || r.ContentLength != int64(h.length) || header != h.header ||
			r.Close || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) ||
			r.Header.Get("Expect") != "" {
			t.Errorf("%q: %+v, and net/http %+v", b[:n], h, r)
		}
	})
}

// TestFrontPassesOn: heads that net/http reads, and may read otherwise than others do, are not
// answered in front, nor is a host of which it was said once that it is not this machine.
func TestFrontPassesOn(t *testing.T) {
	plain := posted("Host: localhost\r\nContent-Length: 0\r\n", "")
	var h head
	if n := h.read([]byte(plain)); n != len(plain) {
		t.Fatalf("%d of %d bytes of %q are a head", n, len(plain), plain)
	}
	for _, change := range [][2]string{{"localhost\r\n", "localhost\n"}, {"0\r\n\r\n", "0\n\n"},
		{"digits/", "../"}, {"digits/", ".digits/"}, {"digits/", "/"}, {": 0\r\n", ": \r\n"},
		{": 0\r\n", ": 1000000000\r\n"}, {"HTTP/1.1", "HTTP/1.0"}, {"Host", "H\x0fst"}} {
		if b := strings.Replace(plain, change[0], change[1], 1); h.read([]byte(b)) != 0 {
			t.Errorf("%q is answered in front", b)
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	c := newFrontConn(begin(t, Options{}).Front(make(pipes), &http.Server{}).(*front), there)
	defer c.cancel()
	for _, host := range []string{"a.example", "a.example", "localhost", "a.example"} {
		if got := c.mine(&head{host: []byte(host)}); got != (host == "localhost") {
			t.Errorf("host %s: %t", host, got)
		}
	}
}

// TestFrontLetsGo: who waits in front is given up once the client is gone, and is not while it
// sends more.
func TestFrontLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
		s := begin(t, Options{}, held("hold", entered, leave, nil))
		x := newSite(t, s)
		v, err := s.look("hold", "")
		if err != nil {
			t.Fatal(err)
		}
		whole := announced("hold", len(holdBody), holdBody)
		first := x.fronted.dial(t, whole)
		<-entered
		gone, more := x.fronted.dial(t, whole), x.fronted.dial(t, whole)
		synctest.Wait()
		if n := v.queue.Waiting(); n != 2 {
			t.Errorf("%d requests wait, want 2", n)
		}
		_ = gone.Close()
		if _, err := io.WriteString(more, whole[:9]); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * sweepEvery)
		synctest.Wait()
		if n := v.queue.Waiting(); n != 1 {
			t.Errorf("%d requests wait after the client of one has gone, want 1", n)
		}
		time.Sleep(time.Minute)
		leave <- struct{}{}
		leave <- struct{}{}
		for _, c := range []net.Conn{first, more} {
			if code, text := answered(t, c); code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
		}
		synctest.Wait()
		leave <- struct{}{}
		go func() { _, _ = io.WriteString(more, whole[9:]) }()
		if code, text := answered(t, more); code != http.StatusOK {
			t.Errorf("what was sent meanwhile: %d %s", code, text)
		}
		synctest.Wait()
		if n := x.handed.Load(); n != 1 { // that of which only a part was there
			t.Errorf("net/http has %d connections", n)
		}
		if n := s.bodies.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are held without a request", n)
		}
	})
}

// TestFrontEnds: closing it closes connections that are idle at once, and one whose request is
// under way once that is answered, which Drain waits for.
func TestFrontEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
		s := begin(t, Options{}, held("hold", entered, leave, nil))
		on := make(pipes)
		h := &http.Server{Handler: s}
		served := make(chan error)
		go func() { served <- h.Serve(s.Front(on, h)) }()
		whole := announced("hold", len(holdBody), holdBody)
		busy, idle := on.dial(t, whole), on.dial(t, "")
		<-entered
		synctest.Wait()
		if err := h.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
		if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("an idle connection: %v", err)
		}
		leave <- struct{}{}
		drained := make(chan error, 1)
		go func() { drained <- s.Drain(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-drained:
			t.Errorf("drained before the answer was taken: %v", err)
		default:
		}
		if code, text := answered(t, busy); code != http.StatusOK {
			t.Errorf("the request under way: %d %s", code, text)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if _, err := busy.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("its connection after that: %v", err)
		}
	})
}

// TestFrontTakesNothingLate: a request that was read when its connection was closed is not begun:
// who waits for those that were would lose its answer.
func TestFrontTakesNothingLate(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	s := begin(t, Options{})
	c := newFrontConn(s.Front(make(pipes), &http.Server{}).(*front), there)
	c.finish()
	if c.begin() || c.unwatched() {
		t.Error("a request was begun on a connection that is closed")
	}
}

// TestFrontIsPatient: a connection may be idle between requests for as long as net/http lets it,
// and before the first one for as long as for a head.
func TestFrontIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, Options{}, digitsSource())
		x := newSite(t, s)
		began := time.Now()
		silent := x.fronted.dial(t, "")
		if _, err := silent.Read(make([]byte, 1)); err != io.EOF || time.Since(began) !=
			5*time.Second {
			t.Errorf("a silent connection: %v after %v", err, time.Since(began))
		}
		whole := posted("Host: localhost\r\n"+headerLength+": 0\r\nContent-Length: 256\r\n",
			string(make([]byte, 256)))
		c := x.fronted.dial(t, whole)
		for range 9 {
			if code, text := answered(t, c); code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
			time.Sleep(119 * time.Second)
			if _, err := io.WriteString(c, whole); err != nil {
				t.Fatal(err)
			}
		}
		if code, text := answered(t, c); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		began = time.Now()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF || time.Since(began) > 2*time.Minute ||
			time.Since(began) < 2*time.Minute-time.Second {
			t.Errorf("an idle connection: %v after %v", err, time.Since(began))
		}
		if n := x.handed.Load(); n != 0 {
			t.Errorf("net/http has %d connections", n)
		}
	})
}

// TestFrontIdleAfterPieces: a body that is waited for leaves a connection as much time as before.
func TestFrontIdleAfterPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSite(t, begin(t, Options{}, digitsSource()))
		whole := posted("Host: localhost\r\n"+headerLength+": 0\r\nContent-Length: 256\r\n",
			string(make([]byte, 256)))
		c := x.fronted.dial(t, whole)
		for range 3 {
			if code, text := answered(t, c); code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
			for _, part := range []string{whole[:len(whole)-9], whole[len(whole)-9:]} {
				if _, err := io.WriteString(c, part); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if code, text := answered(t, c); code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
			time.Sleep(time.Minute)
			if _, err := io.WriteString(c, whole); err != nil {
				t.Fatal(err)
			}
		}
		if code, text := answered(t, c); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
	})
}

// TestFrontIdleAfterWatch: a client whose next request came while the last was watched may be idle
// for no longer than others.
func TestFrontIdleAfterWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
		x := newSite(t, begin(t, Options{}, held("hold", entered, leave, nil)))
		whole := announced("hold", len(holdBody), holdBody)
		c := x.fronted.dial(t, whole)
		leave <- struct{}{}
		if code, text := answered(t, c); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		for range 2 { // the second comes within the first, just before its answer
			time.Sleep(2 * sweepEvery)
			synctest.Wait()
			if _, err := io.WriteString(c, whole); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			leave <- struct{}{}
			if code, text := answered(t, c); code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
		}
		began := time.Now()
		_ = c.SetReadDeadline(began.Add(time.Hour))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF || time.Since(began) > 2*time.Minute {
			t.Errorf("an idle connection: %v after %v", err, time.Since(began))
		}
	})
}

// TestFrontSlowClients: a client that sends a body slowly, or takes no answer, goes after a time.
func TestFrontSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, Options{}, digitsSource())
		x := newSite(t, s)
		whole := posted("Host: localhost\r\n"+headerLength+": 0\r\nContent-Length: 256\r\n",
			string(make([]byte, 256)))
		began := time.Now()
		sender, reader := x.fronted.dial(t, whole[:len(whole)-9]), x.fronted.dial(t, whole)
		if code, text := answered(t, sender); code != http.StatusRequestTimeout ||
			time.Since(began) != 2*patience { // in front and over net/http
			t.Errorf("a slow sender: %d %s after %v", code, text, time.Since(began))
		}
		time.Sleep(2 * patience)
		synctest.Wait()
		if b, err := io.ReadAll(reader); len(b) > 0 {
			t.Errorf("a client that did not read reads %d bytes, %v", len(b), err)
		}
		if n := s.bodies.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are held without a request", n)
		}
	})
}

// TestFrontFaults: a panic while answering ends that request, and is logged.
func TestFrontFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := begin(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		x := newSite(t, s)
		s.mu.Lock()
		s.models["bug"] = &model{name: "bug", served: []*version{{name: "bug"}}}
		s.mu.Unlock()
		got := x.fronted.replies(t, announced("bug", 13, `{"inputs":[]}`), 1)
		s.mu.Lock()
		delete(s.models, "bug")
		s.mu.Unlock()
		synctest.Wait()
		if len(got) != 1 || got[0].status != 500 || !strings.Contains(got[0].body,
			internalFault) || !strings.Contains(log.String(), "panic") {
			t.Errorf("%v; log: %s", got, log.String())
		}
	})
}

// TestFrontKnowsHandlers: with a handler before the endpoints, such as one that asks for accounts,
// nothing is answered in front of it.
func TestFrontKnowsHandlers(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	s.Use(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	x := newSite(t, s)
	if got := x.fronted.replies(t, posted("Host: localhost\r\nContent-Length: 2\r\n", "{}"),
		1); len(got) != 1 || got[0].status != http.StatusUnauthorized {
		t.Errorf("%v", got)
	}
}

// TestFrontLocksInOrder: a request that has the sweep woken does not wait for the front's lock with
// its connection's: who closes the front holds the former, and waits for the latter.
func TestFrontLocksInOrder(t *testing.T) {
	f := &front{conns: map[*frontConn]struct{}{}}
	here, there := net.Pipe()
	defer there.Close()
	c := newFrontConn(f, here)
	defer c.cancel()
	f.mu.Lock() // as Close does
	begun := make(chan bool)
	go func() { begun <- c.begin() }()
	for !f.sweeping.Load() {
		runtime.Gosched()
	}
	if !c.mu.TryLock() { // as Close does of each connection
		t.Error("a connection is locked while its request waits for the front")
	} else {
		c.mu.Unlock()
	}
	f.mu.Unlock()
	if !<-begun {
		t.Error("the request was not begun")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer.Stop()
}
