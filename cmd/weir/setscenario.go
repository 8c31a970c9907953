package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

// This file is how weir set reaches the jobs of weir share: a socket of each run, in the folder in
// which the agent has its own, which is its user's alone.

// scenarioSockets are those of runs in a folder.
const scenarioSockets = "share-*.sock"

// setReply is what a run answers a change with.
type setReply struct {
	Share share.Share
	// Error says why the share stays as it is; Unknown, that no job has the name, and Invalid, that
	// the share is none.
	Error            string `json:",omitempty"`
	Unknown, Invalid bool   `json:",omitempty"`
}

// controlled has weir set change the shares of the jobs of a scenario that is about to run, until
// the function that it returns is called. Where there can be no socket it does without.
func controlled(ctx context.Context, o *scenario.Options) (stop func()) {
	dir := agent.RuntimeDir(false)
	if agent.MakeRuntimeDir(dir) != nil {
		return func() {}
	}
	path := filepath.Join(dir, "share-"+strconv.Itoa(os.Getpid())+".sock")
	begun := path + ".new" // who finds a socket at which nobody listens yet takes it away
	_ = os.Remove(begun)   // of a process of this number that was killed
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: begun, Net: "unix"})
	if err != nil {
		return func() {}
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(begun, path); err != nil {
		l.Close()
		return func() {}
	}
	o.Control = &scenario.Control{}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			go answerSet(ctx, conn, o.Control)
		}
	}()
	return func() {
		cancel()
		_ = os.Remove(path)
		l.Close()
	}
}

// setWait bounds how long either side waits for the other.
const setWait = 30 * time.Second

// answerSet carries out one change that somebody asks for.
func answerSet(ctx context.Context, conn net.Conn, c *scenario.Control) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(setWait))
	var to agent.ShareChange
	if json.NewDecoder(conn).Decode(&to) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, setWait)
	defer cancel()
	got, err := c.Set(ctx, to.Job, func(s *share.Share) { to.Apply(s) })
	r := setReply{Share: got}
	if err != nil {
		r.Error, r.Unknown, r.Invalid = err.Error(), errors.Is(err, scenario.ErrNoJob),
			errors.Is(err, share.ErrInvalid)
	}
	_ = json.NewEncoder(conn).Encode(r) // who asked may have gone
}

// setScenario changes the share of a job of a run of weir share that has it. Found is false where
// none does. Where the folder is somebody else's, who could answer in the place of a run, the error
// says so.
func setScenario(to agent.ShareChange) (now share.Job, found bool, err error) {
	paths, err := scenarioPaths()
	if err != nil {
		return now, false, failed(err)
	}
	for _, path := range paths {
		r, err := askSet(path, to)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			_ = os.Remove(path) // nobody listens: it was killed
		case err != nil: // it is there, and busy: another may have the job
		case r.Unknown:
		case r.Invalid:
			return now, true, errors.New(r.Error)
		case r.Error != "":
			return now, true, failed(errors.New(r.Error))
		default:
			return share.Job{Name: to.Job, Share: r.Share}, true, nil
		}
	}
	return now, false, nil
}

// scenarioPaths returns the sockets of runs, in a folder that is the caller's or not there.
func scenarioPaths() ([]string, error) {
	dir := agent.RuntimeDir(false)
	if err := agent.CheckRuntimeDir(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	paths, _ := filepath.Glob(filepath.Join(dir, scenarioSockets)) // none of a bad pattern
	return paths, nil
}

// errRunEnds: a run was there, and did not answer.
var errRunEnds = errors.New("weir share did not answer")

// askSet asks one run. An error means that it cannot be reached: where nobody listens, an
// [syscall.ECONNREFUSED].
func askSet(path string, to agent.ShareChange) (r setReply, err error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(setWait))
	if err = json.NewEncoder(conn).Encode(to); err == nil {
		err = json.NewDecoder(conn).Decode(&r)
	}
	if err != nil {
		r.Error = fmt.Sprintf("job %s: %v: %v", to.Job, errRunEnds, err)
	}
	return r, nil
}
