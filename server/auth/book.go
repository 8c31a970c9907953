package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/store"
)

// Book is the accounts of a state.
type Book struct {
	in  *store.Store
	log *audit.Log
	now func() time.Time

	changing sync.Mutex // is held from the write of a change until it can be read
	state    atomic.Pointer[snapshot]
}

// snapshot is all accounts at one time; it is not changed.
type snapshot struct {
	accounts map[string]*Account
	tokens   map[string]*token    // by ID
	names    map[[2]string]string // the account of a kind and a name
}

// Open reads the accounts of a state, which has the tables of [Room]. Changes are recorded in log.
// now is the clock, nil for time.Now.
func Open(ctx context.Context, in *store.Store, log *audit.Log, now func() time.Time) (*Book,
	error) {
	if now == nil {
		now = time.Now
	}
	b := &Book{in: in, log: log, now: now}
	if err := in.Read(ctx, b.load); err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	return b, nil
}

// load reads all accounts.
func (b *Book) load(tx *sql.Tx) error {
	s := &snapshot{map[string]*Account{}, map[string]*token{}, map[[2]string]string{}}
	if err := query(tx, "SELECT name, weight, queue, id FROM auth_accounts JOIN auth_ids ON "+
		"account = name", func(row scan) error {
		a := &Account{Grants: []Grant{}}
		var id int64
		err := row(&a.Name, &a.Weight, &a.Queue, &id)
		a.owner = a.Name + ownerMark + strconv.FormatInt(id, 10)
		s.accounts[a.Name] = a
		return err
	}); err != nil {
		return err
	}
	if err := query(tx, "SELECT account, pattern, rights FROM auth_grants ORDER BY pattern",
		func(row scan) error {
			var name string
			var g Grant
			err := row(&name, &g.Pattern, &g.Rights)
			s.accounts[name].Grants = append(s.accounts[name].Grants, g)
			return err
		}); err != nil {
		return err
	}
	if err := query(tx, "SELECT kind, name, account FROM auth_names ORDER BY name",
		func(row scan) error {
			var kind, name, account string
			err := row(&kind, &name, &account)
			s.names[[2]string{kind, name}] = account
			list := &s.accounts[account].Subjects
			if kind == kindCertificate {
				list = &s.accounts[account].Certificates
			}
			*list = append(*list, name)
			return err
		}); err != nil {
		return err
	}
	if err := query(tx, "SELECT id, account, name, hash, made, expires FROM auth_tokens",
		func(row scan) error {
			t, err := readToken(row)
			s.tokens[t.ID] = t
			return err
		}); err != nil {
		return err
	}
	b.state.Store(s)
	return nil
}

type scan func(to ...any) error

// query calls f with every row.
func query(tx *sql.Tx, q string, f func(row scan) error) error {
	rows, err := tx.Query(q)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// change makes a change that is recorded with it, and then has it hold. Where it leaves no admin
// who was there, it is not made.
func (b *Book) change(ctx context.Context, what, about string, f func(tx *sql.Tx) error) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	by := From(ctx)
	err := b.in.Write(ctx, func(tx *sql.Tx) error {
		before, err := admins(tx)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		after, err := admins(tx)
		if err == nil && before > 0 && after == 0 {
			err = ErrLastAdmin
		}
		if err != nil {
			return err
		}
		return b.log.Append(tx, by.event(what, "", about, audit.OK))
	})
	if err == nil {
		err = b.in.Read(context.WithoutCancel(ctx), b.load)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, about, err)
	}
	return nil
}

// event is what the audit is told of a request by the account.
func (a *Account) event(what, model, about, result string) audit.Event {
	return audit.Event{Who: a.Name, Via: a.via, Peer: a.peer, What: what, Model: model,
		About: about, Result: result}
}

// admins is how many accounts may administer the server.
func admins(tx *sql.Tx) (n int, err error) {
	err = tx.QueryRow("SELECT count(*) FROM auth_grants WHERE pattern = ? AND rights & ? <> 0",
		All, Admin).Scan(&n)
	return n, err
}

// HasAdmin reports whether some account may administer the server.
func (b *Book) HasAdmin() bool {
	for _, a := range b.state.Load().accounts {
		if a.MayAll(Admin) {
			return true
		}
	}
	return false
}

// Accounts are all accounts by name. They are not to be changed.
func (b *Book) Accounts() []*Account {
	return slices.SortedFunc(maps.Values(b.state.Load().accounts), func(a, b *Account) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Account returns an account, or [ErrUnknown].
func (b *Book) Account(name string) (*Account, error) {
	if a := b.state.Load().accounts[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("account %.80q: %w", name, ErrUnknown)
}

// Owning returns the account whose [Account.Owner] is owner, or [ErrUnknown] if that was removed.
func (b *Book) Owning(owner string) (*Account, error) {
	a, err := b.Account(OwnerName(owner))
	if err == nil && a.owner != owner {
		err = fmt.Errorf("account %.80q was made anew since: %w", a.Name, ErrUnknown)
	}
	return a, err
}

// MaxName is the most bytes in the name of an account or a token.
const MaxName = 64

// checkName reports a name that could be mistaken where it is printed, or that no path can have.
func checkName(what, name string) error {
	good := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_.@", r)
	}
	if len(name) > MaxName || strings.Trim(name, ".") == "" ||
		strings.ContainsFunc(name, func(r rune) bool { return !good(r) }) {
		return fmt.Errorf("%w: %s %.80q: a name has 1 to %d letters, digits and -_.@, not all of "+
			"them dots", ErrInvalid, what, name, MaxName)
	}
	return nil
}

// The weights that an account may have: those of server/admit.
const (
	LeastWeight = 0.01
	MostWeight  = 100
)

// check reports an account that cannot be.
func (a *Account) check() error {
	if err := checkName("account", a.Name); err != nil {
		return err
	}
	if !(a.Weight >= LeastWeight && a.Weight <= MostWeight) || a.Queue < 0 {
		return fmt.Errorf("%w: account %s has weight %v and queue %d: weights are from %v to %v, "+
			"queues 0 or more", ErrInvalid, a.Name, a.Weight, a.Queue, LeastWeight, MostWeight)
	}
	for _, g := range a.Grants {
		if err := g.check(); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(a.Certificates, a.Subjects) {
		if name == "" || len(name) > 255 {
			return fmt.Errorf("%w: account %s: name %.300q in a certificate or of an issuer: give "+
				"1 to 255 bytes", ErrInvalid, a.Name, name)
		}
	}
	return nil
}

// Add adds an account with its grants and names. One that is there is [store.ErrExists].
func (b *Book) Add(ctx context.Context, a Account) error {
	if err := a.check(); err != nil {
		return err
	}
	return b.change(ctx, "account add", a.Name, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO auth_accounts VALUES (?, ?, ?)", a.Name, a.Weight, a.Queue)
		if err == nil {
			_, err = tx.Exec("INSERT INTO auth_ids (account) VALUES (?)", a.Name)
		}
		for _, g := range a.Grants {
			err = errors.Join(err, grant(tx, a.Name, g))
		}
		for kind, list := range map[string][]string{kindCertificate: a.Certificates,
			kindSubject: a.Subjects} {
			for _, name := range list {
				err = errors.Join(err, addName(tx, kind, name, a.Name))
			}
		}
		return err
	})
}

// addName has others know an account by a name, which is no other account's.
func addName(tx *sql.Tx, kind, name, account string) error {
	var of string
	err := tx.QueryRow("SELECT account FROM auth_names WHERE kind = ? AND name = ?", kind, name).
		Scan(&of)
	if err == nil {
		return fmt.Errorf("%s %s is account %s: %w", kind, name, of, store.ErrExists)
	}
	if errors.Is(err, sql.ErrNoRows) {
		_, err = tx.Exec("INSERT INTO auth_names VALUES (?, ?, ?)", kind, name, account)
	}
	return err
}

// grant adds rights to those that an account has on a pattern.
func grant(tx *sql.Tx, name string, g Grant) error {
	_, err := tx.Exec("INSERT INTO auth_grants VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "+
		"rights = rights | excluded.rights", name, g.Pattern, g.Rights)
	return err
}

// Remove removes an account with its tokens.
func (b *Book) Remove(ctx context.Context, name string) error {
	return b.change(ctx, "account rm", name, func(tx *sql.Tx) error {
		return one(tx.Exec("DELETE FROM auth_accounts WHERE name = ?", name))
	})
}

// one makes a change of no row an error.
func one(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrUnknown
	}
	return err
}

// Grant adds rights to those that an account has on a pattern.
func (b *Book) Grant(ctx context.Context, name string, g Grant) error {
	if err := g.check(); err != nil {
		return err
	}
	return b.change(ctx, "account grant", name+": "+g.Rights.String()+" on "+g.Pattern,
		func(tx *sql.Tx) error {
			if err := known(tx, name); err != nil {
				return err
			}
			return grant(tx, name, g)
		})
}

// known reports an account that is not there.
func known(tx *sql.Tx, name string) error {
	var n int
	err := tx.QueryRow("SELECT count(*) FROM auth_accounts WHERE name = ?", name).Scan(&n)
	if err == nil && n == 0 {
		err = ErrUnknown
	}
	return err
}

// Revoke takes rights from those that an account has on that very pattern; what it has on other
// patterns stays.
func (b *Book) Revoke(ctx context.Context, name string, g Grant) error {
	return b.change(ctx, "account revoke", name+": "+g.Rights.String()+" on "+g.Pattern,
		func(tx *sql.Tx) error {
			if err := one(tx.Exec("UPDATE auth_grants SET rights = rights & ~? WHERE account = ? "+
				"AND pattern = ? AND rights & ? <> 0", g.Rights, name, g.Pattern,
				g.Rights)); err != nil {
				return err
			}
			_, err := tx.Exec("DELETE FROM auth_grants WHERE rights = 0")
			return err
		})
}
