package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/share"
)

// This file is the worker: it takes one job after the other, and says what becomes of each.

// How long a job rests.
const (
	waits     = 2 * time.Second // before what it waits for is looked at again
	firstRest = time.Second     // after a failure, and twice as long after each further one
	mostRest  = time.Minute
	idle      = time.Minute // without a job at all
)

// What ends an attempt without a failure.
var (
	errStopped = errors.New("the server stopped")
	errGone    = errors.New("the job was cancelled")
	errTurn    = errors.New("it is another account's turn")
	errWaits   = errors.New("it waits")
	errServed  = errors.New("the model is no longer served in that version")
)

// work runs jobs until the end.
func (j *Jobs) work() {
	if j.o.Begin != nil {
		select {
		case <-j.stop.Done():
		case <-j.o.Begin:
		}
	}
	for j.stop.Err() == nil {
		job, rest, err := j.claim()
		if err != nil {
			j.o.Log.Error("jobs cannot be read", "error", err)
			rest = firstRest
		}
		if job != nil {
			j.carry(job)
			continue
		}
		t := time.NewTimer(rest)
		select {
		case <-j.stop.Done():
		case <-j.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// claim takes the next job: of the account that has waited for its turn longest, the oldest.
// Without one it returns how long there will be none.
func (j *Jobs) claim() (job *Job, rest time.Duration, err error) {
	rest = idle
	err = j.write(context.Background(), func(tx *sql.Tx) error {
		now := time.Now().UnixMilli()
		var id int64
		err := tx.QueryRow("SELECT id FROM jobs_jobs LEFT JOIN jobs_turns USING (account) WHERE "+
			"state = ? AND rests <= ? ORDER BY ifnull(turn, 0), id LIMIT 1", Queued, now).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			var next sql.NullInt64
			err = tx.QueryRow("SELECT min(rests) FROM jobs_jobs WHERE state = ?", Queued).
				Scan(&next)
			if next.Valid {
				rest = min(rest, time.Duration(next.Int64-now)*time.Millisecond)
			}
			return err
		}
		if err != nil {
			return err
		}
		if _, err = tx.Exec("UPDATE jobs_jobs SET attempts = attempts + 1, began = CASE began "+
			"WHEN 0 THEN ? ELSE began END WHERE id = ?", now, id); err != nil {
			return err
		}
		if job, err = get(tx, id); err != nil {
			return err
		}
		if err = took(tx, job.owner); err != nil {
			return err
		}
		if job.Attempts > j.o.Attempts {
			job.State, rest = Failed, 0
			return set(tx, id, Failed, fmt.Sprintf("%d attempts ended without a row: %s",
				j.o.Attempts, job.Reason), 0)
		}
		_, err = tx.Exec("UPDATE jobs_jobs SET state = ? WHERE id = ?", Running, id)
		return err
	})
	if err != nil || job != nil && job.State == Failed {
		return nil, rest, err
	}
	return job, rest, nil
}

// took notes that it was an account's turn, which outlasts its jobs: one that hands in the next
// once the last is gone is not before those who wait. A turn is forgotten once all who wait have
// had theirs after it.
func took(tx *sql.Tx, account string) error {
	if _, err := tx.Exec("INSERT INTO jobs_turns SELECT ?, 1 + ifnull(max(turn), 0) FROM "+
		"jobs_turns WHERE true ON CONFLICT DO UPDATE SET turn = excluded.turn",
		account); err != nil {
		return err
	}
	_, err := tx.Exec("WITH live AS (SELECT account, ifnull(turn, 0) AS turn FROM jobs_jobs LEFT "+
		"JOIN jobs_turns USING (account) WHERE state IN (?, ?)) DELETE FROM jobs_turns WHERE turn "+
		"< (SELECT min(turn) FROM live) AND account NOT IN (SELECT account FROM live)", Queued,
		Running)
	return err
}

// carry runs an attempt, and brings the job to where that leads.
func (j *Jobs) carry(job *Job) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	j.mu.Lock()
	j.id, j.cancel = job.ID, cancel
	j.mu.Unlock()
	err := j.attempt(ctx, job)
	j.mu.Lock()
	j.id, j.cancel = 0, nil
	j.mu.Unlock()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err == nil || errors.Is(err, errGone) {
		return
	}
	for {
		late := j.settle(job, err)
		if late == nil {
			return
		}
		j.o.Log.Error("what became of a job cannot be written", "job", job.ID, "error", late)
		select {
		case <-j.stop.Done(): // the next start finds it running, and goes on
			return
		case <-time.After(firstRest):
		}
	}
}

// settle writes what an attempt led to that did not end the job.
func (j *Jobs) settle(job *Job, why error) error {
	return j.write(context.Background(), func(tx *sql.Tx) error {
		now, err := get(tx, job.ID)
		if errors.Is(err, ErrNoJob) || err == nil && now.State != Running {
			return nil // it was cancelled
		}
		if err != nil {
			return err
		}
		reason, rest, to := line(why), time.Duration(0), Queued
		switch {
		case errors.Is(why, errStopped), errors.Is(why, errTurn):
			now.Attempts--
		case errors.Is(why, errWaits):
			now.Attempts--
			rest = waits
		case lasting(why), now.Attempts >= j.o.Attempts:
			to = Failed
			j.o.Log.Warn("a job has failed", "job", job.ID, "model", job.Model, "error", why)
		default:
			rest = min(firstRest<<(now.Attempts-1), mostRest)
		}
		if _, err := tx.Exec("UPDATE jobs_jobs SET attempts = ? WHERE id = ?",
			max(now.Attempts, 0), job.ID); err != nil {
			return err
		}
		return set(tx, job.ID, to, reason, time.Now().Add(rest).UnixMilli())
	})
}

// lasting reports an error that another attempt would have too.
func lasting(err error) bool {
	for _, kind := range []error{ErrInput, errForm, errServed, weir.ErrInput, weir.ErrOutput,
		weir.ErrModel, weir.ErrUnsupported, share.ErrNever, store.ErrDamaged, store.ErrNoBlob} {
		if errors.Is(err, kind) {
			return true
		}
	}
	kind := oip.KindOf(err)
	return kind == oip.Unsupported || kind == oip.Denied || kind == oip.Exhausted
}

// line is an error on one line.
func line(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
