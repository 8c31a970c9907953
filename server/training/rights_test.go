package training

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/server/auth"
)

// TestRows: each endpoint has a row in the table of rights, and what changes a training is
// recorded.
func TestRows(t *testing.T) {
	for pattern := range (&Trainings{}).Routes() {
		at := slices.IndexFunc(auth.Endpoints, func(e auth.Endpoint) bool {
			return slices.Contains(e.HTTP, pattern)
		})
		if at < 0 {
			t.Errorf("%s has no row in auth.Endpoints", pattern)
			continue
		}
		changes := strings.HasPrefix(pattern, "POST ") && !strings.HasSuffix(pattern, "/try")
		want := auth.Endpoint{Right: auth.Read, Scope: auth.OfAll}
		if changes {
			want.Right = auth.Admin
		}
		if e := auth.Endpoints[at]; e.Changes != changes || e.Right != want.Right ||
			e.Scope != want.Scope {
			t.Errorf("%s: %+v", pattern, e)
		}
	}
}

// TestEventsEnd: there is a bound on readers of events; a stream ends after its time, and where its
// account may no longer read, and makes room.
func TestEventsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &training{changed: make(chan struct{}), state: State{Name: "a"}}
		all := &Trainings{stop: t.Context(), all: []*training{one}}
		stream := func(who *auth.Account) (ended chan struct{}, w *httptest.ResponseRecorder) {
			r := httptest.NewRequest("GET", "/v1/train/a/events", nil)
			r.SetPathValue("name", "a")
			w, ended = httptest.NewRecorder(), make(chan struct{})
			go func() {
				all.getEvents(w, r.WithContext(auth.With(t.Context(), who)))
				close(ended)
			}()
			return ended, w
		}
		eve := &auth.Account{Name: "eve", Grants: []auth.Grant{{Pattern: auth.All,
			Rights: auth.Read}}}
		var last chan struct{}
		var w *httptest.ResponseRecorder
		for range auth.MostStreamsEach {
			last, w = stream(eve)
		}
		synctest.Wait()
		refused, no := stream(eve)
		if <-refused; no.Code != http.StatusTooManyRequests {
			t.Errorf("one reader too many: %d", no.Code)
		}
		<-last // after five minutes
		if n := strings.Count(w.Body.String(), "data: "); n < 10 || n > 30 {
			t.Errorf("%d events in five minutes without a change", n)
		}
		synctest.Wait()
		without, w := stream(&auth.Account{Name: "eve"})
		if <-without; w.Code != http.StatusOK || w.Body.Len() > 0 {
			t.Errorf("without the right: %d %q", w.Code, w.Body)
		}
	})
}
