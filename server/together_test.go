package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
)

// ofOneFile is the example model under a name, with a cache of plans by which it is known again.
func ofOneFile(t *testing.T, dir, name string) Source {
	t.Helper()
	path := filepath.Join("..", "examples", "digits", "digits.onnx")
	if info, err := os.Stat(path); err != nil {
		t.Fatal(err)
	} else if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago, and plans of such are not kept")
	}
	return Source{Name: name, Version: 1, Open: func() (*weir.Model, error) {
		return weir.Open(path, weir.WithCache(dir))
	}}
}

// TestModelsOfOneFile: models of one file hold its weights once, which the figures of each say,
// lent or not; requests of other sizes than the first are answered by both, and by the second alone
// once the first is unloaded.
func TestModelsOfOneFile(t *testing.T) {
	for _, lend := range []bool{false, true} {
		t.Run(fmt.Sprint("lend ", lend), func(t *testing.T) { modelsOfOneFile(t, lend) })
	}
}

func modelsOfOneFile(t *testing.T, lend bool) {
	dir := t.TempDir()
	s := begin(t, Options{Lend: lend, Batch: 4, Host: weir.HostOptions{Memory: 8 * weir.MiB}},
		ofOneFile(t, dir, "a"), ofOneFile(t, dir, "b"))
	want := map[int]string{}
	infer := func(model string, rows int) {
		t.Helper()
		r := ask(s, "POST", "/v2/models/"+model+"/infer", fmt.Appendf(nil, `{"inputs":[{"name":`+
			`"image","datatype":"FP32","shape":[%d,1,8,8],"data":[%s]}]}`, rows,
			strings.Repeat(",0.5", rows*64)[1:]))
		_, got, _ := strings.Cut(string(all(t, r)), `"outputs"`)
		if want[rows] == "" {
			want[rows] = got
		}
		if r.StatusCode != http.StatusOK || got == "" || got != want[rows] {
			t.Errorf("%s, %d rows: %s %s, want %s", model, rows, r.Status, got, want[rows])
		}
	}
	for _, model := range []string{"a", "b"} {
		for _, rows := range []int{1, 4, 1} {
			infer(model, rows)
		}
	}
	s.background.Wait()
	st, sum := s.Status(), weir.Bytes(0)
	for _, u := range st.Jobs {
		if sum += u.Memory; u.Shared == 0 {
			t.Errorf("%s shares nothing: %+v", u.Name, u)
		}
	}
	if len(st.Jobs) != 2 || st.Held != sum-st.Jobs[0].Shared {
		t.Fatalf("%v is held, by %+v", st.Held, st.Jobs)
	}
	line := fmt.Sprintf("weir_job_memory_shared_bytes{device=\"cpu:0\",job=\"b/1\"} %d\n",
		st.Jobs[1].Shared)
	if text := string(all(t, ask(s, "GET", "/metrics", nil))); !strings.Contains(text, line) {
		t.Errorf("no %s in the metrics", line)
	}
	if r := ask(s, "POST", "/v2/repository/models/a/unload", nil); r.StatusCode != http.StatusOK {
		t.Fatal(string(all(t, r)))
	}
	for end := time.Now().Add(10 * time.Second); len(s.Status().Jobs) > 1; time.Sleep(
		time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the model that is unloaded stays")
		}
	}
	infer("b", 4)
	infer("b", 1)
	s.background.Wait()
	st = s.Status()
	if u := st.Jobs[0]; u.Shared != 0 || u.Memory == 0 || u.Memory != st.Held {
		t.Errorf("alone: %+v of %v", u, st.Held)
	}
}
