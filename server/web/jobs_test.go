package web_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/web"
)

// TestJobs: an account sees its own batch jobs, as they change and go, and who administers the
// server all; what they have of the device has a lane.
func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		list := []web.Job{{ID: 2, Account: "ann", Owner: "ann", State: "running", Rows: 9},
			{ID: 1, Account: "bob", Owner: "bob", State: "done", Rows: 9, Done: 9}}
		o := web.Options{Jobs: func() []web.Job {
			mu.Lock()
			defer mu.Unlock()
			return append([]web.Job(nil), list...)
		}}
		s := served("m")
		s.status.Jobs = append(s.status.Jobs, weir.Usage{Name: "(batch jobs)"})
		all := []auth.Grant{{Pattern: auth.All, Rights: auth.Read | auth.Job}}
		at := open(t, s, o, &auth.Account{Name: "ann", Grants: all})
		events, _ := at.watch("")
		e := <-events
		if len(e.state.Jobs) != 1 || e.state.Jobs[0].ID != 2 || !e.state.Server.Jobs {
			t.Errorf("state %+v", e.state)
		}
		change := func(f func()) *web.State {
			mu.Lock()
			f()
			mu.Unlock()
			time.Sleep(2 * web.Period)
			synctest.Wait()
			select {
			case e := <-events:
				return &e.state
			default:
				return &web.State{}
			}
		}
		if got := change(func() { list[0].Done = 3 }); len(got.Jobs) != 1 || got.Jobs[0].Done != 3 {
			t.Errorf("after progress: %+v", got)
		}
		if got := change(func() { list[1].Done = 4 }); len(got.Jobs) != 0 {
			t.Errorf("after another's progress: %+v", got)
		}
		if got := change(func() { list = list[1:] }); len(got.Gone.Jobs) != 1 ||
			got.Gone.Jobs[0] != "2 ann" {
			t.Errorf("after the end: %+v", got)
		}
		if got := change(func() { list = nil }); len(got.Gone.Jobs) != 0 {
			t.Errorf("after another's end: %+v", got)
		}
		s.work("(batch jobs)", 100*time.Millisecond)
		if got := change(func() {}); len(got.Lanes["cpu:0"]["(batch jobs)"]) == 0 {
			t.Errorf("the lanes are %v", got.Lanes)
		}
		mu.Lock()
		list = []web.Job{{ID: 4, Account: "ann", Owner: "ann"}, {ID: 3, Account: ""}}
		mu.Unlock()
		var got web.State
		open(t, s, o, &auth.Account{Name: "root", Grants: []auth.Grant{{Pattern: auth.All,
			Rights: auth.Admin}}}).ask("GET", "/v1/state", "", &got)
		if len(got.Jobs) != 2 {
			t.Errorf("who has admin sees %+v", got.Jobs)
		}
	})
}
