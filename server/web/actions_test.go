package web_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/web"
)

// TestActions: each change answers what was before, which asked for again undoes it.
func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		at := open(t, s, web.Options{}, nil)
		for _, c := range []struct{ path, body, want string }{
			{"/v1/policy", `{"policy":"priority"}`,
				`{"before":{"policy":"fair"},"now":{"policy":"priority"}}`},
			{"/v1/policy", `{"policy":"fair"}`,
				`{"before":{"policy":"priority"},"now":{"policy":"fair"}}`},
			{"/v1/models/a/share", `{"compute":0.25,"class":"latency"}`,
				`{"before":{"class":"standard","compute":0,"limit":1,"memory_bytes":8388608},` +
					`"now":{"class":"latency","compute":0.25,"limit":1,"memory_bytes":8388608}}`},
			{"/v1/models/a/share", `{"limit":0.5,"memory_bytes":1048576}`,
				`{"before":{"class":"latency","compute":0.25,"limit":1,"memory_bytes":8388608},` +
					`"now":{"class":"latency","compute":0.25,"limit":0.5,"memory_bytes":1048576}}`},
			{"/v1/models/a/share", `{"class":"standard","compute":0,"limit":1,` +
				`"memory_bytes":8388608}`,
				`{"before":{"class":"latency","compute":0.25,"limit":0.5,"memory_bytes":1048576},` +
					`"now":{"class":"standard","compute":0,"limit":1,"memory_bytes":8388608}}`},
			{"/v1/models/a/unload", "",
				`{"before":{"state":"READY"},"now":{"state":"UNAVAILABLE"}}`},
			{"/v1/models/a/load", "",
				`{"before":{"state":"UNAVAILABLE"},"now":{"state":"READY"}}`},
		} {
			var got json.RawMessage
			if code := at.ask("POST", c.path, c.body, &got); code != 200 || string(got) != c.want {
				t.Errorf("%s %s: %d %s, want %s", c.path, c.body, code, got, c.want)
			}
		}
		if got := s.Status().Jobs[0].Share; got.Cap() != 1 || got.Memory != 8*weir.MiB {
			t.Errorf("in the end the share is %+v", got)
		}
	})
}

// TestActionsThatTakeLong: the answer to a change that took longer than a client may take to read
// one is sent.
func TestActionsThatTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		s.slow = 30 * time.Second
		var got json.RawMessage
		if code := open(t, s, web.Options{}, nil).ask("POST", "/v1/models/a/load", "",
			&got); code != 200 {
			t.Errorf("%d, %s", code, got)
		}
	})
}

// TestActionsRefuse: what is wrong changes nothing, and is said.
func TestActionsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		at := open(t, s, web.Options{}, nil)
		before := s.Status().Jobs[0].Share
		for _, c := range []struct {
			path, body string
			code       int
			says       string
		}{
			{"/v1/policy", `{"policy":"no"}`, 400, "no policy no"},
			{"/v1/policy", `{"polcy":"fair"}`, 400, "polcy"},
			{"/v1/policy", `{"policy":"fair"}{}`, 400, "more than one"},
			{"/v1/policy", `{"policy":"` + strings.Repeat("x", 1<<17) + `"}`, 413, "65536"},
			{"/v1/policy", ``, 400, "body"},
			{"/v1/models/a/share", `{"class":"first"}`, 400, "latency, standard or opportunistic"},
			{"/v1/models/a/share", `{"memory_bytes":0}`, 400, "memory_bytes is 0"},
			{"/v1/models/a/share", `{"memory_bytes":1099511627776}`, 409, "1TiB"},
			{"/v1/models/b/share", `{"compute":0.1}`, 404, `"b"`},
			{"/v1/models/b/load", ``, 400, "no model b"},
			{"/v1/models/b/unload", ``, 400, "no model b"},
			{"/v1/models/a/graph", ``, 501, "graphs"},
		} {
			var got struct{ Error string }
			method := "POST"
			if strings.HasSuffix(c.path, "graph") {
				method = "GET"
			}
			if code := at.ask(method, c.path, c.body, &got); code != c.code ||
				!strings.Contains(got.Error, c.says) {
				t.Errorf("%s %.60s: %d %s, want %d and %q", c.path, c.body, code, got.Error,
					c.code, c.says)
			}
		}
		if st := s.Status(); st.Policy != "fair" || st.Jobs[0].Share != before {
			t.Errorf("in the end the policy is %s, the share %+v", st.Policy, st.Jobs[0].Share)
		}
	})
}

// TestActionsIf: a change that expects something is made where that is so, and only there.
func TestActionsIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		at := open(t, s, web.Options{}, nil)
		const policy, share = "/v1/policy", "/v1/models/a/share"
		for _, c := range []struct {
			path, body string
			code       int
			says       string
		}{
			{policy, `{"policy":"priority","if":"priority"}`, 409, "policy is fair, not priority"},
			{policy, `{"policy":"priority","if":"fair"}`, 200, ""},
			{share, `{"compute":0.5,"if":{"class":"latency"}}`, 409, "class of model a"},
			{share, `{"compute":0.5,"if":{"compute":0.1}}`, 409, "compute of model a"},
			{share, `{"compute":0.5,"if":{"limit":0.1}}`, 409, "limit of model a"},
			{share, `{"compute":0.5,"if":{"memory_bytes":1}}`, 409, "memory_bytes of model a"},
			{share, `{"compute":0.5,"if":{"memory":1}}`, 400, "memory"},
			{share, `{"compute":0.25,"if":{"class":"standard","compute":0,"limit":1,` +
				`"memory_bytes":8388608}}`, 200, ""},
		} {
			var got struct{ Error string }
			if code := at.ask("POST", c.path, c.body, &got); code != c.code ||
				!strings.Contains(got.Error, c.says) {
				t.Errorf("%s: %d %s, want %d and %q", c.body, code, got.Error, c.code, c.says)
			}
		}
		if st := s.Status(); st.Policy != "priority" || st.Jobs[0].Share.Compute != 0.25 {
			t.Errorf("in the end the policy is %s, the share %+v", st.Policy, st.Jobs[0].Share)
		}
	})
}

// TestProgramShares: a program's share is asked for by its name and, where that is given, its
// device; without anybody to ask there is none.
func TestProgramShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		set := func(device, name string, s web.Share) (c web.Changed[web.Share], err error) {
			asked = append(asked, device+" "+name)
			if name == "none" {
				return c, oip.Faultf(oip.NotFound, "there is no program none")
			}
			c.Now = s
			return c, nil
		}
		at := open(t, served("a"), web.Options{SetProgram: set}, nil)
		for path, want := range map[string]int{"p/share": 200, "p/share?device=cuda:1": 200,
			"none/share": 404} {
			var got web.Changed[web.Share]
			code := at.ask("POST", "/v1/programs/"+path, `{"compute":0.25}`, &got)
			if code != want || code == 200 && *got.Now.Compute != 0.25 {
				t.Errorf("%s: %d, %+v", path, code, got)
			}
		}
		slices.Sort(asked)
		if want := []string{" none", " p", "cuda:1 p"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		var got json.RawMessage
		if code := open(t, served("a"), web.Options{}, nil).ask("POST", "/v1/programs/p/share",
			"{}", &got); code != 404 {
			t.Errorf("without programs: %d %s", code, got)
		}
		if code := at.ask("POST", "/v1/programs/p/share", `{"what":1}`, &got); code != 400 {
			t.Errorf("an unknown key: %d %s", code, got)
		}
	})
}
