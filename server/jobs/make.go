package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// Asked is what a job is to be.
type Asked struct {
	// Key is the request's: of an account there is one job for each.
	Key string
	// Name is what people call it; "" stands for the model's.
	Name string
	// Model and Version say what computes; an empty version stands for the one that is served.
	Model, Version string
	// Outputs are those to keep; none stand for all.
	Outputs []string
	// Size is how many bytes of the file are announced, -1 for an unknown number, and Digest what
	// it must have, "" for anything.
	Size   int64
	Digest store.Digest
}

// mostText bounds the bytes of keys and names.
const mostText = 255

// refusal is an error that HTTP alone has, with its status.
type refusal struct {
	status int
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// Make makes a job of a file (.npz, NumPy's savez), whose arrays are those of the model's inputs,
// and queues it. made is not set where there was a job of that key, asked for in the same way,
// which is returned. The account is the context's.
func (j *Jobs) Make(ctx context.Context, a Asked, file io.Reader) (job *Job, made bool, err error) {
	account := auth.From(ctx).Owner()
	if err := j.valid(ctx, &a); err != nil {
		return nil, false, err
	}
	mine := [2]string{account, a.Key}
	j.mu.Lock()
	under := j.making[mine]
	j.making[mine] = true
	j.mu.Unlock()
	if under {
		return nil, false, &refusal{409, "a request with this Idempotency-Key is under way: ask " +
			"again for its outcome"}
	}
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.making, mine)
	}()
	if err := j.room(ctx, account, &a); err != nil {
		return nil, false, err
	}
	p, err := j.stage(&a, file)
	if err != nil {
		return nil, false, err
	}
	defer p.Discard()
	asked := a.digest(p.Digest)
	if job, err = j.known(ctx, account, a.Key, asked); job != nil || err != nil {
		return job, false, err
	}
	job, err = j.take(ctx, &a, p)
	if err != nil {
		return nil, false, err
	}
	job.owner, job.Account = account, auth.From(ctx).Name
	err = j.o.Store.Keep(ctx, p, func(tx *sql.Tx) error {
		if err := j.bounded(tx, account, job.Input); err != nil {
			return err
		}
		return j.insert(ctx, tx, job, a.Key, asked)
	})
	if err != nil {
		return nil, false, err
	}
	j.changes.Add(1)
	j.rouse()
	return job, true, nil
}

// valid holds what is asked for against what can be, without the file.
func (j *Jobs) valid(ctx context.Context, a *Asked) error {
	if j.stop.Err() != nil {
		return errStopping
	}
	if a.Key == "" {
		return oip.Faultf(oip.Invalid, "no Idempotency-Key: send one of your own making, and the "+
			"same with each attempt, so that there is one job")
	}
	if a.Model == "" {
		return oip.Faultf(oip.Invalid, "no model: give it as ?model=NAME")
	}
	for _, text := range []string{a.Key, a.Name} {
		control := func(r rune) bool { return r < ' ' }
		if len(text) > mostText || strings.ContainsFunc(text, control) {
			return oip.Faultf(oip.Invalid, "key or name %.40q: give up to %d bytes without "+
				"control characters", text, mostText)
		}
	}
	return auth.Check(ctx, "job run", auth.Job, a.Model)
}

// digest is that of what is asked with a file.
func (a *Asked) digest(file store.Digest) store.Digest {
	b, err := json.Marshal([]any{a.Name, a.Model, a.Version, a.Outputs, file})
	if err != nil {
		panic(err) // they are texts
	}
	return store.DigestOf(b)
}

// known returns the job of a key, nil where there is none. One that was asked for otherwise is an
// error.
func (j *Jobs) known(ctx context.Context, account, key string, asked store.Digest) (job *Job,
	err error) {
	err = j.o.Store.Read(ctx, func(tx *sql.Tx) error {
		var id int64
		var was store.Digest
		err := tx.QueryRow("SELECT id, asked FROM jobs_jobs WHERE account = ? AND key = ?",
			account, key).Scan(&id, &was)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err == nil && was != asked:
			return &refusal{422, fmt.Sprintf("the Idempotency-Key is that of job %d, which was "+
				"asked for otherwise: send another key for another job", id)}
		case err == nil:
			job, err = get(tx, id)
		}
		return err
	})
	return job, err
}

// stage takes the file to the disk.
func (j *Jobs) stage(a *Asked, file io.Reader) (*store.Part, error) {
	p, err := j.o.Store.Blobs().Stage(io.LimitReader(&leaving{j: j, from: file}, j.o.Input+1))
	if err != nil {
		return nil, err
	}
	switch {
	case p.Size > j.o.Input:
		err = oip.Faultf(oip.TooLarge, "the file has more than %d bytes", j.o.Input)
	case a.Size >= 0 && p.Size != a.Size:
		err = oip.Faultf(oip.Invalid, "%d bytes of the file came, and %d were announced", p.Size,
			a.Size)
	case a.Digest != "" && p.Digest != a.Digest:
		err = oip.Faultf(oip.Invalid, "the file was changed on its way: it has the digest %s, and "+
			"was to have %s: send it again", p.Digest, a.Digest)
	}
	if err != nil {
		p.Discard()
		return nil, err
	}
	return p, nil
}

// lookEvery is after how many bytes of a file the disk is looked at.
const lookEvery = 1 << 20

// leaving reads a file as long as the disk has more free than is to be left: of how long it is
// clients may say nothing, and several may send some.
type leaving struct {
	j    *Jobs
	from io.Reader
	look int64 // after so many bytes more
}

// Read implements io.Reader.
func (l *leaving) Read(p []byte) (int, error) {
	if l.look <= 0 {
		if err := l.j.free(lookEvery); err != nil {
			return 0, err
		}
		l.look = lookEvery
	}
	n, err := l.from.Read(p)
	l.look -= int64(n)
	return n, err
}

// take holds a file against the model that it is for, and returns the job that they make.
func (j *Jobs) take(ctx context.Context, a *Asked, p *store.Part) (*Job, error) {
	m, err := j.o.Server.Metadata(a.Model, a.Version)
	if err != nil {
		return nil, err
	}
	job := &Job{Kind: kind, State: Queued, Name: a.Name, Model: a.Model, Version: m.Versions[0],
		Input: p.Size, input: p.Digest, Made: time.Now().UTC().Truncate(time.Millisecond)}
	if a.Version != "" {
		job.Version = a.Version
	}
	if job.Name == "" {
		job.Name = a.Model
	}
	if job.Outputs, err = kept(m, a.Outputs); err != nil {
		return nil, err
	}
	f, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := openInput(f, p.Size, m.Inputs)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if n := in.bytes(); n > j.o.Input {
		return nil, oip.Faultf(oip.TooLarge, "the file's arrays have %d bytes: at most %d are "+
			"taken", n, j.o.Input)
	}
	most, _ := j.o.Server.Limits()
	if n := in.rowBytes(); n == 0 || n > most {
		return nil, oip.Faultf(oip.TooLarge, "a row of the file has %d bytes: give 1 to %d, as a "+
			"request's body may have", n, most)
	}
	job.Rows = in.rows
	if err := in.check(ctx); err != nil {
		return nil, err
	}
	return job, ctx.Err()
}

// kept are the outputs that a job keeps.
func kept(m oip.Metadata, asked []string) ([]string, error) {
	var list []string
	for _, o := range m.Outputs {
		if len(asked) > 0 && !slices.Contains(asked, o.Name) {
			continue
		}
		if o.Datatype == "BYTES" {
			return nil, oip.Faultf(oip.Unsupported, "output %s of model %s is text, which has no "+
				"fixed size: name the others as ?output=NAME", o.Name, m.Name)
		}
		list = append(list, o.Name)
	}
	for _, name := range asked {
		if !slices.Contains(list, name) {
			return nil, oip.Faultf(oip.Invalid, "model %s has no output %.200q that can be kept",
				m.Name, name)
		}
	}
	if len(list) == 0 {
		return nil, oip.Faultf(oip.Unsupported, "model %s has no outputs that are tensors", m.Name)
	}
	return list, nil
}

// insert queues a job, whose ID it fills in.
func (j *Jobs) insert(ctx context.Context, tx *sql.Tx, job *Job, key string,
	asked store.Digest) error {
	outputs, err := json.Marshal(job.Outputs)
	if err != nil {
		return err
	}
	res, err := tx.Exec("INSERT INTO jobs_jobs (account, key, asked, name, model, version, "+
		"outputs, state, input, input_bytes, rows, made) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "+
		"?, ?)", job.owner, key, asked, job.Name, job.Model, job.Version, string(outputs),
		job.State, job.input, job.Input, job.Rows, job.Made.UnixMilli())
	if err != nil {
		return err
	}
	if job.ID, err = res.LastInsertId(); err != nil {
		return err
	}
	if err := note(tx, job.ID, "queued: %d rows for model %s, version %s", job.Rows, job.Model,
		job.Version); err != nil {
		return err
	}
	return j.record(ctx, tx, "job run", job)
}
