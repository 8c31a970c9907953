package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/store"
)

func newAudit() *cobra.Command {
	return group("audit", "Who did what to a server", newAuditShow(), newAuditVerify())
}

// auditFlags say whose audit is meant.
type auditFlags struct {
	remoteFlags
	dir string
}

func (f *auditFlags) add(c *cobra.Command) {
	f.remoteFlags.add(c)
	c.Flags().StringVar(&f.dir, "state", "", "the `FOLDER` of a server's state to read, in place "+
		"of asking a server")
}

// records are those after one, in order: from the server or from the folder.
func (f *auditFlags) records(ctx context.Context, after int64) iter.Seq2[audit.Record, error] {
	return func(yield func(audit.Record, error) bool) {
		read, end, err := f.reader(ctx)
		if err != nil {
			yield(audit.Record{}, err)
			return
		}
		defer end()
		for {
			some, err := read(after)
			if err != nil {
				yield(audit.Record{}, err)
				return
			}
			for _, r := range some {
				if !yield(r, nil) {
					return
				}
				after = r.Seq
			}
			if len(some) == 0 {
				return
			}
		}
	}
}

// reader returns a function that reads the records after one.
func (f *auditFlags) reader(ctx context.Context) (read func(after int64) ([]audit.Record, error),
	end func(), err error) {
	if f.dir != "" {
		s, err := store.Open(ctx, f.dir, store.Options{ReadOnly: true}, audit.Room)
		if err != nil {
			return nil, nil, failed(err)
		}
		return func(after int64) ([]audit.Record, error) {
			list, err := audit.Read(ctx, s, after, auth.MostRecords)
			return list, failed(err)
		}, func() { _ = s.Close() }, nil
	}
	r, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	return func(after int64) ([]audit.Record, error) {
		var l auth.Records
		err := r.do(ctx, "GET", fmt.Sprint("/v1/audit?after=", after), nil, &l)
		return l.Records, err
	}, func() {}, nil
}

func newAuditShow() *cobra.Command {
	var f auditFlags
	var asJSON bool
	var after int64
	var limit int
	c := &cobra.Command{
		Use:   "show",
		Short: "Show what was done, by whom, and what was refused",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			l := auth.Records{Records: []audit.Record{}}
			for r, err := range f.records(c.Context(), after) {
				if err != nil {
					return err
				}
				if l.Records = append(l.Records, r); len(l.Records) == limit {
					break
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), l)
			}
			printRecords(c.OutOrStdout(), l.Records)
			return nil
		},
	}
	f.add(c)
	c.Flags().Int64Var(&after, "after", 0, "begin with the record after this `NUMBER`")
	c.Flags().IntVar(&limit, "limit", 0, "show so many at most (default: all)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printRecords(w io.Writer, list []audit.Record) {
	t := table{{"record", "when", "who", "what", "on", "result", "times"}}
	for _, r := range list {
		who := strings.TrimSpace(strings.Join([]string{r.Who, bracketed(r.Via), r.Peer}, " "))
		on := strings.TrimSpace(r.Model + " " + r.About)
		t = append(t, []string{fmt.Sprint(r.Seq), r.Time.Local().Format(timeFormat + ":05"), who,
			r.What, on, r.Result, fmt.Sprint(r.Count)})
	}
	t.print(w)
}

// bracketed puts brackets around a text that there is.
func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// auditReport is what weir audit verify --json prints.
type auditReport struct {
	audit.Report
	Torn int  `json:"torn"` // lines of the file of checkpoints that are none
	Held bool `json:"held"`
	// Error is what does not hold.
	Error string `json:"error,omitempty"`
}

func newAuditVerify() *cobra.Command {
	var f auditFlags
	var checkpoints, key string
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Find whether the audit was tampered with",
		Long: "Read the audit, from a server or from its state, and hold it against its hashes " +
			"and its signed checkpoints: a record that was changed, dropped, moved or put in, " +
			"and an end that was cut off, are found up to the last checkpoint. What comes after " +
			"that is not protected, and the report says where it begins. Nothing that the server " +
			"says of its audit is trusted but the records.",
		Example: "  weir audit verify --checkpoints /mnt/elsewhere/audit --key audit.key.pub",
		Args:    exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := f.verify(c.Context(), checkpoints, key)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), r)
			} else {
				r.print(c.OutOrStdout(), checkpoints)
			}
			if err == nil && !r.Held {
				err = failed(errors.New(r.Error))
			}
			return err
		},
	}
	f.add(c)
	c.Flags().StringVar(&checkpoints, "checkpoints", "", "the `FILE` of checkpoints, as weir up "+
		"--audit-checkpoints has it (default: none is compared)")
	c.Flags().StringVar(&key, "key", "", "the `FILE` of the public key that must have signed them "+
		"(default: "+auditKey+".pub in --state, else any)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (f *auditFlags) verify(ctx context.Context, checkpoints, key string) (*auditReport, error) {
	var marks []audit.Checkpoint
	var r auditReport
	var err error
	if checkpoints != "" {
		if marks, r.Torn, err = audit.ReadCheckpoints(checkpoints); err != nil {
			return nil, err
		}
	}
	public, err := f.key(key)
	if err != nil {
		return nil, err
	}
	r.Report, err = audit.Verify(f.records(ctx, 0), marks, public)
	if err != nil && !errors.Is(err, audit.ErrBroken) {
		return nil, err
	}
	if r.Held = err == nil; !r.Held {
		r.Error = err.Error()
	}
	return &r, nil
}

// key is the public key that is meant, nil for any.
func (f *auditFlags) key(path string) (ed25519.PublicKey, error) {
	if path != "" {
		return audit.PublicKey(path)
	}
	if f.dir == "" {
		return nil, nil
	}
	own := filepath.Join(f.dir, auditKey+".pub")
	if _, err := os.Stat(own); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return audit.PublicKey(own)
}

func (r *auditReport) print(w io.Writer, checkpoints string) {
	if !r.Held {
		return
	}
	say(w, "%d records follow one another.", r.Records)
	switch {
	case checkpoints == "":
		say(w, "No checkpoints were compared: give --checkpoints, else one who made all hashes "+
			"anew, or cut off the end, is not found.")
	case r.Protected == r.Records:
		say(w, "%d checkpoints vouch for all of them.", r.Checkpoints)
	default:
		say(w, "%d checkpoints vouch for the first %d; those after may have been cut off or made "+
			"anew.", r.Checkpoints, r.Protected)
	}
	if r.Torn > 0 {
		say(w, "%d lines of %s are no checkpoints.", r.Torn, checkpoints)
	}
}
