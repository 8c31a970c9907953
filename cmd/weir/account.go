package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/auth"
)

func newAccount() *cobra.Command {
	return group("account", "Accounts of a server, and their tokens", newAccountAdd(),
		newAccountList(), newAccountRemove(), newAccountGrant(), newAccountRevoke(),
		group("token", "Tokens of accounts", newTokenNew(), newTokenList(), newTokenRevoke()),
		newAccountInit())
}

const rightsHelp = "read (that a model is there, what it takes, its figures), infer, load (and " +
	"unload), push (its files), job (batch jobs) and admin (all of these; on all models " +
	"accounts, the audit and the server's settings too)"

func newAccountAdd() *cobra.Command {
	var f remoteFlags
	var rights, models string
	a := auth.Account{}
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an account",
		Long: "Add an account. Its rights, which account grant adds to, are of " + rightsHelp +
			". A request is the account's by a token (weir account token new), by a client's " +
			"certificate with one of its names, or by a token of the issuer that the server knows.",
		Example: "  weir account add ann --rights read,infer --models 'team-*'",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			a.Name = args[0]
			if rights != "" {
				r, err := auth.ParseRights(rights)
				if err != nil {
					return err
				}
				a.Grants = []auth.Grant{{Pattern: models, Rights: r}}
			}
			return f.tell(c, "POST", "/v1/accounts", a, "account %s was added", a.Name)
		},
	}
	f.add(c)
	c.Flags().StringVar(&rights, "rights", "", "its `RIGHTS`, with commas between them (default: "+
		"none)")
	c.Flags().StringVar(&models, "models", auth.All, "the `PATTERN` of models that these are about")
	c.Flags().Float64Var(&a.Weight, "weight", 1, "its part of the devices' time against others'")
	c.Flags().IntVar(&a.Queue, "queue", 0, "how many of its requests may wait at once (default: "+
		"as many as the server has room for)")
	c.Flags().StringArrayVar(&a.Certificates, "certificate", nil, "a `NAME` in a client's "+
		"certificate: uri:URI, email:ADDRESS, dns:NAME or a subject such as CN=ann,O=example; may "+
		"be repeated")
	c.Flags().StringArrayVar(&a.Subjects, "subject", nil, "what the issuer of OpenID Connect "+
		"calls it (claim `SUB`); may be repeated")
	return c
}

// tell makes a change, and says that it was made.
func (f *remoteFlags) tell(c *cobra.Command, method, path string, body any, format string,
	args ...any) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	if err := r.do(c.Context(), method, path, body, nil); err != nil {
		return err
	}
	say(c.ErrOrStderr(), format, args...)
	return nil
}

// list asks for a list, and prints it.
func list[T any](c *cobra.Command, f *remoteFlags, path string, asJSON bool,
	print func(io.Writer, T)) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	var l T
	if err := r.do(c.Context(), "GET", path, nil, &l); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), l)
	}
	print(c.OutOrStdout(), l)
	return nil
}

func newAccountList() *cobra.Command {
	var f remoteFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the accounts with their rights",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c, &f, "/v1/accounts", asJSON, printAccounts)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printAccounts(w io.Writer, l auth.Accounts) {
	t := table{{"account", "rights", "weight", "queue", "known by"}}
	for _, a := range l.Accounts {
		var grants []string
		for _, g := range a.Grants {
			grants = append(grants, g.Rights.String()+" on "+g.Pattern)
		}
		queue := "the server's"
		if a.Queue > 0 {
			queue = fmt.Sprint(a.Queue)
		}
		t = append(t, []string{a.Name, strings.Join(grants, "; "), fmt.Sprintf("%.3g", a.Weight),
			queue, strings.Join(append(a.Certificates, a.Subjects...), "; ")})
	}
	t.print(w)
}

func newAccountRemove() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove an account with its tokens",
		Args:  exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.tell(c, "DELETE", "/v1/accounts/"+url.PathEscape(args[0]), nil,
				"account %s was removed", args[0])
		},
	}
	f.add(c)
	return c
}

func newAccountGrant() *cobra.Command {
	var f remoteFlags
	var models string
	c := &cobra.Command{
		Use:   "grant NAME RIGHTS",
		Short: "Add to an account's rights",
		Long: "Add rights, with commas between them, to those that an account has on the models " +
			"of a pattern: " + rightsHelp + ".",
		Example: "  weir account grant ann load,push --models 'team-*'",
		Args:    exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := auth.ParseRights(args[1])
			if err != nil {
				return err
			}
			return f.tell(c, "POST", "/v1/accounts/"+url.PathEscape(args[0])+"/grants",
				auth.Grant{Pattern: models, Rights: r}, "account %s may %s on %s", args[0], r,
				models)
		},
	}
	f.add(c)
	c.Flags().StringVar(&models, "models", auth.All, "the `PATTERN` of models, such as 'team-*'")
	return c
}

func newAccountRevoke() *cobra.Command {
	var f remoteFlags
	var models string
	c := &cobra.Command{
		Use: "revoke NAME RIGHTS",

		DisableFlagsInUseLine: true, // they do not fit a short line
		Short:                 "Take from an account's rights",
		Long: "Take rights, with commas between them, from those that were granted to an account " +
			"for that very pattern of models; what it has by other patterns stays.",
		Args: exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := auth.ParseRights(args[1])
			if err != nil {
				return err
			}
			q := url.Values{"models": {models}, "rights": {r.String()}}
			return f.tell(c, "DELETE", "/v1/accounts/"+url.PathEscape(args[0])+"/grants?"+
				q.Encode(), nil, "account %s lost %s on %s", args[0], r, models)
		},
	}
	f.add(c)
	c.Flags().StringVar(&models, "models", auth.All, "the `PATTERN` of models, as it was granted")
	return c
}

func newTokenNew() *cobra.Command {
	var f remoteFlags
	var expires time.Duration
	var asJSON bool
	n := auth.NewToken{}
	c := &cobra.Command{
		Use:   "new ACCOUNT",
		Short: "Make a token, and print it this once",
		Long: "Make a token, and print it. The server keeps a hash of it only, so it cannot be " +
			"shown again.",
		Example: "  weir account token new ann --name laptop --expires 720h",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			n.Account = args[0]
			return printNewToken(c, &f, n, expires, asJSON)
		},
	}
	f.add(c)
	c.Flags().StringVar(&n.Name, "name", "default", "what the token is called, by which it is "+
		"revoked")
	c.Flags().DurationVar(&expires, "expires", 0, "for how long it is valid (default: until it is "+
		"revoked)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// printNewToken makes a token that is valid for a time, or until it is revoked, and prints it.
func printNewToken(c *cobra.Command, f *remoteFlags, n auth.NewToken, expires time.Duration,
	asJSON bool) error {
	if expires < 0 {
		return errors.New("--expires: give a time such as 720h")
	}
	if expires > 0 {
		n.Expires = time.Now().Add(expires)
	}
	r, err := f.open()
	if err != nil {
		return err
	}
	var made auth.MadeToken
	if err := r.do(c.Context(), "POST", "/v1/tokens", n, &made); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), made)
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), made.Text)
	return err
}

func newTokenList() *cobra.Command {
	var f remoteFlags
	var asJSON bool
	var account string
	c := &cobra.Command{
		Use:   "ls",
		Short: "List tokens: your own, or all for who has admin",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c, &f, "/v1/tokens?account="+url.QueryEscape(account), asJSON, printTokens)
		},
	}
	f.add(c)
	c.Flags().StringVar(&account, "account", "", "those of one `NAME` only")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printTokens(w io.Writer, l auth.Tokens) {
	t := table{{"account", "token", "begins", "made", "expires"}}
	for _, k := range l.Tokens {
		expires := "never"
		if !k.Expires.IsZero() {
			expires = k.Expires.Local().Format(timeFormat)
		}
		t = append(t, []string{k.Account, k.Name, "weir_" + k.ID, k.Made.Local().Format(timeFormat),
			expires})
	}
	t.print(w)
}

const timeFormat = "2006-01-02 15:04"

func newTokenRevoke() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use: "revoke ACCOUNT NAME",

		DisableFlagsInUseLine: true, // they do not fit a short line
		Short:                 "End a token",
		Args:                  exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			return f.tell(c, "DELETE", "/v1/tokens/"+url.PathEscape(args[0])+"/"+
				url.PathEscape(args[1]), nil, "token %s of account %s was revoked", args[1],
				args[0])
		},
	}
	f.add(c)
	return c
}

func newAccountInit() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Make a token for who administers a server that does not run",
		Long: "Make a token of an account with admin on all models, which is made if it is not " +
			"there, in the state of a server that does not run, and print it. So who lost all " +
			"tokens comes in again. The first start of weir up with accounts does the same.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := initAccount(c.Context(), dir, cmp.Or(strings.Join(args, ""), firstAccount))
			if err != nil {
				return failed(err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	}
	addState(c, &dir)
	return c
}

// firstAccount is the account that is made where there is none.
const firstAccount = "admin"

// initAccount makes a token of an account that may administer the server.
func initAccount(ctx context.Context, dir, name string) (text string, err error) {
	s, err := openState(ctx, dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.admin(ctx, name)
}

// admin makes a token of an account, which is made if need be and given all rights.
func (s *state) admin(ctx context.Context, name string) (string, error) {
	ctx = auth.With(ctx, auth.Offline)
	all := auth.Grant{Pattern: auth.All, Rights: auth.Admin}
	a, err := s.book.Account(name)
	switch {
	case errors.Is(err, auth.ErrUnknown):
		err = s.book.Add(ctx, auth.Account{Name: name, Weight: 1, Grants: []auth.Grant{all}})
	case err == nil && !a.MayAll(auth.Admin):
		err = s.book.Grant(ctx, name, all)
	}
	if err != nil {
		return "", err
	}
	now := time.Now().UTC().Format("20060102-150405.000000")
	text, _, err := s.book.NewToken(ctx, name, "init-"+now, time.Time{})
	return text, err
}

// addState adds the flag that names a server's folder.
func addState(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "state", "", "the `FOLDER` of the server's state (default: "+
		"weir/server in $XDG_STATE_HOME, else in ~/.local/state)")
}
