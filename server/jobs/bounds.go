package jobs

import (
	"context"
	"database/sql"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// room holds that there are the model and room for a job's file, before that is sent.
func (j *Jobs) room(ctx context.Context, account string, a *Asked) error {
	if a.Size > j.o.Input {
		return oip.Faultf(oip.TooLarge, "the file has %d bytes: at most %d are taken", a.Size,
			j.o.Input)
	}
	if err := j.free(max(a.Size, 0)); err != nil {
		return err
	}
	return j.o.Store.Read(ctx, func(tx *sql.Tx) error {
		var n int
		err := tx.QueryRow("SELECT count(*) FROM jobs_jobs WHERE account = ? AND key = ?", account,
			a.Key).Scan(&n)
		if err != nil || n > 0 {
			return err // it is there, and takes no room
		}
		if _, err := j.o.Server.Metadata(a.Model, a.Version); err != nil {
			return err
		}
		return j.bounded(tx, account, max(a.Size, 0))
	})
}

// bounded holds that an account may have one more job, with a file of so many bytes.
func (j *Jobs) bounded(tx *sql.Tx, account string, more int64) error {
	jobs, bytes, err := held(tx, account)
	switch {
	case err != nil:
		return err
	case jobs >= j.o.Most:
		return oip.Faultf(oip.Exhausted, "there are %d jobs of the account, which is as many "+
			"as it may have: remove some that have ended", jobs)
	case bytes+more > j.o.Bytes:
		return oip.Faultf(oip.Exhausted, "jobs of the account have %s, and %s more are asked for: "+
			"it may have %s: remove some that have ended", terminal.Size(bytes),
			terminal.Size(more), terminal.Size(j.o.Bytes))
	}
	return nil
}

// held is how many jobs an account has, and how many bytes they take.
func held(tx *sql.Tx, account string) (jobs int, bytes int64, err error) {
	err = tx.QueryRow("SELECT count(*), coalesce(sum(CASE input WHEN '' THEN 0 ELSE input_bytes "+
		"END + result_bytes), 0) FROM jobs_jobs WHERE account = ?", account).Scan(&jobs, &bytes)
	return jobs, bytes, err
}

// free holds that the disk has room for so many bytes more.
func (j *Jobs) free(more int64) error {
	return store.Fits(j.o.Store.Dir(), more, j.o.Reserve)
}
