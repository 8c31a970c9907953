package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// This file is blobs that rows name. A blob and the first row that names it become part of the
// state together: a process that dies between the two leaves a blob that nobody names, which the
// next start removes.

// Keep makes a part a blob, and runs f in a transaction, which writes the rows that name it. The
// part is a blob once Keep returns nil; beside an error it is as before, and the caller's to
// discard. After an error of the commit itself, which says so, either may be.
func (s *Store) Keep(ctx context.Context, p *Part, f func(tx *sql.Tx) error) error {
	s.naming.Lock()
	defer s.naming.Unlock()
	if s.writer == nil {
		return fmt.Errorf("state in %s: %w", s.dir, ErrReadOnly)
	}
	if err := s.blobs.place(p); err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	if err := s.Write(ctx, f); err != nil {
		s.release(context.WithoutCancel(ctx), p.Digest)
		return err
	}
	return nil
}

// Release removes those of some blobs that no row names any more. What cannot be removed goes with
// the next start.
func (s *Store) Release(ctx context.Context, list ...Digest) {
	s.naming.Lock()
	defer s.naming.Unlock()
	s.release(ctx, list...)
}

// release is Release; s.naming is held.
func (s *Store) release(ctx context.Context, list ...Digest) {
	for _, d := range list {
		named := false
		err := s.Read(ctx, func(tx *sql.Tx) error {
			q := s.named("SELECT EXISTS (SELECT 1 FROM (", ") WHERE digest = ?)")
			if q == "" {
				return nil
			}
			return tx.QueryRow(q, d).Scan(&named)
		})
		if err == nil && !named {
			_ = s.blobs.Remove(d)
		}
	}
}

// named is a query about the digests that rows of all rooms name, as a column digest; "" where no
// room names any.
func (s *Store) named(before, after string) string {
	var all []string
	for _, r := range s.rooms {
		for _, q := range r.Blobs {
			all = append(all, "SELECT * FROM ("+q+")")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return before + "WITH named (digest) AS (" + strings.Join(all, " UNION ALL ") +
		") SELECT digest FROM named" + after
}

// sweep removes the blobs that no row names, if there is a room that names any, and all rooms are
// known: those of a newer weir may name others.
func (s *Store) sweep(ctx context.Context) error {
	q := s.named("", "")
	if q == "" {
		return nil
	}
	names := map[Digest]bool{}
	known := false
	if err := s.Read(ctx, func(tx *sql.Tx) (err error) {
		if known, err = s.knows(ctx, tx); err != nil || !known {
			return err
		}
		rows, err := tx.Query(q)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var d Digest
			if err := rows.Scan(&d); err != nil {
				return err
			}
			names[d] = true
		}
		return rows.Err()
	}); err != nil || !known {
		return err
	}
	return s.blobs.Each(func(d Digest, _ int64) error {
		if names[d] {
			return nil
		}
		return s.blobs.Remove(d)
	})
}

// knows reports whether all rooms that are in the state are known.
func (s *Store) knows(ctx context.Context, tx *sql.Tx) (bool, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM rooms")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return false, err
		}
		if !slices.ContainsFunc(s.rooms, func(r Room) bool { return r.Name == name }) {
			return false, nil
		}
	}
	return true, rows.Err()
}
