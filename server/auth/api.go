package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// mostBody is the most bytes that a change of accounts may have, and patience how long a client may
// take to read an answer.
const (
	mostBody = 64 << 10
	patience = 10 * time.Second
)

// NewToken is what is asked for a token.
type NewToken struct {
	Account string    `json:"account"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires,omitzero"` // zero for never
}

// MadeToken is a token with its text, which is shown this once.
type MadeToken struct {
	Token
	Text string `json:"text"`
}

// The lists of the API.
type (
	// Accounts is the answer to GET /v1/accounts.
	Accounts struct {
		Accounts []*Account `json:"accounts"`
	}
	// Tokens is the answer to GET /v1/tokens.
	Tokens struct {
		Tokens []Token `json:"tokens"`
	}
	// Records is the answer to GET /v1/audit.
	Records struct {
		Records []audit.Record `json:"records"`
	}
)

// MostRecords is how many records of the audit an answer has at most.
const MostRecords = 1000

// API are the endpoints of accounts, tokens and the audit by their patterns. They are to be served
// behind the guard: what they allow beyond it is that an account may see and end its own tokens.
func API(b *Book, in *store.Store) map[string]http.Handler {
	type handler = func(w http.ResponseWriter, r *http.Request) (any, error)
	endpoints := map[string]handler{
		"GET /v1/account": func(_ http.ResponseWriter, r *http.Request) (any, error) {
			return From(r.Context()), nil
		},
		"GET /v1/accounts": func(http.ResponseWriter, *http.Request) (any, error) {
			return Accounts{b.Accounts()}, nil
		},
		"POST /v1/accounts":                    b.postAccount,
		"DELETE /v1/accounts/{account}":        b.deleteAccount,
		"POST /v1/accounts/{account}/grants":   b.postGrant,
		"DELETE /v1/accounts/{account}/grants": b.deleteGrant,
		"GET /v1/tokens":                       b.getTokens,
		"POST /v1/tokens":                      b.postToken,
		"DELETE /v1/tokens/{account}/{token}":  b.deleteToken,
		"GET /v1/audit": func(_ http.ResponseWriter, r *http.Request) (any, error) {
			return records(in, r)
		},
	}
	all := map[string]http.Handler{}
	for pattern, h := range endpoints {
		all[pattern] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, err := h(w, r)
			if err != nil {
				Fail(w, err)
				return
			}
			write(w, http.StatusOK, answer)
		})
	}
	return all
}

// done is the answer to a change.
type done struct{}

func (b *Book) postAccount(w http.ResponseWriter, r *http.Request) (any, error) {
	a := Account{Weight: 1}
	if err := read(w, r, &a); err != nil {
		return nil, err
	}
	return done{}, b.Add(r.Context(), a)
}

func (b *Book) deleteAccount(_ http.ResponseWriter, r *http.Request) (any, error) {
	return done{}, b.Remove(r.Context(), r.PathValue("account"))
}

func (b *Book) postGrant(w http.ResponseWriter, r *http.Request) (any, error) {
	var g Grant
	if err := read(w, r, &g); err != nil {
		return nil, err
	}
	return done{}, b.Grant(r.Context(), r.PathValue("account"), g)
}

// deleteGrant has its grant in the query, since bodies of DELETE are lost on the way.
func (b *Book) deleteGrant(_ http.ResponseWriter, r *http.Request) (any, error) {
	rights, err := ParseRights(r.FormValue("rights"))
	if err != nil {
		return nil, err
	}
	return done{}, b.Revoke(r.Context(), r.PathValue("account"), Grant{r.FormValue("models"),
		rights})
}

// othersTokens is what the audit calls it if an account asks for what another one has.
const othersTokens = "tokens of another account"

func (b *Book) getTokens(_ http.ResponseWriter, r *http.Request) (any, error) {
	a, of := From(r.Context()), r.FormValue("account")
	if of == "" && !MayAll(r.Context(), Admin) {
		of = a.Name
	}
	if of != a.Name {
		if err := Check(r.Context(), othersTokens, Admin, All); err != nil {
			return nil, err
		}
	}
	return Tokens{b.Tokens(of)}, nil
}

func (b *Book) postToken(w http.ResponseWriter, r *http.Request) (any, error) {
	var n NewToken
	if err := read(w, r, &n); err != nil {
		return nil, err
	}
	text, t, err := b.NewToken(r.Context(), n.Account, n.Name, n.Expires)
	return MadeToken{t, text}, err
}

func (b *Book) deleteToken(_ http.ResponseWriter, r *http.Request) (any, error) {
	of := r.PathValue("account")
	if of != From(r.Context()).Name {
		if err := Check(r.Context(), othersTokens, Admin, All); err != nil {
			return nil, err
		}
	}
	return done{}, b.RevokeToken(r.Context(), of, r.PathValue("token"))
}

// records are those after the record that the query names as after, in order, or those before the
// one that it names as before, the newest first; before the end where that is 0.
func records(in *store.Store, r *http.Request) (any, error) {
	after, before, limit := int64(0), int64(0), int64(MostRecords)
	for name, to := range map[string]*int64{"after": &after, "before": &before, "limit": &limit} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%w: %s=%.40q: give a number from 0 on", ErrInvalid, name, text)
		}
		*to = n
	}
	if r.FormValue("before") != "" {
		list, err := audit.Newest(r.Context(), in, before, int(min(limit, MostRecords)))
		return Records{list}, err
	}
	list, err := audit.Read(r.Context(), in, after, int(min(limit, MostRecords)))
	return Records{list}, err
}

// read reads a body in JSON; keys that are not known are refused.
func read(w http.ResponseWriter, r *http.Request, to any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("%w: body: %w", ErrInvalid, err)
	}
	return nil
}

// write writes an answer in JSON.
func write(w http.ResponseWriter, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies are this package's own
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store") // tokens are in answers
	// the time to take the answer begins now, whenever the request came
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
	w.WriteHeader(code)
	_, _ = w.Write(b) // a client that is gone reads no error either
}

// status is the HTTP status of an error.
func status(err error) int {
	var f *oip.Fault
	switch {
	case errors.As(err, &f):
		return f.Kind.Status()
	case errors.Is(err, ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrLastAdmin), errors.Is(err, store.ErrExists):
		return http.StatusConflict
	case errors.Is(err, store.ErrFull):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
