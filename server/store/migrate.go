package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Room is a package's part of the state: tables whose names begin with the room's. A package
// exports its Room from one file that holds all of its migrations.
type Room struct {
	// Name is in lower case, and never changes.
	Name string
	// Migrations are SQL scripts in order: the first makes the tables, each further one brings
	// them and what is in them from the version before it to its own, which is its place counted
	// from 1. One that was released never changes.
	Migrations []string
	// Blobs are queries for the digests that the room's rows name, each of one column. A blob that
	// no room names is removed when the folder is opened.
	Blobs []string
}

// rooms is the table with the version of each room.
const roomsTable = "CREATE TABLE IF NOT EXISTS rooms (name TEXT PRIMARY KEY, version INTEGER " +
	"NOT NULL) STRICT"

// migrate brings all rooms to their newest versions, in one transaction: a file is never between
// two versions of weir.
func (s *Store) migrate(ctx context.Context, rooms []Room) error {
	return s.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, roomsTable); err != nil {
			return err
		}
		for _, r := range rooms {
			version, err := r.versionIn(ctx, tx)
			if err != nil {
				return err
			}
			for i := version; i < len(r.Migrations); i++ {
				if _, err := tx.ExecContext(ctx, r.Migrations[i]); err != nil {
					return fmt.Errorf("tables of %s, version %d: %w", r.Name, i+1, err)
				}
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO rooms VALUES (?, ?) ON CONFLICT "+
				"DO UPDATE SET version = excluded.version", r.Name,
				len(r.Migrations)); err != nil {
				return err
			}
		}
		return nil
	})
}

// upToDate reports whether the tables of all rooms are those of this weir.
func (s *Store) upToDate(ctx context.Context, rooms []Room) error {
	return s.Read(ctx, func(tx *sql.Tx) error {
		for _, r := range rooms {
			version, err := r.versionIn(ctx, tx)
			if err != nil {
				return err
			}
			if version < len(r.Migrations) {
				return fmt.Errorf("tables of %s have version %d, not %d: %w", r.Name, version,
					len(r.Migrations), ErrOlder)
			}
		}
		return nil
	})
}

// versionIn is the version of the room's tables, 0 where there are none.
func (r Room) versionIn(ctx context.Context, tx *sql.Tx) (int, error) {
	var version int
	err := tx.QueryRowContext(ctx, "SELECT version FROM rooms WHERE name = ?", r.Name).
		Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err == nil && version > len(r.Migrations) {
		err = fmt.Errorf("tables of %s have version %d, this weir knows %d: %w", r.Name, version,
			len(r.Migrations), ErrNewer)
	}
	return version, err
}
