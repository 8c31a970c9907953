package auth

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/audit"
)

// served is the API behind its guard.
func (p *place) served(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range API(p.book, p.state) {
		mux.Handle(pattern, h)
	}
	return p.guard(t, OIDC{}).HTTP(mux)
}

// TestAPI: accounts are added, granted, listed and removed, tokens made and revoked, and the audit
// read.
func TestAPI(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.served(t)
	root := "Bearer " + p.add(t, "root", "admin on *")
	do := func(by, request, body string, want int) string {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		got := send(h, method, path, by, strings.NewReader(body))
		answer := text(got)
		if got.StatusCode != want || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, %s", request, got.StatusCode, answer)
		}
		return answer
	}
	do(root, "POST /v1/accounts", `{"name":"ann","grants":[{"models":"a*","rights":["read"]}]}`,
		200)
	do(root, "POST /v1/accounts", `{"name":"ann"}`, 409)
	do(root, "POST /v1/accounts", `{"name":"bob","wait":1}`, 400)
	do(root, "POST /v1/accounts", `{"name":"`+strings.Repeat("x", mostBody)+`"}`, 400)
	do(root, "POST /v1/accounts/ann/grants", `{"models":"b","rights":["load","job"]}`, 200)
	do(root, "DELETE /v1/accounts/ann/grants?models=b&rights=load", "", 200)
	do(root, "DELETE /v1/accounts/ann/grants?models=b&rights=load", "", 404)
	do(root, "DELETE /v1/accounts/root", "", 409)
	var made MadeToken
	if err := json.Unmarshal([]byte(do(root, "POST /v1/tokens", `{"account":"ann","name":"t",`+
		`"expires":"2030-01-01T00:00:00Z"}`, 200)), &made); err != nil {
		t.Fatal(err)
	}
	ann := "Bearer " + made.Text
	for request, says := range map[string]string{
		"GET /v1/account": `"name":"ann","weight":1,"queue":0,"grants":[{"models":"a*","rights":` +
			`["read"]},{"models":"b","rights":["job"]}]`,
		"GET /v1/tokens": `{"tokens":[{"id":"` + made.ID + `","account":"ann"`,
	} {
		if got := do(ann, request, "", 200); !strings.Contains(got, says) {
			t.Errorf("%s: %s", request, got)
		}
	}
	if got := do(root, "GET /v1/tokens", "", 200); strings.Count(got, `"id"`) != 2 {
		t.Errorf("tokens for an admin: %s", got)
	}
	do(ann, "GET /v1/tokens?account=root", "", 403)
	do(ann, "DELETE /v1/tokens/root/first", "", 403)
	do(ann, "POST /v1/tokens", `{"account":"ann","name":"more"}`, 403)
	do(ann, "GET /v1/accounts", "", 403)
	do(ann, "DELETE /v1/tokens/ann/t", "", 200)
	do(ann, "GET /v1/account", "", 401)
	if got := do(root, "GET /v1/accounts", "", 200); !strings.HasPrefix(got,
		`{"accounts":[{"name":"ann"`) {
		t.Errorf("accounts: %s", got)
	}
	do(root, "DELETE /v1/accounts/ann", "", 200)
	var r Records
	if err := json.Unmarshal([]byte(do(root, "GET /v1/audit?after=3&limit=2", "", 200)),
		&r); err != nil || len(r.Records) != 2 || r.Records[0].Seq != 4 ||
		r.Records[0].Who != "root" || time.Since(r.Records[0].Time) > time.Hour {
		t.Errorf("audit: %+v, %v", r, err)
	}
	var newest, older Records
	if err := json.Unmarshal([]byte(do(root, "GET /v1/audit?before=0&limit=2", "", 200)),
		&newest); err != nil || len(newest.Records) != 2 ||
		newest.Records[0].Seq != newest.Records[1].Seq+1 {
		t.Errorf("the newest records are %+v (%v)", newest, err)
	}
	last := newest.Records[1].Seq
	if err := json.Unmarshal([]byte(do(root, fmt.Sprint("GET /v1/audit?limit=1&before=", last), "",
		200)), &older); err != nil || len(older.Records) != 1 || older.Records[0].Seq != last-1 {
		t.Errorf("before %d: %+v (%v)", last, older, err)
	}
	do(root, "GET /v1/audit?after=-1", "", 400)
	do(root, "GET /v1/audit?limit=x", "", 400)
}

// TestAuditIsBounded: an answer has so many records of the audit and no more, whatever is asked.
func TestAuditIsBounded(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.served(t)
	root := "Bearer " + p.add(t, "root", "admin on *")
	if err := p.state.Write(t.Context(), func(tx *sql.Tx) (err error) {
		for range MostRecords {
			err = errors.Join(err, p.log.Append(tx, audit.Event{What: "x", Result: audit.OK}))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "limit=1000000", "before=0", "before=0&limit=1001",
		"after=0&limit=9223372036854775807"} {
		var r Records
		got := send(h, "GET", "/v1/audit?"+query, root, nil)
		if err := json.Unmarshal([]byte(text(got)), &r); err != nil ||
			len(r.Records) != MostRecords {
			t.Errorf("%s: %d records (%v)", query, len(r.Records), err)
		}
	}
}

// TestAPIAnswersLate: an answer that took longer than a client may take to read one is sent.
func TestAPIAnswersLate(t *testing.T) {
	p := begin(t, t.TempDir())
	h := p.served(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	got, err := http.Get(s.URL + "/v1/account")
	if err != nil {
		t.Fatal(err)
	}
	if body := text(got); got.StatusCode != 401 || !strings.Contains(body, "send a token") {
		t.Errorf("status %d, %s", got.StatusCode, body)
	}
}

// TestAPIHasRows: each endpoint of the API is in the table by itself, and not for admins only
// because it was forgotten.
func TestAPIHasRows(t *testing.T) {
	rows := map[string]bool{}
	for _, e := range Endpoints {
		for _, pattern := range e.HTTP {
			rows[pattern] = true
		}
	}
	p := begin(t, t.TempDir())
	for pattern := range API(p.book, p.state) {
		if !rows[pattern] {
			t.Errorf("%s has no row", pattern)
		}
	}
}
