package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/sorting"
)

// Token is what is known of a token once it was shown.
type Token struct {
	ID      string    `json:"id"` // begins its text, so that one which is found tells which it is
	Account string    `json:"account"`
	Name    string    `json:"name"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires,omitzero"` // zero for never
}

type token struct {
	Token
	hash [sha256.Size]byte
}

func (t *token) expired(now time.Time) bool {
	return !t.Expires.IsZero() && !now.Before(t.Expires)
}

// A token's text is prefix, ID, "_", and the secret in unpadded URL base64. The prefix lets
// scanners for secrets find it.
const (
	tokenPrefix = "weir_"
	idBytes     = 9
	secretBytes = 32
)

func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // which never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// newID is random text without the underline that ends it in a token.
func newID() string { return strings.ReplaceAll(randomText(idBytes), "_", "0") }

// NewToken makes a token of an account, which is valid until expires, or for ever if that is zero.
// The text is what a client sends; it is not kept. Its name, by which it is revoked, is one that no
// other token of the account has.
func (b *Book) NewToken(ctx context.Context, account, name string, expires time.Time) (text string,
	t Token, err error) {
	if err = checkName("token", name); err != nil {
		return "", Token{}, err
	}
	made := b.now().UTC().Truncate(time.Second)
	t = Token{newID(), account, name, made, expires.UTC().Truncate(time.Second)}
	seconds := int64(0)
	switch {
	case expires.IsZero():
		t.Expires = time.Time{}
	case !t.Expires.After(made):
		return "", Token{}, fmt.Errorf("%w: token %s expires at %v, which is over", ErrInvalid,
			name, t.Expires)
	case t.Expires.Year() > 9999: // which JSON does not have
		return "", Token{}, fmt.Errorf("%w: token %s expires after the year 9999: leave the time "+
			"out for one that does not", ErrInvalid, name)
	default:
		seconds = t.Expires.Unix()
	}
	secret := randomText(secretBytes)
	hash := sha256.Sum256([]byte(secret))
	err = b.change(ctx, "token add", account+"/"+name, func(tx *sql.Tx) error {
		if err := known(tx, account); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO auth_tokens VALUES (?, ?, ?, ?, ?, ?)", t.ID, account, name,
			hash[:], made.Unix(), seconds)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return tokenPrefix + t.ID + "_" + secret, t, nil
}

// readToken reads a row of auth_tokens.
func readToken(row scan) (*token, error) {
	t := &token{}
	var hash []byte
	var made, expires int64
	err := row(&t.ID, &t.Account, &t.Name, &hash, &made, &expires)
	copy(t.hash[:], hash)
	t.Made = time.Unix(made, 0).UTC()
	if expires != 0 {
		t.Expires = time.Unix(expires, 0).UTC()
	}
	return t, err
}

// RevokeToken ends a token: from now on it is refused.
func (b *Book) RevokeToken(ctx context.Context, account, name string) error {
	return b.change(ctx, "token revoke", account+"/"+name, func(tx *sql.Tx) error {
		return one(tx.Exec("DELETE FROM auth_tokens WHERE account = ? AND name = ?", account, name))
	})
}

// Tokens are those of an account, or of all for "", by account and name; those that have expired
// too.
func (b *Book) Tokens(account string) []Token {
	list := []Token{}
	for _, t := range b.state.Load().tokens {
		if account == "" || t.Account == account {
			list = append(list, t.Token)
		}
	}
	sorting.By(list, func(a, b Token) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Name, b.Name))
	})
	return list
}

// byToken finds the account of a token's text.
func (b *Book) byToken(text string) (*Account, *token, error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	id, secret, _ := strings.Cut(rest, "_")
	s := b.state.Load()
	t := s.tokens[id]
	hash := sha256.Sum256([]byte(secret))
	switch {
	case !ok || t == nil || subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1:
		return nil, nil, refuse(ErrUnauthenticated, "the token is not known: it was mistyped or "+
			"revoked")
	case t.expired(b.now()):
		return nil, nil, refuse(ErrUnauthenticated, "token %s expired at %s: ask for another",
			t.Name, t.Expires.Format(time.RFC3339))
	}
	return s.accounts[t.Account], t, nil
}
