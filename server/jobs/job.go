package jobs

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/store"
)

// State is where a job stands.
type State string

// The states; see the package for the ways between them.
const (
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Ended reports whether nothing more happens to the job by itself.
func (s State) Ended() bool { return s == Done || s == Failed || s == Cancelled }

// Job is a job as it stands.
type Job struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Kind    string `json:"kind"` // batch
	State   State  `json:"state"`
	Account string `json:"account,omitempty"`
	Model   string `json:"model"`
	Version string `json:"version"`
	// Outputs are the names of those that are kept.
	Outputs []string `json:"outputs"`
	// Reason is why it waits or has failed, "" where there is none.
	Reason string `json:"reason,omitempty"`
	Rows   int64  `json:"rows"`
	Done   int64  `json:"done_rows"`
	// Attempts is how many have begun since a row was done.
	Attempts int       `json:"attempts"`
	Made     time.Time `json:"made"`
	Began    time.Time `json:"began,omitzero"` // first
	Ended    time.Time `json:"ended,omitzero"`
	Input    int64     `json:"input_bytes"`
	// Result has the digest of a job that is done, and Bytes the size of what was kept so far.
	Result store.Digest `json:"result,omitempty"`
	Bytes  int64        `json:"result_bytes"`

	owner string // auth.Account.Owner
	input store.Digest
	form  form
}

// Owner is the auth.Account.Owner of the job's account.
func (j *Job) Owner() string { return j.owner }

// kind is that of all jobs.
const kind = "batch"

// ErrNoJob is an ID of which there is no job, or none that the account may see.
var ErrNoJob = errors.New("there is no such job")

const columns = "id, account, name, model, version, outputs, state, reason, input, input_bytes, " +
	"rows, done, form, attempts, result, result_bytes, made, began, ended"

// scan reads the columns of a job.
func (j *Job) scan(row interface{ Scan(to ...any) error }) error {
	var outputs, formed string
	var made, began, ended int64
	err := row.Scan(&j.ID, &j.owner, &j.Name, &j.Model, &j.Version, &outputs, &j.State,
		&j.Reason, &j.input, &j.Input, &j.Rows, &j.Done, &formed, &j.Attempts, &j.Result, &j.Bytes,
		&made, &began, &ended)
	if err != nil {
		return err
	}
	j.Kind, j.Account = kind, auth.OwnerName(j.owner)
	j.Made, j.Began, j.Ended = moment(made), moment(began), moment(ended)
	if err := json.Unmarshal([]byte(outputs), &j.Outputs); err != nil || formed == "" {
		return err
	}
	return json.Unmarshal([]byte(formed), &j.form)
}

// moment is a time of the state.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// get reads a job.
func get(tx *sql.Tx, id int64) (*Job, error) {
	var j Job
	err := j.scan(tx.QueryRow("SELECT "+columns+" FROM jobs_jobs WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	return &j, err
}

// query reads jobs.
func query(tx *sql.Tx, which string, args ...any) ([]*Job, error) {
	rows, err := tx.Query("SELECT "+columns+" FROM jobs_jobs "+which, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []*Job{}
	for rows.Next() {
		var j Job
		if err := j.scan(rows); err != nil {
			return nil, err
		}
		list = append(list, &j)
	}
	return list, rows.Err()
}

// Line is a line of a job's log.
type Line struct {
	N    int64     `json:"n"` // from 1 on
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// mostLines is how many lines of a job are kept, the newest.
const mostLines = 500

// note adds a line to a job's log, unless it says what the last one does.
func note(tx *sql.Tx, id int64, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	var n int64
	var last string
	err := tx.QueryRow("SELECT n, text FROM jobs_log WHERE job = ? ORDER BY n DESC LIMIT 1", id).
		Scan(&n, &last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if last == text {
		return nil
	}
	if _, err := tx.Exec("INSERT INTO jobs_log VALUES (?, ?, ?, ?)", id, n+1,
		time.Now().UnixMilli(), text); err != nil {
		return err
	}
	_, err = tx.Exec("DELETE FROM jobs_log WHERE job = ? AND n <= ?", id, n+1-mostLines)
	return err
}
