package pagetest

import (
	"archive/zip"
	"bytes"
	"errors"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/jobs"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/server/web"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// pictures is a file with n rows for the classifier.
func pictures(t *testing.T, n int) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("image.npy")
	if err == nil {
		err = npy.Write(w, tensor.From(make([]float32, 64*n), n, 1, 8, 8))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

// jobsPage is a server with a page of batch jobs, which run.
func jobsPage(t *testing.T) (*jobs.Jobs, *site) {
	t.Helper()
	state, err := store.Open(t.Context(), t.TempDir(), store.Options{}, audit.Room, auth.Room,
		jobs.Room)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.LoadAll(t.Context(), []server.Source{{Name: "digits", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}}); err != nil {
		t.Fatal(err)
	}
	j, err := jobs.Open(t.Context(), jobs.Options{Store: state, Server: s})
	if err != nil {
		t.Fatal(err)
	}
	p := web.New(s, web.Options{Jobs: func() (rows []web.Job) {
		list, _ := j.List(t.Context(), 100)
		for _, x := range list {
			rows = append(rows, web.Job{ID: x.ID, Name: x.Name, Model: x.Model,
				State: string(x.State), Reason: x.Reason, Rows: x.Rows, Done: x.Done,
				Bytes: x.Bytes, Made: x.Made.UnixMilli()})
		}
		return rows
	}})
	at := paged(s, p, j.Routes())
	t.Cleanup(func() {
		at.close()
		j.Close(t.Context())
		if err := errors.Join(s.Close(), state.Close()); err != nil {
			t.Error(err)
		}
	})
	return j, at
}

// TestServerJobs: the page shows batch jobs with their progress and log, saves a result, cancels a
// job and removes one.
func TestServerJobs(t *testing.T) {
	ctx := browser(t)
	j, at := jobsPage(t)
	b := newTab(t, ctx)
	make := func(key string, n int) {
		t.Helper()
		if _, _, err := j.Make(t.Context(), jobs.Asked{Key: key, Model: "digits", Size: -1},
			pictures(t, n)); err != nil {
			t.Fatal(err)
		}
	}

	at.open(t, b, "#/jobs", 1280, false)
	b.until(t, "no jobs", `document.body.textContent.includes("There are no jobs")`)
	make("short", 10)
	const cells = `document.querySelectorAll("tbody tr")[0].children`
	b.until(t, "a job that is done", cells+`[3].textContent === "done" &&
		`+cells+`[4].textContent.includes("10 of 10, 100 %")`)
	make("long", 1_000_000)
	b.until(t, "a job that runs", cells+`[3].textContent === "running" &&
		/^[1-9]/.test(`+cells+`[4].textContent)`)
	b.sound(t, "jobs", 20)
	b.do(t, `location.hash = "#/"`)
	b.until(t, "the lane", `[...document.querySelectorAll(".lanes a")].some(a => `+
		`a.textContent === "batch jobs")`)
	b.sound(t, "overview", 20)
	button := func(label string) string {
		return `[...document.querySelectorAll("button")].find(b => !b.hidden && ` +
			`b.offsetParent && b.textContent === "` + label + `")`
	}
	b.do(t, `location.hash = "#/jobs/2"`)
	b.until(t, "the log", `document.querySelector(".log")?.textContent.includes("running after")`)
	b.do(t, button("Cancel")+".click()")
	b.until(t, "the question", `document.querySelector("dialog[open]")`)
	b.do(t, `document.querySelector("dialog .grave").click()`)
	b.until(t, "the end", `document.querySelector(".log").textContent.includes("cancelled")`)
	if got, err := j.Get(t.Context(), 2); err != nil || got.State != jobs.Cancelled {
		t.Errorf("job 2 is %+v, %v", got, err)
	}
	b.sound(t, "job", 10)
	for _, v := range views[:4] {
		at.open(t, b, "#/jobs", v.width, v.dark)
		b.until(t, "the jobs", `document.querySelectorAll("tbody tr").length === 2`)
		b.sound(t, "jobs-"+v.name, 20)
	}
	at.open(t, b, "#/jobs/1", 1280, false)
	b.until(t, "a result", button("Save the result"))
	b.do(t, button("Remove")+".click()")
	b.until(t, "the question", `document.querySelector("dialog[open]")`)
	b.do(t, `document.querySelector("dialog .grave").click()`)
	b.until(t, "it is gone", `document.body.textContent.includes("There is no such job")`)
}
