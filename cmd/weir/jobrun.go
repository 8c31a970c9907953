package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/jobs"
)

// jobLook is the time between two looks at a job that is waited for.
const jobLook = 250 * time.Millisecond

// jobRunFlags are those of job run.
type jobRunFlags struct {
	remoteFlags
	model, version string
	input          string
	outputs        []string
	name, key      string
	out            string
	wait, asJSON   bool
}

func newJobRun() *cobra.Command {
	var f jobRunFlags
	c := &cobra.Command{
		Use:   "run batch",
		Short: "Hand in a job that computes every row of a file with a model",
		Long: "Hand in a job that computes every row of a file with a model of a server, in the " +
			"gaps that its requests leave. The file (.npz, of NumPy's savez) has an array for " +
			"each of the model's inputs, with the rows along the first axis.\n\n" +
			"The job goes on when this command has ended and when the server starts again. With " +
			"--out the command waits for it and brings the result; weir job wait does so later. " +
			"A command that was cut off is best given again with the --key that it printed: " +
			"then there is one job.",
		Example: "  weir job run batch --model digits --input data.npz --out results",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] != "batch" {
				return fmt.Errorf("job %.40q: there is batch: see %s --help", args[0],
					c.CommandPath())
			}
			return f.run(c)
		},
	}
	f.remoteFlags.add(c)
	c.Flags().StringVar(&f.model, "model", "", "the `NAME` of the model")
	c.Flags().StringVar(&f.version, "version", "", "its `VERSION` (default: the one that is "+
		"served)")
	c.Flags().StringVar(&f.input, "input", "", "the `FILE` with the rows, .npz")
	c.Flags().StringArrayVar(&f.outputs, "output", nil, "an output of the model to keep, by "+
		"`NAME`; may be repeated (default: all)")
	c.Flags().StringVar(&f.name, "name", "", "what the job is called (default: as the model)")
	c.Flags().StringVar(&f.key, "key", "", "the `TEXT` by which the server knows this job again "+
		"(default: a new one)")
	addOut(c, &f.out)
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until the job has ended, as with --out")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object: the job as it stands at "+
		"the end")
	return c
}

// addOut adds the flag that says where a result goes.
func addOut(c *cobra.Command, out *string) {
	c.Flags().StringVar(out, "out", "", "wait, and write the result to this `FOLDER`, an array "+
		"(.npy) for each output; or, where its name ends in .npz, to one file")
}

func (f *jobRunFlags) run(c *cobra.Command) error {
	if f.model == "" || f.input == "" {
		return errors.New("--model and --input: give both")
	}
	if err := checkOut(f.out); err != nil {
		return err
	}
	file, err := os.Open(f.input)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := f.open()
	if err != nil {
		return err
	}
	if f.key == "" {
		f.key = rand.Text()
	}
	j, err := f.handIn(c, r, file)
	if err != nil {
		return err
	}
	say(c.ErrOrStderr(), "job %d: %d rows for model %s, version %s", j.ID, j.Rows, j.Model,
		j.Version)
	if f.wait || f.out != "" {
		if j, err = r.await(c, j.ID, f.out); err != nil {
			return err
		}
	} else {
		say(c.ErrOrStderr(), "weir job wait %d --out FOLDER brings the result", j.ID)
	}
	if f.asJSON {
		return printJSON(c.OutOrStdout(), j)
	}
	return nil
}

// Attempts to hand a job in that the server did not answer, and the time between them.
const (
	handInAttempts = 5
	handInRest     = time.Second
)

// handIn sends the file, again where no answer came: the key keeps that one job.
func (f *jobRunFlags) handIn(c *cobra.Command, r *remote, file *os.File) (*jobs.Job, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	q := url.Values{"model": {f.model}, "output": f.outputs}
	for name, text := range map[string]string{"version": f.version, "name": f.name} {
		if text != "" {
			q.Set(name, text)
		}
	}
	headers := http.Header{"Idempotency-Key": {f.key}, "Content-Type": {"application/zip"},
		"Expect":         {"100-continue"}, // who refuses it need not be sent it
		"Content-Digest": {"sha-256=:" + base64.StdEncoding.EncodeToString(sum.Sum(nil)) + ":"}}
	for attempt := 1; ; attempt++ {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("--input: %w", err)
		}
		b := newBar(c.ErrOrStderr(), "sending", size)
		var j jobs.Job
		again, err := r.send(c.Context(), "/v1/jobs?"+q.Encode(), headers,
			b.reading(io.NewSectionReader(file, 0, size)), size, &j)
		b.end()
		if err == nil {
			return &j, nil
		}
		if !again || attempt == handInAttempts || c.Context().Err() != nil {
			return nil, fmt.Errorf("%w (--key %s)", err, f.key)
		}
		say(c.ErrOrStderr(), "%s: trying again", message(err))
		if err := pause(c.Context(), handInRest); err != nil {
			return nil, err
		}
	}
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// send posts a body of a known size, however long that takes. again reports an error after which
// the same may be tried again.
func (r *remote) send(ctx context.Context, path string, headers http.Header, body io.Reader,
	size int64, to any) (again bool, err error) {
	q, err := http.NewRequestWithContext(ctx, "POST", r.url+path, body)
	if err != nil {
		return false, err
	}
	q.ContentLength = size
	q.Header = headers
	answer, err := r.exchange(q)
	if err != nil {
		var said *serverError
		again = !errors.As(err, &said) || said.status == http.StatusConflict ||
			said.status == http.StatusServiceUnavailable
		return again, err
	}
	defer answer.Body.Close()
	return true, json.NewDecoder(io.LimitReader(answer.Body, mostAnswer)).Decode(to)
}

// serverError is an answer that is an error.
type serverError struct {
	status int
	err    error
}

// Error implements error.
func (e *serverError) Error() string { return e.err.Error() }

// Unwrap gives the cause to errors.Is.
func (e *serverError) Unwrap() error { return e.err }

// exchange sends a request and returns its answer, however long each takes.
func (r *remote) exchange(q *http.Request) (*http.Response, error) {
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	patient := *r.client
	patient.Timeout = 0
	answer, err := patient.Do(q)
	if err != nil {
		return nil, failed(fmt.Errorf("server %s does not answer: %w", r.url, err))
	}
	if answer.StatusCode < 400 {
		return answer, nil
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, failed(fmt.Errorf("server %s: %w", r.url, err))
	}
	return nil, &serverError{answer.StatusCode, r.problem(answer, b)}
}

func newJobWait() *cobra.Command {
	var out string
	var asJSON bool
	return jobCommand("wait", "Wait until a job has ended, and bring its result",
		func(c *cobra.Command, r *remote, id int64) error {
			if err := checkOut(out); err != nil {
				return err
			}
			j, err := r.await(c, id, out)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), j)
			}
			return nil
		}, func(c *cobra.Command) {
			addOut(c, &out)
			c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
		})
}

// await waits until a job has ended, and brings its result to out unless that is "".
func (r *remote) await(c *cobra.Command, id int64, out string) (*jobs.Job, error) {
	j, err := r.follow(c, id)
	if err != nil {
		if c.Context().Err() != nil {
			say(c.ErrOrStderr(), "job %d goes on: weir job wait %d waits for it again", id, id)
		}
		return nil, err
	}
	if j.State != jobs.Done {
		return nil, failed(fmt.Errorf("job %d is %s after %d of %d rows: %s", id, j.State, j.Done,
			j.Rows, j.Reason))
	}
	if out == "" {
		return j, nil
	}
	return j, failed(r.bring(c, j, out))
}

// follow looks at a job until it has ended, with a bar of its rows. A server that starts again
// meanwhile is waited for.
func (r *remote) follow(c *cobra.Command, id int64) (*jobs.Job, error) {
	var b *bar
	defer func() { b.end() }()
	for away := 0; ; {
		var j jobs.Job
		err := r.do(c.Context(), "GET", jobPath(id, ""), nil, &j)
		switch {
		case err == nil:
			away = 0
			if b == nil {
				b = newBar(c.ErrOrStderr(), "job "+strconv.FormatInt(id, 10), j.Rows)
			}
			b.show(j.Done, string(j.State))
			if j.State.Ended() {
				return &j, nil
			}
		case c.Context().Err() != nil:
			return nil, err
		default:
			var network *url.Error
			if away++; !errors.As(err, &network) || away > patientLooks {
				return nil, err
			}
		}
		if err := pause(c.Context(), jobLook); err != nil {
			return nil, err
		}
	}
}

// patientLooks is how many looks at a server that does not answer are waited for.
const patientLooks = int(2 * time.Minute / jobLook)
