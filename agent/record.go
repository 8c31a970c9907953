package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// An agent that is started again must know the terms of jobs whose programs run on. The pages that
// these bring along cannot tell: every program of a job can write what it likes into its page. So
// the agent writes what it granted into a file of its own in the runtime folder, which a program
// that was given the socket and the page alone does not reach.

// claim is what somebody other than a program vouches for of a job that is to be admitted.
type claim struct {
	terms      wire.Terms
	gang       gangSpec
	fake       bool          // of a device of the fake driver
	asked      time.Duration // most in flight that its controller wants; 0: what the agent allows
	controller identity
	page       pageID // zero if it is not known
	kept       string // the claim that keeps the job; empty for none
	patient    bool   // whether it waits for what jobs that have ended still have
}

// pageID names the memory of a page among all of this machine.
type pageID struct{ Dev, Ino uint64 }

// record is a claim as written, in JSON.
type record struct {
	PageVersion uint32   `json:"page_version"`
	Token       string   `json:"token"`
	Name        string   `json:"name"`
	UID         uint32   `json:"uid"`
	Fake        bool     `json:"fake"`
	Device      uint32   `json:"device"`
	Memory      uint64   `json:"memory_bytes"`
	ComputePPM  uint32   `json:"compute_ppm"`
	LimitPPM    uint32   `json:"limit_ppm"`
	Class       uint32   `json:"class"`
	InFlightNS  int64    `json:"in_flight_ns"`
	Controller  identity `json:"controller"`
	Page        pageID   `json:"page"`
	Gang        gangSpec `json:"gang,omitzero"`
	Movable     bool     `json:"movable,omitzero"`
	Claim       string   `json:"claim,omitzero"`
}

const (
	recordSuffix = ".job"
	recordTemp   = ".new-job-"
	// maxRecord bounds what is read of a record.
	maxRecord = 4096
	// recordEvery is how often the record of a job that goes on is written again, so that its age
	// says how long no agent has had the job, and recordAge that from which it is removed.
	recordEvery = time.Hour
	recordAge   = 24 * time.Hour
)

func recordPath(dir string, t wire.Token) string {
	return filepath.Join(dir, t.String()+recordSuffix)
}

// record returns what is to be kept of the job. Its lock is held, or nobody else has it yet.
func (j *job) record() record {
	t, page := &j.terms, j.former
	if page == (pageID{}) {
		page = idOf(j.page.File())
	}
	return record{
		PageVersion: wire.Version,
		Token:       t.Token.String(),
		Name:        t.Name,
		UID:         t.CreatorUID,
		Fake:        j.dev.Fake,
		Device:      t.Device,
		Memory:      t.MemCap,
		ComputePPM:  t.ComputePPM,
		LimitPPM:    t.LimitPPM,
		Class:       t.Class,
		InFlightNS:  int64(j.asked),
		Controller:  j.master,
		Page:        page,
		Gang:        j.gangSpec(),
		Movable:     t.Movable,
		Claim:       j.claim,
	}
}

// keepRecord writes the job's record. Without one the job runs all the same, but only its
// controller can bring it to another agent. The job's lock is held, or nobody else has it yet.
func (j *job) keepRecord() {
	j.kept = wire.Monotonic()
	if err := writeRecord(j.a.cfg.Dir, j.terms.Token, j.record()); err != nil {
		j.a.log.Warn("no record of the job: after a restart of the agent only its weir exec can "+
			"bring it back", "job", j, "error", err)
	}
}

// writeRecord replaces a job's record at once: who reads it finds the one or the other. It outlives
// the agent and need not outlive the machine, so nothing is synced to a disk.
func writeRecord(dir string, token wire.Token, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(dir, token.String()+recordSuffix, text)
}

// recall returns what an agent before this one has recorded of a job; false if there is nothing
// that can be believed.
func (a *Agent) recall(token wire.Token) (claim, bool) {
	r, err := readRecord(recordPath(a.cfg.Dir, token))
	c := claim{
		terms: wire.Terms{
			Token:         token,
			Name:          r.Name,
			CreatorUID:    r.UID,
			ControllerPID: r.Controller.PID,
			MemCap:        r.Memory,
			MemTotal:      r.Memory,
			ComputePPM:    r.ComputePPM,
			LimitPPM:      r.LimitPPM,
			Class:         r.Class,
			Device:        r.Device,
			InFlight:      a.cfg.InFlight,
			Movable:       r.Movable,
		},
		gang:       r.Gang,
		fake:       r.Fake,
		asked:      time.Duration(r.InFlightNS),
		controller: r.Controller,
		page:       r.Page,
		kept:       r.Claim,
	}
	if err == nil {
		switch {
		case r.PageVersion != wire.Version || r.Token != token.String() || r.UID != ownUID:
			err = errors.New("is of another version, job or user")
		case !c.gang.sane() || c.asked < 0 || c.asked > time.Second || c.page == pageID{}:
			err = errors.New("holds what no agent writes")
		default:
			err = c.terms.Validate()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("record of a job not used", "token", token.String()[:8], "error", err)
	}
	return c, err == nil
}

// readRecord reads a file of this user's that nobody else can write, and takes nothing but a whole
// record.
func readRecord(path string) (record, error) {
	var r record
	f, err := openOwn(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return r, err
	}
	if len(text) > maxRecord {
		return r, fmt.Errorf("more than %d bytes", maxRecord)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("more than one record")
	}
	return r, nil
}

// sweepRecords removes records that no agent has had for long, and what an agent that was killed
// had begun to write.
func sweepRecords(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		fi, err := e.Info()
		old := err == nil && time.Since(fi.ModTime()) >= recordAge
		if strings.HasPrefix(e.Name(), recordTemp) ||
			old && strings.HasSuffix(e.Name(), recordSuffix) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
