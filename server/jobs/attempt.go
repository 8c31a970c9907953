package jobs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// attempt is a job that runs. One goroutine has it.
type attempt struct {
	j     *Jobs
	job   *Job
	model *server.Beside
	names []string // the model's outputs
	file  *os.File
	in    *input
	began time.Time
	// single: rows are computed one by one, since there was no memory for several.
	single bool

	// What was computed and is not part of the state yet.
	rows  int64
	kept  []bytes.Buffer // by output
	since time.Time
}

// tenant is what people and errors call the job that runs, of which there is one at a time.
const tenant = "(batch jobs)"

// attempt runs a job from where it was. Without an error it is done.
func (j *Jobs) attempt(ctx context.Context, job *Job) (err error) {
	if j.o.May != nil && !j.o.May(job.owner, job.Model) {
		return oip.Faultf(oip.Denied, "account %s has no right to job on model %s any more",
			job.Account, job.Model)
	}
	a := &attempt{j: j, job: job, began: time.Now()}
	defer func() { err = errors.Join(err, a.close()) }()
	if job.Done < job.Rows {
		if err := a.open(ctx); err != nil {
			return err
		}
	}
	for job.Done+a.rows < job.Rows {
		if err := a.step(ctx); err != nil {
			return errors.Join(err, a.keep(context.WithoutCancel(ctx)))
		}
	}
	if err := a.keep(ctx); err != nil {
		return err
	}
	return a.finish(ctx)
}

// open readies the model and the input.
func (a *attempt) open(ctx context.Context) (err error) {
	if err := a.served(); err != nil {
		return err
	}
	s, job := a.j.o.Server, a.job
	a.model, err = s.Beside(ctx, job.Model, job.Version, tenant)
	if err != nil {
		if lacks(err) {
			err = fmt.Errorf("%w for memory: %w", errWaits, err)
		}
		return err
	}
	a.names = a.model.Outputs()
	m, err := s.Metadata(job.Model, job.Version)
	if err != nil {
		return err
	}
	if a.file, err = a.j.o.Store.Blobs().Open(job.input); err != nil {
		return err
	}
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	if a.in, err = openInput(a.file, info.Size(), m.Inputs); err != nil {
		return err
	}
	if a.in.rows != job.Rows {
		return fmt.Errorf("%w: for the model as it is now it has %d rows, and had %d", ErrInput,
			a.in.rows, job.Rows)
	}
	if err := a.in.skip(job.Done); err != nil {
		return err
	}
	a.since = time.Now()
	return a.j.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec("UPDATE jobs_jobs SET reason = '' WHERE id = ? AND state = ?", job.ID,
			Running); err != nil {
			return err
		}
		return note(tx, job.ID, "running after %d of %d rows, attempt %d", job.Done, job.Rows,
			job.Attempts)
	})
}

// served reports a model that is not served as the job wants it: it waits for one that is away, and
// cannot go on with another version.
func (a *attempt) served() error {
	_, err := a.j.o.Server.Metadata(a.job.Model, a.job.Version)
	if err == nil {
		return nil
	}
	if _, other := a.j.o.Server.Metadata(a.job.Model, ""); other == nil {
		return fmt.Errorf("%w: %w", errServed, err)
	}
	return fmt.Errorf("%w for its model: %w", errWaits, err)
}

// step computes the next rows, and keeps what was computed when it is time.
func (a *attempt) step(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.j.stop.Err() != nil:
		return errStopped
	case !a.model.Served():
		return a.served()
	}
	n := 1
	if a.in.open && !a.single {
		most, _ := a.j.o.Server.Limits() // of a request's rows, too
		n = int(min(int64(a.model.Rows()), a.job.Rows-a.job.Done-a.rows,
			max(1, most/a.in.rowBytes())))
	}
	in, err := a.in.next(n)
	if err != nil {
		return err
	}
	if err := a.compute(ctx, in, n); err != nil {
		return err
	}
	var size int
	for i := range a.kept {
		size += a.kept[i].Len()
	}
	if size < mostPart && time.Since(a.since) < a.j.o.Part {
		return nil
	}
	if err := a.keep(ctx); err != nil {
		return err
	}
	return a.turn(ctx)
}

// compute computes n rows. Those for which there is no memory together are computed one by one,
// as all further ones are.
func (a *attempt) compute(ctx context.Context, in weir.Inputs, n int) error {
	out, err := a.model.Run(ctx, in)
	if errors.Is(err, weir.ErrMemory) && n > 1 {
		a.single = true
		for i := range n {
			if err := a.compute(ctx, rowOf(in, i, n), 1); err != nil {
				return err
			}
		}
		return nil
	}
	if lacks(err) || errors.Is(err, server.ErrRecalled) {
		return fmt.Errorf("%w for memory: %w", errWaits, err)
	}
	if err != nil {
		return err
	}
	defer out.Close()
	return a.add(out.Outputs(), n)
}

// lacks reports an error of memory that is there once others leave.
func lacks(err error) bool {
	return errors.Is(err, weir.ErrMemory) && !errors.Is(err, share.ErrNever)
}

// rowOf is one of n rows of inputs that have an axis for them.
func rowOf(in weir.Inputs, i, n int) weir.Inputs {
	row := weir.Inputs{}
	for name, t := range in {
		x := &tensor.Tensor{DType: t.DType, Shape: append([]int{1}, t.Shape[1:]...)}
		if t.DType == tensor.String {
			x.Strings = t.Strings[i*len(t.Strings)/n : (i+1)*len(t.Strings)/n]
		} else {
			x.Data = t.Data[i*len(t.Data)/n : (i+1)*len(t.Data)/n]
		}
		row[name] = x
	}
	return row
}

// add takes the outputs of n rows.
func (a *attempt) add(outs []*tensor.Tensor, n int) error {
	var list []*tensor.Tensor
	for _, name := range a.job.Outputs {
		for i := range a.names {
			if a.names[i] == name {
				list = append(list, outs[i])
			}
		}
	}
	f, err := formOf(a.job.Outputs, list, n, a.in.stacked)
	if err != nil {
		return err
	}
	if a.job.form == nil {
		a.job.form = f
	}
	if err := a.job.form.same(f); err != nil {
		return err
	}
	if a.kept == nil {
		a.kept = make([]bytes.Buffer, len(list))
	}
	for i, t := range list {
		wide, err := npy.Widened(t)
		if err != nil {
			return err
		}
		a.kept[i].Write(wide.Data)
	}
	a.rows += int64(n)
	return nil
}

// keep makes what was computed part of the state.
func (a *attempt) keep(ctx context.Context) error {
	if a.rows == 0 {
		return nil
	}
	var size int64
	for i := range a.kept {
		size += int64(a.kept[i].Len())
	}
	if err := a.j.free(size); err != nil {
		return err
	}
	// no other job's part is the same, so that one can be removed without the other
	readers := []io.Reader{bytes.NewReader(a.j.head(a.job))}
	for i := range a.kept {
		readers = append(readers, bytes.NewReader(a.kept[i].Bytes()))
	}
	p, err := a.j.o.Store.Blobs().Stage(io.MultiReader(readers...))
	if err != nil {
		return err
	}
	defer p.Discard()
	if err := a.j.o.Store.Keep(ctx, p, func(tx *sql.Tx) error {
		return a.progress(tx, p)
	}); err != nil {
		return err
	}
	a.job.Done += a.rows
	a.rows, a.since = 0, time.Now()
	a.j.changes.Add(1)
	for i := range a.kept {
		a.kept[i].Reset()
	}
	return nil
}

// head begins the part of a job that comes after the rows that are done.
func (j *Jobs) head(job *Job) []byte {
	return fmt.Appendf(nil, "weir job %d row %d\n", job.ID, job.Done)
}

// progress names a part that follows the rows that are done, if the job still runs.
func (a *attempt) progress(tx *sql.Tx, p *store.Part) error {
	_, bytes, err := held(tx, a.job.owner)
	if err != nil {
		return err
	}
	if bytes+p.Size > a.j.o.Bytes {
		return oip.Faultf(oip.Exhausted, "jobs of the account have %d bytes, and %d more are "+
			"needed: it may have %d: remove some that have ended", bytes, p.Size, a.j.o.Bytes)
	}
	f, err := json.Marshal(a.job.form)
	if err != nil {
		return err
	}
	res, err := tx.Exec("UPDATE jobs_jobs SET done = done + ?, form = ?, attempts = 1, "+
		"result_bytes = result_bytes + ? WHERE id = ? AND state = ? AND done = ?", a.rows,
		string(f), p.Size, a.job.ID, Running, a.job.Done)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errGone)
	}
	_, err = tx.Exec("INSERT INTO jobs_parts VALUES (?, ?, ?, ?)", a.job.ID, a.job.Done, a.rows,
		p.Digest)
	return err
}

// turn ends the attempt once it had its time and a job of another account waits.
func (a *attempt) turn(ctx context.Context) error {
	if time.Since(a.began) < a.j.o.Slice {
		return nil
	}
	var others int
	err := a.j.o.Store.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM jobs_jobs WHERE state = ? AND rests <= ? AND "+
			"account <> ?", Queued, time.Now().UnixMilli(), a.job.owner).Scan(&others)
	})
	if err == nil && others > 0 {
		err = errTurn
	}
	return err
}

func (a *attempt) close() (err error) {
	if a.in != nil {
		a.in.close()
	}
	if a.file != nil {
		err = a.file.Close()
	}
	if a.model != nil {
		err = errors.Join(err, a.model.Close())
	}
	return err
}
