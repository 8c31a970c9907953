package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/jobs"
	"github.com/weirgpu/weir/server/store"
)

// rooms are all parts of a server's state.
var rooms = []store.Room{audit.Room, auth.Room, jobs.Room, server.Room}

// auditKey is the file in the state's folder that signs the audit's checkpoints.
const auditKey = "audit.key"

// state is a server's state that is open for writing.
type state struct {
	store *store.Store
	log   *audit.Log
	book  *auth.Book
}

// stateDir is the folder that is meant.
func stateDir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	return store.DefaultDir()
}

// openState opens a server's state, which is made where there is none, for a command.
func openState(ctx context.Context, dir string) (*state, error) {
	return openStateWith(ctx, dir, audit.Options{})
}

func openStateWith(ctx context.Context, dir string, o audit.Options) (*state, error) {
	dir, err := stateDir(dir)
	if err != nil {
		return nil, err
	}
	s := &state{}
	if s.store, err = store.Open(ctx, dir, store.Options{}, rooms...); err != nil {
		return nil, err
	}
	if o.Checkpoints != "" {
		o.Key, err = audit.Key(filepath.Join(dir, auditKey))
	}
	if err == nil {
		s.log, err = audit.Open(ctx, s.store, o)
	}
	if err == nil {
		s.book, err = auth.Open(ctx, s.store, s.log, nil)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *state) close() error {
	var err error
	if s.log != nil {
		err = s.log.Close()
	}
	return errors.Join(err, s.store.Close())
}

func newBackup() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the state of a server that does not run into a file",
		Long: "Write the state of a server that does not run into a file: accounts, jobs and the " +
			"audit, with all blobs. The key that signs the audit's checkpoints is not in it.",
		Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := stateDir(dir)
			if err != nil {
				return err
			}
			sum, err := store.Backup(c.Context(), from, args[0])
			if err != nil {
				return failed(err)
			}
			say(c.ErrOrStderr(), "%s has the state in %s: %s, %d blobs", args[0], from,
				terminal.Size(sum.Bytes), sum.Blobs)
			return nil
		},
	}
	addState(c, &dir)
	return c
}

func newRestore() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring a server's state back from a backup",
		Long: "Bring the state of a server that does not run back from a file of weir backup. " +
			"What was there is moved into a folder beside it, which is named, and not removed.",
		Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := stateDir(dir)
			if err != nil {
				return err
			}
			sum, replaced, err := store.Restore(args[0], to, time.Now())
			if err != nil {
				return failed(err)
			}
			w := c.ErrOrStderr()
			say(w, "%s has the state of %s: %s, %d blobs", to, args[0], terminal.Size(sum.Bytes),
				sum.Blobs)
			if replaced != "" {
				say(w, "what was there is in %s", replaced)
			}
			return nil
		},
	}
	addState(c, &dir)
	return c
}
