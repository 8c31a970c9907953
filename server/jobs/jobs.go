package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// The bounds of jobs whose options say nothing of them.
const (
	DefaultInput    = 4 << 30
	DefaultBytes    = 16 << 30
	DefaultMost     = 256
	DefaultReserve  = store.Reserve
	DefaultAttempts = 8
	DefaultPart     = time.Second
	DefaultSlice    = time.Minute
)

// mostPart is how many bytes of results become a part at the latest.
const mostPart = 16 << 20

// Options say how jobs are run. Store and Server must be given; zeros stand for the defaults.
type Options struct {
	// Store is the state, with the tables of [Room].
	Store  *store.Store
	Server *server.Server
	// Begin is closed once jobs may begin, such as when the models are loaded; nil: at once.
	Begin <-chan struct{}
	// Audit is told of what accounts do with jobs, in the same transaction; nil for nobody.
	Audit *audit.Log
	// May reports whether the account of an owner (auth.Account.Owner) may have jobs with a model,
	// which is asked when one begins; nil: all may.
	May func(owner, model string) bool
	// Input is the most bytes of a file, and of what is in it, and Bytes of all files and results
	// of an account.
	Input, Bytes int64
	// Most is how many jobs an account has at most, with those that have ended.
	Most int
	// Reserve is how many bytes of the disk are left free.
	Reserve int64
	// Attempts is how many may begin without a row being done.
	Attempts int
	// Part is after how long results are written to the disk.
	Part time.Duration
	// Slice is how long a job runs while another account has one that waits.
	Slice time.Duration
	// Log is told what goes wrong by the server's fault; nil stands for slog.Default.
	Log *slog.Logger
}

// Jobs are the jobs of a state. It needs [Jobs.Close].
type Jobs struct {
	o       Options
	stop    context.Context // done once Close was called
	end     context.CancelFunc
	wake    chan struct{} // has a value when there may be work
	working sync.WaitGroup
	changes atomic.Uint64

	mu     sync.Mutex
	making map[[2]string]bool      // requests under way, by account and key
	id     int64                   // that runs, 0 for none
	cancel context.CancelCauseFunc // of that
}

// Open goes on with the jobs of a state: those that ran when the process ended are queued again.
func Open(ctx context.Context, o Options) (*Jobs, error) {
	o.Input = cmp.Or(o.Input, DefaultInput)
	o.Bytes = cmp.Or(o.Bytes, DefaultBytes)
	o.Most = cmp.Or(o.Most, DefaultMost)
	o.Reserve = cmp.Or(o.Reserve, DefaultReserve)
	o.Attempts = cmp.Or(o.Attempts, DefaultAttempts)
	o.Part = cmp.Or(o.Part, DefaultPart)
	o.Slice = cmp.Or(o.Slice, DefaultSlice)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	j := &Jobs{o: o, wake: make(chan struct{}, 1), making: map[[2]string]bool{}}
	err := o.Store.Write(ctx, func(tx *sql.Tx) error {
		left, err := query(tx, "WHERE state = ?", Running)
		for _, job := range left {
			err = errors.Join(err, set(tx, job.ID, Queued, "the server ended while it ran", 0))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	j.stop, j.end = context.WithCancel(context.Background())
	j.working.Go(j.work)
	return j, nil
}

// Close has the job that runs stop after the rows that are under way, or without them once ctx is
// done, and waits for that. It goes on with the next Open. Requests to make or change jobs are
// refused from then on.
func (j *Jobs) Close(ctx context.Context) {
	j.end()
	late := context.AfterFunc(ctx, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.cancel != nil {
			j.cancel(errStopped)
		}
	})
	defer late()
	j.working.Wait()
}

// write changes jobs, as store.Store.Write does.
func (j *Jobs) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	defer j.changes.Add(1)
	return j.o.Store.Write(ctx, f)
}

// Changes is a number that is another once a job may have changed.
func (j *Jobs) Changes() uint64 { return j.changes.Load() }

// rouse has the worker look for work.
func (j *Jobs) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// set brings a job to a state, from which it is not taken before rests, milliseconds since 1970.
func set(tx *sql.Tx, id int64, to State, reason string, rests int64) error {
	ended := int64(0)
	if to.Ended() {
		ended = time.Now().UnixMilli()
	}
	if _, err := tx.Exec("UPDATE jobs_jobs SET state = ?, reason = ?, rests = ?, ended = ? "+
		"WHERE id = ?", to, reason, rests, ended, id); err != nil {
		return err
	}
	text := string(to)
	if reason != "" {
		text += ": " + reason
	}
	return note(tx, id, "%s", text)
}

// sees reports whether a request may know of a job: its account's, and whoever administers the
// server.
func sees(ctx context.Context, job *Job) bool {
	return auth.MayAll(ctx, auth.Admin) || job.owner == auth.From(ctx).Owner()
}

// Get returns a job that the request's account may see, else [ErrNoJob].
func (j *Jobs) Get(ctx context.Context, id int64) (job *Job, err error) {
	err = j.o.Store.Read(ctx, func(tx *sql.Tx) error {
		job, err = seen(ctx, tx, id)
		return err
	})
	return job, err
}

func seen(ctx context.Context, tx *sql.Tx, id int64) (*Job, error) {
	job, err := get(tx, id)
	if err == nil && !sees(ctx, job) {
		return nil, fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	return job, err
}

// List returns the jobs that the request's account may see, the newest first, up to a number.
func (j *Jobs) List(ctx context.Context, most int) (list []*Job, err error) {
	which, args := "ORDER BY id DESC LIMIT ?", []any{most}
	if !auth.MayAll(ctx, auth.Admin) {
		which, args = "WHERE account = ? "+which, []any{auth.From(ctx).Owner(), most}
	}
	err = j.o.Store.Read(ctx, func(tx *sql.Tx) error {
		list, err = query(tx, which, args...)
		return err
	})
	return list, err
}

// Lines returns the lines of a job's log after a number, the oldest first.
func (j *Jobs) Lines(ctx context.Context, id, after int64) ([]Line, error) {
	list := []Line{}
	err := j.o.Store.Read(ctx, func(tx *sql.Tx) error {
		if _, err := seen(ctx, tx, id); err != nil {
			return err
		}
		rows, err := tx.Query("SELECT n, at, text FROM jobs_log WHERE job = ? AND n > ? "+
			"ORDER BY n", id, after)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var l Line
			var at int64
			if err := rows.Scan(&l.N, &at, &l.Text); err != nil {
				return err
			}
			l.Time = moment(at)
			list = append(list, l)
		}
		return rows.Err()
	})
	return list, err
}

// change does something with a job that the request's account may see, and records it.
func (j *Jobs) change(ctx context.Context, what string, id int64,
	f func(tx *sql.Tx, job *Job) error) error {
	if j.stop.Err() != nil {
		return errStopping
	}
	return j.write(ctx, func(tx *sql.Tx) error {
		job, err := seen(ctx, tx, id)
		if err == nil {
			err = f(tx, job)
		}
		if err == nil {
			err = j.record(ctx, tx, what, job)
		}
		return err
	})
}

// record tells the audit what an account did with a job.
func (j *Jobs) record(ctx context.Context, tx *sql.Tx, what string, job *Job) error {
	if j.o.Audit == nil {
		return nil
	}
	return j.o.Audit.Append(tx, auth.From(ctx).Event(what, job.Model, fmt.Sprint("job ", job.ID),
		audit.OK))
}

// errStopping is what a request is told that comes too late.
var errStopping = &oip.Fault{Kind: oip.Unavailable, RetryAfter: 5 * time.Second,
	Text: "the server is stopping"}

// Cancel ends a job that has not ended; what was computed is removed. Of one that was cancelled
// before nothing changes; one that has ended otherwise is an error.
func (j *Jobs) Cancel(ctx context.Context, id int64) error {
	var left []store.Digest
	err := j.change(ctx, "job cancel", id, func(tx *sql.Tx, job *Job) (err error) {
		switch {
		case job.State == Cancelled:
			return nil
		case job.State.Ended():
			return &refusal{409, fmt.Sprintf("job %d is %s already", id, job.State)}
		}
		if left, err = forget(tx, job); err != nil {
			return err
		}
		return set(tx, id, Cancelled, "", 0)
	})
	j.interrupt(id, err)
	j.o.Store.Release(context.WithoutCancel(ctx), left...)
	return err
}

// interrupt stops a job that runs, if a change of it was made.
func (j *Jobs) interrupt(id int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && j.id == id {
		j.cancel(errGone)
	}
}

// forget removes from the state what a job needs to run, and returns the blobs.
func forget(tx *sql.Tx, job *Job) (list []store.Digest, err error) {
	parts, err := partsOf(tx, job.ID)
	for _, p := range parts {
		list = append(list, p.digest)
	}
	if err == nil {
		_, err = tx.Exec("DELETE FROM jobs_parts WHERE job = ?", job.ID)
	}
	if err == nil {
		_, err = tx.Exec("UPDATE jobs_jobs SET input = '' WHERE id = ?", job.ID)
	}
	if job.input != "" {
		list = append(list, job.input)
	}
	return list, err
}

// Remove removes a job that has ended, with its results.
func (j *Jobs) Remove(ctx context.Context, id int64) error {
	var left []store.Digest
	err := j.change(ctx, "job remove", id, func(tx *sql.Tx, job *Job) (err error) {
		if !job.State.Ended() {
			return &refusal{409, fmt.Sprintf("job %d is %s: cancel it first", id, job.State)}
		}
		if left, err = forget(tx, job); err != nil {
			return err
		}
		if job.Result != "" {
			left = append(left, job.Result)
		}
		_, err = tx.Exec("DELETE FROM jobs_jobs WHERE id = ?", id)
		return err
	})
	if err == nil {
		j.o.Store.Release(context.WithoutCancel(ctx), left...)
	}
	return err
}

// Retry queues a job that has failed again. It goes on after the rows that are done.
func (j *Jobs) Retry(ctx context.Context, id int64) error {
	err := j.change(ctx, "job retry", id, func(tx *sql.Tx, job *Job) error {
		if job.State != Failed {
			return &refusal{409, fmt.Sprintf("job %d is %s: only one that has failed is tried "+
				"again", id, job.State)}
		}
		if _, err := tx.Exec("UPDATE jobs_jobs SET attempts = 0 WHERE id = ?", id); err != nil {
			return err
		}
		return set(tx, id, Queued, "", 0)
	})
	j.rouse()
	return err
}
