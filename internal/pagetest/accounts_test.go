package pagetest

import (
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/server/web"
)

// TestServerAccounts: where there are accounts the page asks for a token, shows what the account
// may, and lets the administrator see accounts and audit.
func TestServerAccounts(t *testing.T) {
	ctx := browser(t)
	state, err := store.Open(t.Context(), t.TempDir(), store.Options{}, audit.Room, auth.Room)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	log, err := audit.Open(t.Context(), state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	book, err := auth.Open(t.Context(), state, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := auth.NewGuard(book, log, auth.OIDC{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for name, g := range map[string]auth.Grant{"root": {Pattern: auth.All, Rights: auth.Admin},
		"ann": {Pattern: "dig*", Rights: auth.Read | auth.Infer}} {
		err := book.Add(t.Context(), auth.Account{Name: name, Weight: 1, Grants: []auth.Grant{g}})
		if err == nil {
			tokens[name], _, err = book.NewToken(t.Context(), name, "test", time.Time{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sources []server.Source
	for _, name := range []string{"digits", "other"} {
		sources = append(sources, server.Source{Name: name, Version: 1,
			Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }})
	}
	if err := s.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	p := web.New(s, web.Options{Accounts: true, Figures: s.Recorder()})
	s.Use(guard.HTTP)
	at := paged(s, p, auth.API(book, state))
	defer at.close()

	for _, who := range []string{"ann", "root"} {
		b := newTab(t, ctx)
		at.open(t, b, "", 1280, false)
		b.until(t, "the form", `document.querySelector("#token")`)
		b.do(t, `document.querySelector("#token").value = "`+tokens[who]+`";
			document.querySelector(".signin").requestSubmit()`)
		want := map[string]string{"ann": "1", "root": "2"}[who]
		b.until(t, "the models of "+who, rows+" === "+want)
		_ = b.said() // that the first request was refused
		if who == "ann" {
			b.do(t, `location.hash = "#/models/digits"`)
			b.until(t, "no more than ann may", `document.querySelector(".pad") &&
				document.querySelector(".head > button").hidden &&
				!document.querySelector("nav a") && !document.querySelector(".policy select")`)
			b.sound(t, "ann", 40)
			continue
		}
		b.until(t, "the links", `document.querySelectorAll("nav a").length === 3`)
		b.do(t, `location.hash = "#/accounts"`)
		b.until(t, "the accounts", `document.querySelectorAll("tbody tr").length === 4`)
		b.do(t, `const f = document.querySelector(".people input"); f.value = "bob";
			document.querySelector(".people").requestSubmit()`)
		b.until(t, "bob", `document.querySelectorAll("tbody tr").length === 5`)
		if a, err := book.Account("bob"); err != nil || !a.May(auth.Infer, "digits") {
			t.Errorf("bob is %+v, %v", a, err)
		}
		b.sound(t, "accounts", 40)
		b.do(t, `location.hash = "#/audit"`)
		b.until(t, "the audit", `document.body.textContent.includes("account add")`)
		b.sound(t, "audit", 20)
	}
}
