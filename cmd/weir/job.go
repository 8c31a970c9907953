package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/server/jobs"
)

func newJob() *cobra.Command {
	return group("job", "Jobs of a server that nobody waits for", newJobRun(), newJobList(),
		newJobShow(), newJobLogs(), newJobWait(), newJobCancel(), newJobRetry(), newJobRemove())
}

func newJobList() *cobra.Command {
	var f remoteFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List your jobs, or all for who has admin, the newest first",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c, &f, "/v1/jobs", asJSON, printJobs)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printJobs(w io.Writer, l jobs.List) {
	t := table{{"job", "name", "account", "model", "state", "rows", "made", "why"}}
	for _, j := range l.Jobs {
		t = append(t, []string{fmt.Sprint(j.ID), j.Name, j.Account, j.Model, string(j.State),
			fmt.Sprintf("%d of %d", j.Done, j.Rows), j.Made.Local().Format(timeFormat), j.Reason})
	}
	t.print(w)
}

// jobCommand is a command about one job.
func jobCommand(use, short string, run func(c *cobra.Command, r *remote, id int64) error,
	flags ...func(c *cobra.Command)) *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:   use + " JOB",
		Short: short,
		Args:  exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				return fmt.Errorf("job %.40q: give its number, as weir job ls has it", args[0])
			}
			r, err := f.open()
			if err != nil {
				return err
			}
			return run(c, r, id)
		},
	}
	f.add(c)
	for _, add := range flags {
		add(c)
	}
	return c
}

// jobPath is that of a job's endpoint.
func jobPath(id int64, below string) string { return fmt.Sprint("/v1/jobs/", id) + below }

func newJobShow() *cobra.Command {
	var asJSON bool
	return jobCommand("show", "Say how a job stands", func(c *cobra.Command, r *remote,
		id int64) error {
		var j jobs.Job
		if err := r.do(c.Context(), "GET", jobPath(id, ""), nil, &j); err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), &j)
		}
		printJob(c.OutOrStdout(), &j)
		return nil
	}, func(c *cobra.Command) {
		c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	})
}

func printJob(w io.Writer, j *jobs.Job) {
	say(w, "job %d, %s: %s", j.ID, j.Name, j.State)
	if j.Reason != "" {
		say(w, "%s", j.Reason)
	}
	say(w, "%d of %d rows with model %s, version %s", j.Done, j.Rows, j.Model, j.Version)
	say(w, "handed in %s with %s of input", j.Made.Local().Format(timeFormat),
		terminal.Size(j.Input))
	if !j.Began.IsZero() {
		say(w, "began %s", j.Began.Local().Format(timeFormat))
	}
	if !j.Ended.IsZero() {
		say(w, "ended %s", j.Ended.Local().Format(timeFormat))
	}
	if j.State == jobs.Done {
		say(w, "the result has %s: weir job wait %d --out FOLDER brings it", terminal.Size(j.Bytes),
			j.ID)
	}
}

func newJobLogs() *cobra.Command {
	var asJSON, follow bool
	return jobCommand("logs", "Print what happened to a job", func(c *cobra.Command, r *remote,
		id int64) error {
		for after := int64(0); ; {
			var l jobs.Lines
			if err := r.do(c.Context(), "GET", jobPath(id, fmt.Sprint("/log?after=", after)), nil,
				&l); err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), l)
			}
			for _, x := range l.Lines {
				say(c.OutOrStdout(), "%s  %s", x.Time.Local().Format(time.DateTime), x.Text)
				after = x.N
			}
			if !follow {
				return nil
			}
			var j jobs.Job
			if err := r.do(c.Context(), "GET", jobPath(id, ""), nil, &j); err != nil ||
				len(l.Lines) == 0 && j.State.Ended() {
				return err
			}
			if err := pause(c.Context(), jobLook); err != nil {
				return err
			}
		}
	}, func(c *cobra.Command) {
		c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
		c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job ends")
	})
}

// changeJob asks for a change of a job, and says what came of it.
func changeJob(use, short, method, below, said string) *cobra.Command {
	return jobCommand(use, short, func(c *cobra.Command, r *remote, id int64) error {
		if err := r.do(c.Context(), method, jobPath(id, below), nil, nil); err != nil {
			return err
		}
		say(c.ErrOrStderr(), "job %d %s", id, said)
		return nil
	})
}

func newJobCancel() *cobra.Command {
	return changeJob("cancel", "End a job, without a result", "POST", "/cancel", "was cancelled")
}

func newJobRetry() *cobra.Command {
	return changeJob("retry", "Try a job again that has failed, from where it was", "POST",
		"/retry", "is queued")
}

func newJobRemove() *cobra.Command {
	return changeJob("rm", "Remove a job that has ended, with its result", "DELETE", "",
		"was removed")
}
