package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/oip"
)

// FuzzAuthorization: no header but the one with the token is an account's.
func FuzzAuthorization(f *testing.F) {
	p := begin(f, f.TempDir())
	g := p.guard(f, OIDC{"http://127.0.0.1:1", "weir"})
	token := p.add(f, "ann")
	for _, s := range []string{"Bearer " + token, "bearer  " + token, "Bearer " + token + "x",
		"Bearer weir_", "Bearer a.b.c", "Basic x", "", " ", "Bearer weir__", "Bearer eyJ.eyJ.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		a, err := g.find(t.Context(), credentials{authorization: []string{header}})
		scheme, rest, _ := strings.Cut(header, " ")
		right := strings.EqualFold(scheme, "bearer") && strings.TrimSpace(rest) == token
		if (a != nil) != right || !right && !errors.Is(err, ErrUnauthenticated) &&
			oip.KindOf(err) != oip.Unavailable { // the issuer is not there
			t.Errorf("%q: %v, %v", header, a, err)
		}
	})
}
