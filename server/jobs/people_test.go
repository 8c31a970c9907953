package jobs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
)

// guarded puts accounts before a server, and returns the headers of their tokens. ann may have jobs
// with double, bob with all models; cat has no right to jobs.
func (p *place) guarded(t *testing.T) (book *auth.Book, tokens map[string][]string) {
	t.Helper()
	log := p.jobs.o.Audit
	book, err := auth.Open(t.Context(), p.state, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := auth.NewGuard(book, log, auth.OIDC{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens = map[string][]string{}
	for name, g := range map[string]auth.Grant{"root": {Pattern: "*", Rights: auth.Admin},
		"ann": {Pattern: "dou*", Rights: auth.Job}, "bob": {Pattern: "*", Rights: auth.Job},
		"cat": {Pattern: "*", Rights: auth.Infer | auth.Read}} {
		err := book.Add(t.Context(), auth.Account{Name: name, Weight: 1, Grants: []auth.Grant{g}})
		if err == nil {
			var text string
			text, _, err = book.NewToken(t.Context(), name, "t", time.Time{})
			tokens[name] = []string{"Authorization", "Bearer " + text}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.server.Use(guard.HTTP)
	p.jobs.o.May = func(owner, model string) bool {
		a, err := book.Owning(owner)
		return err == nil && a.May(auth.Job, model)
	}
	return book, tokens
}

// audited is the audit of a place whose state is in a folder.
func (p *place) audited(t *testing.T) {
	t.Helper()
	log, err := audit.Open(t.Context(), p.state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	p.jobs.o.Audit = log
}

// TestAccounts: a job is its account's: others do not see it and cannot change it, but for who
// administers the server. What is done with jobs is in the audit.
func TestAccounts(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	p := begin(t, t.TempDir(), Options{}, append(models("digits"), d.source("double", 1))...)
	p.audited(t)
	_, tokens := p.guarded(t)
	file := packed(t, map[string]*tensor.Tensor{"x": numbers(5)})
	as := func(who string, more ...string) []string { return append(more, tokens[who]...) }
	j := p.ask(t, "POST", "/v1/jobs?model=double", file,
		as("ann", "Idempotency-Key", "k")...).job(t, 201)
	if j.Account != "ann" {
		t.Errorf("it is of %q", j.Account)
	}
	// the same key of another account is another key
	other := p.ask(t, "POST", "/v1/jobs?model=double", file,
		as("bob", "Idempotency-Key", "k")...).job(t, 201)
	if other.ID == j.ID {
		t.Errorf("both have job %d", j.ID)
	}
	p.until(t, j.ID, func(j *Job) bool { return j.State == Done })
	for _, c := range []struct {
		who, method, path string
		status            int
	}{
		{"ann", "POST", "/v1/jobs?model=digits", 403},
		{"cat", "POST", "/v1/jobs?model=double", 403},
		{"cat", "GET", "/v1/jobs", 403}, {"cat", "GET", jobPath(j, ""), 403},
		{"bob", "GET", jobPath(j, ""), 404}, {"bob", "GET", jobPath(j, "/log"), 404},
		{"bob", "GET", jobPath(j, "/result"), 404}, {"bob", "POST", jobPath(j, "/cancel"), 404},
		{"bob", "POST", jobPath(j, "/retry"), 404}, {"bob", "DELETE", jobPath(j, ""), 404},
		{"ann", "GET", jobPath(j, ""), 200}, {"ann", "GET", jobPath(j, "/log"), 200},
		{"ann", "GET", jobPath(j, "/result"), 200}, {"root", "GET", jobPath(j, "/result"), 200},
		{"ann", "POST", jobPath(j, "/cancel"), 409}, {"root", "DELETE", jobPath(j, ""), 200},
		{"ann", "GET", jobPath(j, ""), 404},
	} {
		a := p.ask(t, c.method, c.path, file, as(c.who, "Idempotency-Key", "x")...)
		if a.StatusCode != c.status {
			t.Errorf("%s: %s %s: %d %s", c.who, c.method, c.path, a.StatusCode, a.body)
		}
	}
	for who, want := range map[string]int{"ann": 0, "bob": 1, "root": 1} {
		var l List
		a := p.ask(t, "GET", "/v1/jobs", nil, as(who)...)
		if err := json.Unmarshal(a.body, &l); err != nil || len(l.Jobs) != want {
			t.Errorf("%s sees %s", who, a.body)
		}
	}
	var got []string
	records, err := audit.Read(t.Context(), p.state, 0, 100)
	for _, r := range records {
		if strings.HasPrefix(r.What, "job ") && r.Result == audit.OK {
			got = append(got, fmt.Sprint(r.Who, " ", r.What, " ", r.Model, " ", r.About))
		}
	}
	want := fmt.Sprintf("[ann job run double job %d bob job run double job %d root job remove "+
		"double job %d]", j.ID, other.ID, j.ID)
	if fmt.Sprint(got) != want || err != nil {
		t.Errorf("the audit has %v (%v), want %s", got, err, want)
	}
}

// jobPath is that of an endpoint of a job.
func jobPath(j *Job, below string) string { return fmt.Sprint("/v1/jobs/", j.ID, below) }

// TestLostRight: a job whose account may no longer have jobs with its model does not go on.
func TestLostRight(t *testing.T) {
	dir := t.TempDir()
	d, entered, leave := newDoubler(40)
	p := begin(t, dir, Options{}, d.source("double", 1))
	p.jobs.o.May = func(string, string) bool { return true }
	j := p.double(t, auth.With(t.Context(), &auth.Account{Name: "ann", Grants: []auth.Grant{{
		Pattern: "*", Rights: auth.Job}}}), "a", 50)
	<-entered
	p.endAmid(t, leave)
	p = begin(t, dir, Options{May: func(account, _ string) bool { return account != "ann" }},
		d.source("double", 1))
	if got := p.ended(t, j.ID, Failed); !strings.Contains(got.Reason, "ann has no right") {
		t.Errorf("it is %+v", got)
	}
}

// TestTurns: jobs of accounts take turns, however many one of them has; one that runs for long
// makes room for another account's.
func TestTurns(t *testing.T) {
	d, entered, leave := newDoubler(2)
	p := begin(t, t.TempDir(), Options{Part: time.Nanosecond, Slice: time.Nanosecond},
		d.source("double", 1))
	all := []auth.Grant{{Pattern: "*", Rights: auth.Job}}
	ann := auth.With(t.Context(), &auth.Account{Name: "ann", Grants: all})
	bob := auth.With(t.Context(), &auth.Account{Name: "bob", Grants: all})
	first := p.double(t, ann, "a", 20)
	<-entered
	second, third := p.double(t, ann, "b", 20), p.double(t, bob, "c", 20)
	for range 3 {
		leave <- struct{}{}
	}
	var jobs []*Job
	for _, j := range []*Job{first, second, third} {
		jobs = append(jobs, p.ended(t, j.ID, Done))
	}
	if !jobs[2].Ended.Before(jobs[1].Ended) {
		t.Errorf("bob's job ended at %v, after ann's second at %v", jobs[2].Ended, jobs[1].Ended)
	}
	lines, err := p.jobs.Lines(auth.With(t.Context(), &auth.Account{Name: "ann"}), first.ID, 0)
	text := fmt.Sprint(lines)
	if err != nil || !strings.Contains(text, "another account's turn") {
		t.Errorf("the first job's log is %s (%v)", text, err)
	}
	for _, j := range jobs {
		p.doubled(t, j.ID, 20)
	}
}

// TestTurnsAfterRemovals: an account that removes its jobs as they end has no more turns for it.
func TestTurnsAfterRemovals(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	p := begin(t, t.TempDir(), Options{Begin: make(chan struct{})}, d.source("double", 1))
	all := []auth.Grant{{Pattern: "*", Rights: auth.Job}}
	ann := auth.With(t.Context(), &auth.Account{Name: "ann", Grants: all})
	bob := auth.With(t.Context(), &auth.Account{Name: "bob", Grants: all})
	for i, who := range []context.Context{ann, bob, ann, ann, bob} {
		p.double(t, who, fmt.Sprint(i), 1)
	}
	for i, want := range []string{"ann", "bob", "ann", "bob", "ann"} {
		j, _, err := p.jobs.claim()
		if err != nil || j == nil || j.Account != want {
			t.Fatalf("turn %d is that of %+v (%v), want %s's", i, j, err, want)
		}
		if want == "bob" {
			continue
		}
		if err := errors.Join(p.jobs.Cancel(ann, j.ID), p.jobs.Remove(ann, j.ID)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTurnsAfterTheLast: an account that removes its last job before it hands in the next has no
// more turns for it, over a restart too, and its turn is forgotten once all who wait had theirs.
func TestTurnsAfterTheLast(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	dir := t.TempDir()
	o := Options{Begin: make(chan struct{})}
	p := begin(t, dir, o, d.source("double", 1))
	all := []auth.Grant{{Pattern: "*", Rights: auth.Job}}
	as := func(name string) context.Context {
		return auth.With(t.Context(), &auth.Account{Name: name, Grants: all})
	}
	for i, who := range []string{"ann", "bob", "cat", "bob", "cat", "bob", "cat", "cat"} {
		p.double(t, as(who), fmt.Sprint(i), 1)
	}
	for i, want := range []string{"ann", "bob", "cat", "ann", "bob", "cat", "ann", "bob", "cat",
		"ann", "cat"} {
		if i == 4 {
			p.end(t)
			p = begin(t, dir, o, d.source("double", 1))
		}
		j, _, err := p.jobs.claim()
		if err != nil || j == nil || j.Account != want {
			t.Fatalf("turn %d is that of %+v (%v), want %s's", i, j, err, want)
		}
		who := as(want)
		if err := errors.Join(p.jobs.Cancel(who, j.ID), p.jobs.Remove(who, j.ID)); err != nil {
			t.Fatal(err)
		}
		if want == "ann" && i < 9 {
			p.double(t, who, fmt.Sprint("next ", i), 1)
		}
	}
	var known int
	if err := p.state.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM jobs_turns").Scan(&known)
	}); err != nil || known != 1 {
		t.Errorf("%d turns are remembered, where nobody waits (%v)", known, err)
	}
}

// TestTurnsOfBefore: turns of a state that had them with the jobs go on.
func TestTurnsOfBefore(t *testing.T) {
	dir, was := t.TempDir(), Room
	was.Migrations = was.Migrations[:2]
	s, err := store.Open(t.Context(), dir, store.Options{}, audit.Room, auth.Room, was)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Write(t.Context(), func(tx *sql.Tx) (err error) {
		for i, name := range []string{"ann", "ann", "bob", "cat"} {
			_, more := tx.Exec("INSERT INTO jobs_jobs (account, key, asked, name, model, version, "+
				"outputs, state, input, input_bytes, rows, made, turn) VALUES (?, ?, '', '', 'm', "+
				"'1', '[]', 'queued', '', 0, 1, 1, ?)", name, i, 9-3*i)
			err = errors.Join(err, more)
		}
		return err
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	d := &doubler{count: map[float32]int{}}
	p := begin(t, dir, Options{Begin: make(chan struct{})}, d.source("double", 1))
	for i, want := range []string{"cat", "bob", "ann", "ann"} {
		if j, _, err := p.jobs.claim(); err != nil || j == nil || j.Account != want {
			t.Fatalf("turn %d is that of %+v (%v), want %s's", i, j, err, want)
		}
	}
}

// TestBounds: an account has so many jobs and bytes and no more, and what ends them is said.
func TestBounds(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	p := begin(t, t.TempDir(), Options{Most: 2, Bytes: 10_000}, d.source("double", 1))
	a, b := p.double(t, t.Context(), "a", 10), p.double(t, t.Context(), "b", 10)
	p.ended(t, a.ID, Done)
	p.ended(t, b.ID, Done)
	small := packed(t, map[string]*tensor.Tensor{"x": numbers(1)})
	refused := func(says string) {
		t.Helper()
		_, _, err := p.jobs.Make(t.Context(), Asked{Key: "c", Model: "double", Size: -1},
			bytes.NewReader(small))
		if oip.KindOf(err) != oip.Exhausted || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	refused("2 jobs")
	if err := errors.Join(p.jobs.Remove(t.Context(), a.ID),
		p.jobs.Remove(t.Context(), b.ID)); err != nil {
		t.Fatal(err)
	}
	// its file fits, and its result does not beside it
	j := p.double(t, t.Context(), "d", 2000)
	if got := p.ended(t, j.ID, Failed); !strings.Contains(got.Reason, "remove some") {
		t.Errorf("it is %+v", got)
	}
	small = packed(t, map[string]*tensor.Tensor{"x": numbers(20_000)})
	refused("KiB more")
}

// TestAccountMadeAnew: an account that is made under the name of one that was removed neither sees
// that one's jobs nor has its keys and its right to go on.
func TestAccountMadeAnew(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	p := begin(t, t.TempDir(), Options{}, append(models("digits"), d.source("double", 1))...)
	p.audited(t)
	book, tokens := p.guarded(t)
	file := packed(t, map[string]*tensor.Tensor{"x": numbers(5)})
	made := func() *Job {
		return p.ask(t, "POST", "/v1/jobs?model=double", file,
			append(tokens["ann"], "Idempotency-Key", "k")...).job(t, 201)
	}
	old := made()
	p.ended(t, old.ID, Done)
	before, err := book.Account("ann")
	if err == nil {
		err = book.Remove(t.Context(), "ann")
	}
	if err == nil {
		err = book.Add(t.Context(), auth.Account{Name: "ann", Weight: 1,
			Grants: []auth.Grant{{Pattern: "*", Rights: auth.Job}}})
	}
	var text string
	if err == nil {
		text, _, err = book.NewToken(t.Context(), "ann", "t", time.Time{})
	}
	if err != nil {
		t.Fatal(err)
	}
	tokens["ann"] = []string{"Authorization", "Bearer " + text}
	if got := p.ask(t, "GET", jobPath(old, ""), nil, tokens["ann"]...); got.StatusCode != 404 {
		t.Errorf("the old account's job: %d %s", got.StatusCode, got.body)
	}
	if p.jobs.o.May(before.Owner(), "double") {
		t.Error("jobs of the old account go on by the rights of the new one")
	}
	if j := made(); j.ID == old.ID || j.Account != "ann" { // the same key is another
		t.Errorf("the job of its own is %+v", j)
	}
}

// TestOwnersOfBefore: jobs of a state from before accounts had numbers stay those of the accounts
// that are there.
func TestOwnersOfBefore(t *testing.T) {
	dir := t.TempDir()
	was := func(r store.Room) store.Room {
		r.Migrations = r.Migrations[:1]
		return r
	}
	s, err := store.Open(t.Context(), dir, store.Options{}, audit.Room, was(auth.Room), was(Room))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO auth_accounts VALUES ('ann', 1, 0)")
		for _, name := range []string{"ann", "removed", ""} {
			_, more := tx.Exec("INSERT INTO jobs_jobs (account, key, asked, name, model, version, "+
				"outputs, state, input, input_bytes, rows, made) VALUES (?, 'k', '', ?, 'm', '1', "+
				"'[]', 'failed', '', 0, 1, 1)", name, name)
			err = errors.Join(err, more)
		}
		return err
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(t.Context(), dir, store.Options{}, audit.Room, auth.Room,
		Room); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	book, err := auth.Open(t.Context(), s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ann, err := book.Account("ann")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ann": ann.Owner(), "removed": "removed", "": ""}
	if ann.Owner() == "ann" {
		t.Error("an account has no number")
	}
	err = s.Read(t.Context(), func(tx *sql.Tx) error {
		list, err := query(tx, "")
		for _, j := range list {
			if j.Owner() != want[j.Name] || j.Account != j.Name {
				t.Errorf("the job of %q is of %q, account %q", j.Name, j.Owner(), j.Account)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
