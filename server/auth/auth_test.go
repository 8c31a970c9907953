package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/store"
)

// clock is one that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// place is a server's state with its accounts.
type place struct {
	dir   string
	state *store.Store
	log   *audit.Log
	book  *Book
	clock *clock
}

// begin opens accounts in a folder, until the test ends.
func begin(t testing.TB, dir string) *place {
	t.Helper()
	p := &place{dir: dir, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	var err error
	if p.state, err = store.Open(t.Context(), dir, store.Options{}, audit.Room, Room); err != nil {
		t.Fatal(err)
	}
	if p.log, err = audit.Open(t.Context(), p.state, audit.Options{}); err != nil {
		t.Fatal(err)
	}
	if p.book, err = Open(t.Context(), p.state, p.log, p.clock.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func (p *place) end() {
	if p.state != nil {
		_ = errors.Join(p.log.Close(), p.state.Close())
		p.state = nil
	}
}

// guard is one for the accounts.
func (p *place) guard(t testing.TB, o OIDC) *Guard {
	t.Helper()
	g, err := NewGuard(p.book, p.log, o, p.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// add adds an account with rights such as "read,infer on m-*" and returns a token of it.
func (p *place) add(t testing.TB, name string, grants ...string) string {
	t.Helper()
	a := Account{Name: name, Weight: 1}
	for _, text := range grants {
		rights, pattern, _ := strings.Cut(text, " on ")
		r, err := ParseRights(rights)
		if err != nil {
			t.Fatal(err)
		}
		a.Grants = append(a.Grants, Grant{pattern, r})
	}
	if err := p.book.Add(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	text, _, err := p.book.NewToken(t.Context(), name, "first", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// events are the records after the first, as what, about and result.
func (p *place) events(t *testing.T) (list []string) {
	t.Helper()
	all, err := audit.Read(t.Context(), p.state, 1, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		list = append(list, strings.Join([]string{r.Who, r.What, r.About, r.Result}, "|"))
	}
	return list
}

// get asks a handler with an Authorization header, unless that is empty.
func get(h http.Handler, method, path, authorization string) *http.Response {
	return send(h, method, path, authorization, nil)
}

func send(h http.Handler, method, path, authorization string, body io.Reader) *http.Response {
	r := httptest.NewRequest(method, "https://weir.example"+path, body)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// text is the body of an answer.
func text(r *http.Response) string {
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

// who answers with the name of the account.
var who = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, From(r.Context()).Name)
})

// TestRights: what an account may is what it was granted, on the models that a pattern matches.
func TestRights(t *testing.T) {
	a := &Account{Grants: []Grant{{"team-*", Infer | Read}, {"x[12]", Load}, {"*", Job},
		{"?*", Push}}}
	for _, c := range []struct {
		r     Rights
		model string
		want  bool
	}{{Infer, "team-a", true}, {Infer, "team", false}, {Infer, "a-team-b", false},
		{Load, "x2", true}, {Load, "x3", false}, {Load, "team-a", false}, {Job, "any", true},
		{Infer | Job, "team-a", true}, {Infer | Load, "team-a", false}, {0, "team-a", false},
		{Infer, "team-a/b", false}, {Job, "a/b", true}, {Load, "*", false}, {Job, "*", true},
		{Push, "any", true}, {Push, "*", false}} {
		if got := a.May(c.r, c.model); got != c.want {
			t.Errorf("%v on %s: %v", c.r, c.model, got)
		}
	}
	if !a.MayAny(Load) || a.MayAny(Admin) || a.MayAll(Push) || a.MayAll(Load) || !a.MayAll(Job) {
		t.Error("some and all")
	}
	admin := &Account{Grants: []Grant{{"m", Admin}}}
	if !admin.May(Read|Infer|Load|Push|Job|Admin, "m") || admin.May(Read, "n") ||
		admin.MayAll(Admin) {
		t.Error("admin of a model")
	}
}

// TestRightNames: rights are read as they are written.
func TestRightNames(t *testing.T) {
	for _, s := range []string{"read", "read,infer,load,push,job,admin"} {
		if r, err := ParseRights(s); err != nil || r.String() != s {
			t.Errorf("%s: %v, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "write", "read,,infer"} {
		if _, err := ParseRights(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestFromNobody: without accounts a request has no name and no rights, and may all the same; with
// one it may what the account may.
func TestFromNobody(t *testing.T) {
	ctx := t.Context()
	if a := From(ctx); a.Name != "" || a.MayAny(Read) || !May(ctx, Load, "m") ||
		Check(ctx, "x", Load, "m") != nil {
		t.Errorf("got %+v", a)
	}
	ctx = With(ctx, &Account{Name: "ann", Grants: []Grant{{"m", Read}}})
	if From(ctx).Name != "ann" || !May(ctx, Read, "m") || May(ctx, Load, "m") ||
		!errors.Is(Check(ctx, "x", Load, "m"), ErrDenied) || Check(ctx, "x", Read, "m") != nil {
		t.Error("an account's context")
	}
}

// TestBook: accounts, grants and tokens are there again after the state was closed, and each change
// is in the audit.
func TestBook(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir)
	b, ctx := p.book, With(t.Context(), &Account{Name: "root"})
	a := Account{Name: "ann", Weight: 2.5, Queue: 7, Grants: []Grant{{"a*", Read}},
		Certificates: []string{"CN=ann"}, Subjects: []string{"sub-1"}}
	for _, err := range []error{b.Add(ctx, a), b.Add(ctx, Account{Name: "bob", Weight: 1}),
		b.Grant(ctx, "ann", Grant{"a*", Infer | Load}), b.Grant(ctx, "ann", Grant{"b", Job}),
		b.Revoke(ctx, "ann", Grant{"a*", Load}), b.Revoke(ctx, "ann", Grant{"b", Job}),
		b.Remove(ctx, "bob")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.NewToken(ctx, "ann", "laptop", time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"root|account add|ann|ok", "root|account add|bob|ok",
		"root|account grant|ann: infer,load on a*|ok", "root|account grant|ann: job on b|ok",
		"root|account revoke|ann: load on a*|ok", "root|account revoke|ann: job on b|ok",
		"root|account rm|bob|ok", "root|token add|ann/laptop|ok"}
	if got := p.events(t); !slices.Equal(got, want) {
		t.Errorf("audit:\n%s", strings.Join(got, "\n"))
	}
	p.end()
	got, err := begin(t, dir).book.Account("ann")
	a.Grants[0].Rights = Read | Infer
	if err != nil || got.Name != a.Name || got.Weight != a.Weight || got.Queue != a.Queue ||
		!slices.Equal(got.Grants, a.Grants) || !slices.Equal(got.Certificates, a.Certificates) ||
		!slices.Equal(got.Subjects, a.Subjects) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestBookRefuses: what cannot be is refused, changes nothing and is in no record.
func TestBookRefuses(t *testing.T) {
	p := begin(t, t.TempDir())
	b, ctx := p.book, t.Context()
	p.add(t, "ann", "admin on *")
	before := len(p.events(t))
	token := func(account, name string, expires time.Time) error {
		_, _, err := b.NewToken(ctx, account, name, expires)
		return err
	}
	for i, c := range []struct{ got, want error }{
		{b.Add(ctx, Account{Name: "ann", Weight: 1}), store.ErrExists},
		{b.Add(ctx, Account{Name: "a b", Weight: 1}), ErrInvalid},
		{b.Add(ctx, Account{Name: "a/b", Weight: 1}), ErrInvalid},
		{b.Add(ctx, Account{Name: strings.Repeat("x", 65), Weight: 1}), ErrInvalid},
		{b.Add(ctx, Account{Name: "bob"}), ErrInvalid},
		{b.Add(ctx, Account{Name: "bob", Weight: MostWeight + 1}), ErrInvalid},
		{b.Add(ctx, Account{Name: "bob", Weight: LeastWeight / 2}), ErrInvalid},
		{b.Add(ctx, Account{Name: "..", Weight: 1}), ErrInvalid}, // which no path can name
		{b.Add(ctx, Account{Name: "bob", Weight: 1, Queue: -1}), ErrInvalid},
		{b.Add(ctx, Account{Name: "bob", Weight: 1, Grants: []Grant{{"[", Read}}}), ErrInvalid},
		{b.Add(ctx, Account{Name: "bob", Weight: 1, Subjects: []string{""}}), ErrInvalid},
		{b.Add(ctx, Account{Name: "bob", Weight: 1, Subjects: []string{"s", "s"}}),
			store.ErrExists},
		{b.Grant(ctx, "eve", Grant{"*", Read}), ErrUnknown},
		{b.Grant(ctx, "ann", Grant{"*", 0}), ErrInvalid},
		{b.Revoke(ctx, "ann", Grant{"m", Read}), ErrUnknown},
		{b.Remove(ctx, "eve"), ErrUnknown},
		{b.Remove(ctx, "ann"), ErrLastAdmin},
		{b.Revoke(ctx, "ann", Grant{"*", Admin}), ErrLastAdmin},
		{token("eve", "x", time.Time{}), ErrUnknown},
		{token("ann", "first", time.Time{}), store.ErrExists},
		{token("ann", "x", p.clock.Now()), ErrInvalid},
		{token("ann", "x", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), ErrInvalid},
		{token("ann", ".", time.Time{}), ErrInvalid},
		{b.RevokeToken(ctx, "ann", "x"), ErrUnknown},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%d: got %v, want %v", i, c.got, c.want)
		}
	}
	if now := p.events(t); len(now) != before || !b.HasAdmin() || len(b.Accounts()) != 1 {
		t.Errorf("changed: %q", now[before:])
	}
	p.add(t, "bob", "admin on *")
	if err := b.Remove(ctx, "ann"); err != nil {
		t.Errorf("one of two admins: %v", err)
	}
}

// TestTokens: a token is its account until it expires, is revoked, or the account is removed; the
// state has its hash only.
func TestTokens(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(who)
	p.add(t, "ann", "read on *")
	hour := p.clock.Now().Add(time.Hour)
	token, made, err := p.book.NewToken(t.Context(), "ann", "laptop", hour)
	if err != nil || !made.Expires.Equal(hour) || !strings.HasPrefix(token, "weir_"+made.ID) {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := get(h, "GET", "/v2", "Bearer "+token); got.StatusCode != 200 || text(got) != "ann" {
		t.Errorf("status %d", got.StatusCode)
	}
	for name, bad := range map[string]string{"changed": token[:len(token)-1], "empty": "weir_",
		"of another": "weir_" + made.ID + "_" + strings.Repeat("A", 43), "no token": "x",
		"without prefix": strings.TrimPrefix(token, "weir_")} {
		got := get(h, "GET", "/v2", "Bearer "+bad)
		if got.StatusCode != 401 || got.Header.Get("WWW-Authenticate") != "Bearer" ||
			!strings.Contains(text(got), `{"error":"the token is not known`) {
			t.Errorf("%s: status %d", name, got.StatusCode)
		}
	}
	p.clock.pass(time.Hour)
	got := get(h, "GET", "/v2", "Bearer "+token)
	if got.StatusCode != 401 || !strings.Contains(text(got), "laptop expired at 2026-03-01T13") {
		t.Errorf("expired: status %d", got.StatusCode)
	}
	other, _, err := p.book.NewToken(t.Context(), "ann", "other", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.book.RevokeToken(t.Context(), "ann", "other"); err != nil {
		t.Fatal(err)
	}
	if got := get(h, "GET", "/v2", "Bearer "+other); got.StatusCode != 401 {
		t.Errorf("revoked: status %d", got.StatusCode)
	}
	bob := p.add(t, "bob")
	if err := p.book.Remove(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	if got := get(h, "GET", "/v2", "Bearer "+bob); got.StatusCode != 401 {
		t.Errorf("of an account that is gone: status %d", got.StatusCode)
	}
	if list := p.book.Tokens("ann"); len(list) != 2 || list[1].Name != "laptop" {
		t.Errorf("got %+v", list)
	}
}

// TestSecretsAreNotKept: no file of the state has the secret of a token.
func TestSecretsAreNotKept(t *testing.T) {
	p := begin(t, t.TempDir())
	_, secret, _ := strings.Cut(strings.TrimPrefix(p.add(t, "ann"), tokenPrefix), "_")
	if len(secret) != 43 {
		t.Fatalf("a secret of %d digits", len(secret))
	}
	found := 0
	for _, b := range files(t, p.dir) {
		if strings.Contains(b, secret) {
			t.Error("the secret is in the state")
		}
		if strings.Contains(b, "first") {
			found++
		}
	}
	if found == 0 {
		t.Error("nothing of the token was found")
	}
}

// TestHeaders: only one header Authorization with a bearer token counts, and without one there is
// no account.
func TestHeaders(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(who)
	token := p.add(t, "ann")
	for _, c := range []struct {
		header, says string
		status       int
	}{{"", "this server has accounts", 401}, {"Basic YTpi", "scheme", 401}, {token, "scheme", 401},
		{"bearer " + token, "ann", 200}, {"Bearer  " + token + " ", "ann", 200}} {
		got := get(h, "GET", "/v2", c.header)
		if body := text(got); got.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%q: status %d, %s", c.header, got.StatusCode, body)
		}
	}
	r := httptest.NewRequest("GET", "/v2", nil)
	r.Header["Authorization"] = []string{"Bearer " + token, "Bearer x"}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 401 {
		t.Errorf("two headers: status %d", w.Code)
	}
}

// TestThrottle: who fails too often is told to wait, and for how long; others are not, nor is who
// has a token that holds, even at the same address.
func TestThrottle(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(who)
	token := p.add(t, "ann")
	from := func(peer, authorization string) *http.Response {
		r := httptest.NewRequest("GET", "/v2", nil)
		r.RemoteAddr = peer
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	const bad = "Bearer weir_x_y"
	for i := range 3 * failBurst {
		got := from("192.0.2.1:"+strconv.Itoa(1000+i), bad)
		if want := 401 + 28*min(1, i/failBurst); got.StatusCode != want {
			t.Fatalf("attempt %d: status %d, want %d", i+1, got.StatusCode, want)
		}
		if wait := got.Header.Get("Retry-After"); (wait == "1") != (i >= failBurst) {
			t.Fatalf("attempt %d: Retry-After %q", i+1, wait)
		}
	}
	if got := from("192.0.2.1:2", "Bearer "+token); got.StatusCode != 200 {
		t.Errorf("with a token: status %d", got.StatusCode)
	}
	if got := from("192.0.2.2:2", bad); got.StatusCode != 401 {
		t.Errorf("another client: status %d", got.StatusCode)
	}
	p.clock.pass(failEvery)
	if a, b := from("192.0.2.1:3", bad), from("192.0.2.1:3", bad); a.StatusCode != 401 ||
		b.StatusCode != 429 {
		t.Errorf("after a while: status %d, %d", a.StatusCode, b.StatusCode)
	}
	for i := range failBurst + 1 {
		got := from("[2001:db8::"+strconv.Itoa(i+1)+"]:1", bad)
		if (got.StatusCode == 429) != (i == failBurst) {
			t.Errorf("address %d of one network: status %d", i, got.StatusCode)
		}
	}
}

// TestThrottleIsBounded: no number of clients takes more memory than a bound, and those who fail
// now are not forgotten for those who failed long ago.
func TestThrottleIsBounded(t *testing.T) {
	c := &clock{now: time.Unix(0, 0)}
	th := newThrottle(c.Now)
	for i := range failClients {
		th.failed("old " + strconv.Itoa(i))
	}
	c.pass(time.Hour)
	for range failBurst {
		th.failed("now")
	}
	for i := range failClients - 1 {
		th.failed("new " + strconv.Itoa(i))
	}
	if len(th.of) != failClients || th.failed("now") == 0 {
		t.Errorf("%d clients are remembered", len(th.of))
	}
}

// TestRefusedRightsAreRecorded: which account was refused which right on which model is in the
// audit, also where the endpoint learns of the model from the body; and so is each change of state.
func TestRefusedRightsAreRecorded(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/jobs" {
			if err := Check(r.Context(), "job run", Job, "b"); err != nil {
				Fail(w, err)
			}
			return
		}
		if strings.HasSuffix(r.URL.Path, "/unload") {
			w.WriteHeader(404)
		}
	}))
	token := "Bearer " + p.add(t, "ann", "read on *", "load,job on a")
	from := len(p.events(t))
	for path, want := range map[string]int{"/v2/repository/models/a/load": 200,
		"/v2/repository/models/a/unload": 404, "/v2/repository/models/b/load": 403,
		"/v1/jobs": 403} {
		got := get(h, "POST", path, token)
		if body := text(got); got.StatusCode != want ||
			want == 403 && !strings.Contains(body, "account ann has no right to") {
			t.Errorf("%s: status %d, %s", path, got.StatusCode, body)
		}
	}
	if err := p.log.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	all, err := audit.Read(t.Context(), p.state, int64(from)+1, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		got = append(got, strings.Join([]string{r.Who, r.Via, r.What, r.Model, r.Result}, "|"))
	}
	slices.Sort(got)
	want := []string{"ann|token first|job run|b|refused", "ann|token first|model load|a|ok",
		"ann|token first|model load|b|refused", "ann|token first|model unload|a|failed: status 404"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if p.log, err = audit.Open(context.Background(), p.state, audit.Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestOthersTokensAreRecorded: who asks for the tokens of another account, or would end one, is in
// the audit like all whose right was refused.
func TestOthersTokensAreRecorded(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.served(t)
	p.add(t, "root", "admin on *")
	eve := "Bearer " + p.add(t, "eve", "read on m")
	from := len(p.events(t))
	for request, path := range map[string]string{"GET": "/v1/tokens?account=root",
		"DELETE": "/v1/tokens/root/first"} {
		if got := get(h, request, path, eve); got.StatusCode != 403 {
			t.Errorf("%s: status %d", request, got.StatusCode)
		}
	}
	if err := p.log.Close(); err != nil {
		t.Fatal(err)
	}
	got := p.events(t)[from:]
	if want := []string{"eve|tokens of another account|admin|refused"}; !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	var err error
	if p.log, err = audit.Open(context.Background(), p.state, audit.Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestChangesAreGathered: a change that fails can be asked for as often as a client likes, and what
// belongs to inferences too. Equal ones become one record.
func TestChangesAreGathered(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/load") {
			w.WriteHeader(503)
		}
	}))
	ann := "Bearer " + p.add(t, "ann", "load,infer on *")
	from := len(p.events(t))
	for range 100 {
		get(h, "POST", "/v2/repository/models/a/load", ann)
		get(h, "POST", "/v2/systemsharedmemory/region/a/register", ann)
	}
	if err := p.log.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := audit.Read(t.Context(), p.state, int64(from)+1, 1000)
	if err != nil || len(all) != 2 || all[0].Count != 100 || all[1].Count != 100 ||
		all[0].Result != "failed: status 503" || all[1].Result != audit.OK {
		t.Errorf("%d records, %v", len(all), err)
	}
	if p.log, err = audit.Open(context.Background(), p.state, audit.Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestCutOffChangesAreRecorded: a change of which nobody knows whether it was made is in the audit
// at once.
func TestCutOffChangesAreRecorded(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	ann := "Bearer " + p.add(t, "ann", "load on *")
	func() {
		defer func() { _ = recover() }()
		get(h, "POST", "/v2/repository/models/a/load", ann)
	}()
	list := p.events(t)
	if want := "ann|model load|/v2/repository/models/a/load|failed: it was cut off"; !slices.
		Contains(list, want) {
		t.Errorf("got\n%s", strings.Join(list, "\n"))
	}
}

// TestRightsOfLongRequests: what a request may is what its account may now: less once a right or
// the token was revoked, nothing once the account is gone.
func TestRightsOfLongRequests(t *testing.T) {
	p := begin(t, t.TempDir())
	var ctx context.Context
	h := p.guard(t, OIDC{}).HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx = r.Context()
	}))
	may := func() string {
		return fmt.Sprint(May(ctx, Read, "a"), May(ctx, Infer, "a"), MayAll(ctx, Read))
	}
	check := func(when, want string, err error) {
		t.Helper()
		if got := may(); got != want || err != nil {
			t.Errorf("%s: %s, want %s (%v)", when, got, want, err)
		}
	}
	p.add(t, "root", "admin on *")
	begun := func(expires time.Time) {
		name := fmt.Sprint("t", len(p.book.Tokens("")))
		token, _, err := p.book.NewToken(t.Context(), "ann", name, expires)
		if err != nil {
			t.Fatal(err)
		}
		get(h, "GET", "/v2", "Bearer "+token)
	}
	p.add(t, "ann", "read,infer on *")
	begun(p.clock.Now().Add(time.Hour))
	check("first", "true true true", nil)
	check("less", "true false true", p.book.Revoke(t.Context(), "ann", Grant{All, Infer}))
	p.clock.pass(time.Hour)
	check("expired", "false false false", nil)
	begun(time.Time{})
	check("again", "true false true", nil)
	check("token revoked", "false false false", p.book.RevokeToken(t.Context(), "ann",
		p.book.Tokens("ann")[2].Name))
	begun(time.Time{})
	check("account removed", "false false false", p.book.Remove(t.Context(), "ann"))
}

// TestUnknownEndpoints: what has no row in the table is for who may administer the server; a row
// holds for its own method only.
func TestUnknownEndpoints(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{}).HTTP(who)
	all := "Bearer " + p.add(t, "ann", "read,infer,load,push,job on *")
	admin := "Bearer " + p.add(t, "root", "admin on *")
	for _, c := range [][2]string{{"GET", "/v3"}, {"DELETE", "/v2/models/m"},
		{"PUT", "/v1/accounts"}, {"POST", "/"},
		{"GET", "/v2/models/m/secret"}, {"GET", "/debug/pprof"}} {
		if got := get(h, c[0], c[1], all); got.StatusCode != 404 {
			t.Errorf("%s: status %d", c, got.StatusCode)
		}
		if got := get(h, c[0], c[1], ""); got.StatusCode != 401 {
			t.Errorf("%s without an account: status %d", c, got.StatusCode)
		}
		if got := get(h, c[0], c[1], admin); got.StatusCode != 200 || text(got) != "root" {
			t.Errorf("%s as admin: status %d", c, got.StatusCode)
		}
	}
}

// TestPathsAreNotMistaken: no way of writing a path reaches a model that it does not name.
func TestPathsAreNotMistaken(t *testing.T) {
	p := begin(t, t.TempDir())
	reached := ""
	inner := http.NewServeMux()
	inner.HandleFunc("GET /v2/models/{model}", func(_ http.ResponseWriter, r *http.Request) {
		reached = r.PathValue("model")
	})
	h := p.guard(t, OIDC{}).HTTP(inner)
	token := "Bearer " + p.add(t, "ann", "read on mine")
	for _, path := range []string{"/v2/models/mine/../other", "/v2/models//other",
		"/v2/models/mine%2F..%2Fother", "/v2//models/other", "/v2/models/other?model=mine",
		"/v2/models/%6Fther", "/v2/models/mine/./../other", "/v2/models/mine%00"} {
		reached = ""
		got := get(h, "GET", path, token)
		if reached != "" || got.StatusCode == 200 {
			t.Errorf("%s: status %d, reached %q", path, got.StatusCode, reached)
		}
	}
	if get(h, "GET", "/v2/models/%6Dine", token); reached != "mine" {
		t.Errorf("reached %q", reached)
	}
}
