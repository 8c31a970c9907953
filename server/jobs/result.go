package jobs

import (
	"archive/zip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor/npy"
)

// part is the results of some rows: a blob with a line that says whose it is, and then, for each
// output, those of all of its rows.
type part struct {
	first, rows int64
	digest      store.Digest
}

// partsOf are the parts of a job in order.
func partsOf(tx *sql.Tx, job int64) (list []part, err error) {
	rows, err := tx.Query("SELECT first, rows, digest FROM jobs_parts WHERE job = ? "+
		"ORDER BY first", job)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p part
		if err := rows.Scan(&p.first, &p.rows, &p.digest); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// finish makes one file of all parts, and the job done.
func (a *attempt) finish(ctx context.Context) error {
	var parts []part
	err := a.j.o.Store.Read(ctx, func(tx *sql.Tx) (err error) {
		parts, err = partsOf(tx, a.job.ID)
		return err
	})
	if err == nil {
		err = whole(a.job, parts)
	}
	if err != nil {
		return err
	}
	var size int64
	for i := range a.job.form {
		size += a.job.Rows * a.job.form[i].bytes()
	}
	if err := a.j.free(size); err != nil {
		return err
	}
	from, to := io.Pipe()
	go func() { to.CloseWithError(a.write(to, parts)) }()
	p, err := a.j.o.Store.Blobs().Stage(from)
	_ = from.CloseWithError(err) // of a disk that is full, so that the writer ends
	if err != nil {
		return err
	}
	defer p.Discard()
	var left []store.Digest
	if err := a.j.o.Store.Keep(ctx, p, func(tx *sql.Tx) (err error) {
		left, err = a.done(tx, p)
		return err
	}); err != nil {
		return err
	}
	a.j.changes.Add(1)
	a.j.o.Store.Release(context.WithoutCancel(ctx), left...)
	return nil
}

// whole holds that each row is in one part.
func whole(job *Job, parts []part) error {
	next := int64(0)
	for _, p := range parts {
		if p.first != next {
			return fmt.Errorf("%w: job %d has a part from row %d on after row %d",
				store.ErrDamaged, job.ID, p.first, next)
		}
		next += p.rows
	}
	if next != job.Rows {
		return fmt.Errorf("%w: job %d has parts up to row %d of %d", store.ErrDamaged, job.ID, next,
			job.Rows)
	}
	return nil
}

// done makes a job done whose result is p, and returns the blobs that it needs no more.
func (a *attempt) done(tx *sql.Tx, p *store.Part) ([]store.Digest, error) {
	job, err := get(tx, a.job.ID)
	if err != nil {
		return nil, err
	}
	if job.State != Running {
		return nil, errGone
	}
	left, err := forget(tx, job)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec("UPDATE jobs_jobs SET result = ?, result_bytes = ? WHERE id = ?", p.Digest,
		p.Size, job.ID); err != nil {
		return nil, err
	}
	return left, set(tx, job.ID, Done, "", 0)
}

// write writes the result: a .npz file, not compressed, with an array for each output.
func (a *attempt) write(w io.Writer, parts []part) error {
	blobs := a.j.o.Store.Blobs()
	for _, p := range parts {
		if err := blobs.Verify(p.digest); err != nil {
			return err
		}
	}
	z := zip.NewWriter(w)
	before := int64(0) // bytes of a row of outputs that come before in a part
	for i := range a.job.form {
		o := &a.job.form[i]
		to, err := z.CreateHeader(&zip.FileHeader{Name: o.Name + suffix, Method: zip.Store})
		if err == nil {
			err = npy.WriteHeader(to, o.Type, append([]int{int(a.job.Rows) * o.Each}, o.Shape...))
		}
		for _, p := range parts {
			if err == nil {
				err = a.copy(to, p, before, o.bytes())
			}
		}
		if err != nil {
			return err
		}
		before += o.bytes()
	}
	// no other job's result is the same, so that one can be removed without the other
	if err := z.SetComment(fmt.Sprintf("weir job %d", a.job.ID)); err != nil {
		return err
	}
	return z.Close()
}

// copy writes one output of a part's rows.
func (a *attempt) copy(to io.Writer, p part, before, each int64) (err error) {
	f, err := a.j.o.Store.Blobs().Open(p.digest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	at := int64(len(a.j.head(&Job{ID: a.job.ID, Done: p.first})))
	if _, err := f.Seek(at+before*p.rows, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(to, f, each*p.rows)
	return err
}

// Result opens the result of a job that is done, a .npz file, for reading.
func (j *Jobs) Result(ctx context.Context, id int64) (*Job, *os.File, error) {
	job, err := j.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if job.State != Done {
		return nil, nil, &refusal{409, fmt.Sprintf("job %d is %s, with %d of %d rows done: it has "+
			"no result yet", id, job.State, job.Done, job.Rows)}
	}
	f, err := j.o.Store.Blobs().Open(job.Result)
	return job, f, err
}
