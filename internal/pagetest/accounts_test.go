package pagetest

import (
	"errors"
	"fmt"
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

// known is a server with accounts: root, who may all, and ann, who may read and ask digits.
type known struct {
	*site
	book   *auth.Book
	tokens map[string]string // by account
}

// withAccounts serves digits and other to those who have a token.
func withAccounts(t *testing.T) *known {
	t.Helper()
	state, err := store.Open(t.Context(), t.TempDir(), store.Options{}, audit.Room, auth.Room)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(t.Context(), state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	book, err := auth.Open(t.Context(), state, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := auth.NewGuard(book, log, auth.OIDC{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &known{book: book, tokens: map[string]string{}}
	for name, g := range map[string]auth.Grant{"root": {Pattern: auth.All, Rights: auth.Admin},
		"ann": {Pattern: "dig*", Rights: auth.Read | auth.Infer}} {
		err := book.Add(t.Context(), auth.Account{Name: name, Weight: 1, Grants: []auth.Grant{g}})
		if err == nil {
			k.tokens[name], _, err = book.NewToken(t.Context(), name, "test", time.Time{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sources []server.Source
	for _, name := range []string{"digits", "other"} {
		sources = append(sources, server.Source{Name: name, Version: 1,
			Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }})
	}
	if err := s.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	s.Use(guard.HTTP)
	k.site = paged(s, web.New(s, web.Options{Accounts: true, Figures: s.Recorder()}),
		auth.API(book, state))
	t.Cleanup(func() {
		k.close()
		if err := errors.Join(log.Close(), s.Close(), state.Close()); err != nil {
			t.Error(err)
		}
	})
	return k
}

// signIn gives the page a token.
func (b *tab) signIn(t *testing.T, token string) {
	t.Helper()
	b.until(t, "the form", `document.querySelector("#token")`)
	b.do(t, fmt.Sprintf(`document.querySelector("#token").value = %q;
		document.querySelector(".signin").requestSubmit()`, token))
}

// TestServerAccounts: where there are accounts the page asks for a token, shows what the account
// may, and lets the administrator see accounts and audit.
func TestServerAccounts(t *testing.T) {
	ctx := browser(t)
	at := withAccounts(t)
	book, tokens := at.book, at.tokens
	for _, who := range []string{"ann", "root"} {
		b := newTab(t, ctx)
		at.open(t, b, "", 1280, false)
		b.signIn(t, tokens[who])
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

// TestSignIn: while a token is asked for there is the form, and nothing of what was seen before,
// wherever one goes; a text that no header can have is refused as any other; and what an account
// may is on its page when it may it.
func TestSignIn(t *testing.T) {
	ctx := browser(t)
	at := withAccounts(t)
	b := newTab(t, ctx)
	at.open(t, b, "", 1280, false)
	const form = `document.querySelector("#token") && !document.querySelector(".models") &&
		!document.querySelector("nav a") && document.title.startsWith("Sign in") &&
		document.querySelector("#live").textContent === "not signed in"`
	b.until(t, "the form", form)
	b.do(t, `window.went = 0; addEventListener("hashchange", () => went++);
		document.querySelector(".brand").click()`)
	b.until(t, "the form after a way home", "went === 1 && "+form)
	for _, token := range []string{"жетон", "two words"} {
		b.do(t, `document.querySelector("#token").remove()`)
		b.do(t, `location.hash += "/"`)
		b.signIn(t, token)
		b.until(t, "the refusal", `document.querySelector("#token")?.value === "" &&
			document.querySelector(".signin .bad") && `+form)
	}
	b.do(t, `location.hash = ""`)
	b.signIn(t, at.tokens["ann"])
	b.until(t, "one model", rows+" === 1")
	b.do(t, `location.hash = "#/constructor"`)
	b.until(t, "the overview", rows+` === 1 && document.title === "Overview · weir"`)

	grant := auth.Grant{Pattern: "other", Rights: auth.Read}
	if err := at.book.Grant(t.Context(), "ann", grant); err != nil {
		t.Fatal(err)
	}
	stir := func() { at.askAs(t, "digits", at.tokens["root"]) } // idle streams notice within 15 s
	stir()
	b.until(t, "two models", rows+" === 2")
	if err := at.book.Revoke(t.Context(), "ann", grant); err != nil {
		t.Fatal(err)
	}
	stir()
	b.until(t, "one model again", rows+" === 1")
	if err := at.book.RevokeToken(t.Context(), "ann", "test"); err != nil {
		t.Fatal(err)
	}
	stir()
	b.until(t, "the form once the token is none", form)
	b.do(t, `import("/assets/feed.js").then(({ state }) => {
		window.kept = [state.server, ...state.models.values()].filter(v => v).length; })`)
	b.until(t, "nothing that is kept", `window.kept === 0`)
	b.do(t, `location.hash = "#/models/digits"`)
	b.until(t, "the form in place of a model", form+` && !document.querySelector(".charts")`)
	b.signIn(t, at.tokens["root"])
	b.until(t, "the model", `document.querySelector("h1")?.textContent === "digits" &&
		document.querySelector(".share") && document.querySelectorAll("nav a").length === 3`)
}

// TestCopy: a token is copied where pages have no clipboard, too, which plain HTTP gives to none.
func TestCopy(t *testing.T) {
	ctx := browser(t)
	at := withAccounts(t)
	b := newTab(t, ctx)
	at.open(t, b, "#/accounts", 1280, false)
	b.signIn(t, at.tokens["root"])
	b.until(t, "the accounts", `document.querySelectorAll("tbody tr").length === 4`)
	_ = b.said() // that the first request was refused
	b.do(t, `Object.defineProperty(navigator, "clipboard", { value: undefined });
		document.execCommand = what => { window.copied = what + " " + getSelection(); return true; };
		const f = document.querySelectorAll(".people")[1];
		f.querySelector("input").value = "new"; f.requestSubmit()`)
	b.until(t, "the token", `document.querySelector("[readonly]")`)
	// rights that change while it is shown, which it is once, do not take it away
	b.do(t, `const real = fetch; window.fetch = (path, o) => real(path, o).then(r => {
		if (path === "v1/account") setTimeout(() => { window.known = true; }, 100);
		return r; })`)
	grant := auth.Grant{Pattern: "other", Rights: auth.Read}
	if err := at.book.Grant(t.Context(), "root", grant); err != nil {
		t.Fatal(err)
	}
	at.askAs(t, "digits", at.tokens["root"]) // a stream that is idle would notice within 15 s
	b.until(t, "the rights", `window.known`)
	b.do(t, `[...document.querySelectorAll("button")].find(b => b.textContent === "Copy").click()`)
	b.until(t, "the copy", `window.copied === "copy " + document.querySelector("[readonly]").value`)
	b.until(t, "the message", `document.querySelector("#notes").textContent.includes("is copied")`)
	b.quiet(t)
}
