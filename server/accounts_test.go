package server

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/admit"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// accounts puts accounts before a server, and returns a token of one with a grant.
func accounts(t *testing.T, s *Server, g auth.Grant) string {
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
		Grants: []auth.Grant{g}}); err != nil {
		t.Fatal(err)
	}
	for pattern, h := range auth.API(book, state) {
		s.Handle(pattern, h)
	}
	s.Use(guard.HTTP)
	token, _, err := book.NewToken(t.Context(), "ann", "t", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + token
}

// TestEndpointsHaveRows: every endpoint has a row in the table of rights, under its very method.
// Without one it would be for administrators only.
func TestEndpointsHaveRows(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	accounts(t, s, auth.Grant{Pattern: auth.All, Rights: auth.Read})
	var rows []string
	for _, e := range auth.Endpoints {
		rows = append(rows, e.HTTP...)
	}
	for _, pattern := range s.Patterns() {
		if !slices.ContainsFunc(rows, func(row string) bool {
			return row == pattern || strings.HasSuffix(row, "/") && strings.HasPrefix(pattern, row)
		}) {
			t.Errorf("%s has no row in auth.Endpoints", pattern)
		}
	}
	if len(s.Patterns()) < 20 {
		t.Errorf("%d endpoints", len(s.Patterns()))
	}
}

// TestIndexOfAccount: an account sees the models that it may read, and no others; and infers with
// those only for which it has the right.
func TestIndexOfAccount(t *testing.T) {
	other := digitsSource()
	other.Name = "other"
	s := begin(t, Options{}, digitsSource(), other)
	token := accounts(t, s, auth.Grant{Pattern: "dig*", Rights: auth.Read | auth.Infer})
	var list []oip.IndexEntry
	if err := json.Unmarshal(all(t, ask(s, "POST", "/v2/repository/index", nil, "Authorization",
		token)), &list); err != nil || len(list) != 1 || list[0].Name != "digits" {
		t.Errorf("got %v, %v", list, err)
	}
	pixels, _ := picture(t, 1)
	for path, want := range map[string]int{inferPath: http.StatusOK,
		strings.Replace(inferPath, "digits", "other", 1): http.StatusForbidden} {
		if got := ask(s, "POST", path, inJSON(pixels, ""), "Authorization",
			token); got.StatusCode != want {
			t.Errorf("%s: status %d", path, got.StatusCode)
		}
	}
}

// TestWeightsAreAdmitted: an account has no weight for which its requests would be refused.
func TestWeightsAreAdmitted(t *testing.T) {
	c, err := admit.New(admit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for weight, good := range map[float64]bool{auth.LeastWeight: true, auth.MostWeight: true,
		math.Nextafter(auth.LeastWeight, 0):              false,
		math.Nextafter(auth.MostWeight, math.MaxFloat64): false} {
		if err := c.Account("ann", admit.Account{Weight: weight}); (err == nil) != good {
			t.Errorf("weight %v: %v", weight, err)
		}
	}
}
