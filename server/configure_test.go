package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/tensor"
)

// configured is a source with the configuration in a text.
func configured(t *testing.T, src Source, text string) Source {
	t.Helper()
	c, err := repo.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	src.Config = c
	src.Labels = map[string][]string{"probabilities": strings.Fields("zero one two three four " +
		"five six seven eight nine")}
	return src
}

// digitsConfig is what a configuration says of the digits.
const digitsConfig = `platform: "onnxruntime_onnx" max_batch_size: 4
input { name: "image" data_type: TYPE_FP32 dims: [ 64 ] reshape { shape: [ 1, 8, 8 ] } }
output { name: "probabilities" data_type: TYPE_FP32 dims: [ 2, 5 ] reshape { shape: 10 }
  label_filename: "labels.txt" }
parameters { key: "author" value { string_value: "ann" } }
instance_group { count: 2 kind: KIND_CPU }
dynamic_batching { preferred_batch_size: [ 4, 2 ] max_queue_delay_microseconds: 100
  priority_levels: 3 default_priority_level: 2 default_queue_policy { max_queue_size: 9 } }
model_warmup { name: "w" batch_size: 2 count: 2
  inputs { key: "image" value { data_type: TYPE_FP32 dims: 64 zero_data: true } } }
`

// TestConfigured: what a configuration says holds: shapes, labels, batches, queues; and it is told.
func TestConfigured(t *testing.T) {
	s := begin(t, Options{Batch: 32}, configured(t, digitsSource(), digitsConfig))
	s.background.Wait()
	m, err := s.Metadata("digits", "")
	if err != nil || m.Platform != "onnxruntime_onnx" ||
		!slices.Equal(m.Inputs[0].Shape, []int64{-1, 64}) ||
		!slices.Equal(m.Outputs[0].Shape, []int64{-1, 2, 5}) {
		t.Errorf("metadata %+v (%v)", m, err)
	}
	pixels, _ := picture(t, 2)
	infer := func(rows int, o oip.Output) (*Answer, error) {
		return s.Infer(t.Context(), "digits", "", &oip.Request{Outputs: []oip.Output{o},
			Inputs: []oip.Input{{Name: "image", Tensor: tensor.From(append([]float32{},
				slices.Repeat(pixels, 3)[:64*rows]...), rows, 64)}}})
	}
	a, err := infer(2, oip.Output{Name: "probabilities"})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Outputs[0].Tensor; !tensor.Equal(got, tensor.From(expected(t, pixels), 2, 2, 5)) {
		t.Errorf("the answer is %v", got)
	}
	a.Close()
	if a, err = infer(1, oip.Output{Name: "probabilities", Classes: 1}); err != nil {
		t.Fatal(err)
	}
	// the first picture is a 0
	if got := a.Outputs[0].Tensor.Strings[0]; !strings.HasSuffix(got, ":0:zero") {
		t.Errorf("classified as %s", got)
	}
	a.Close()
	if _, err := infer(5, oip.Output{Name: "probabilities"}); oip.KindOf(err) != oip.Invalid ||
		!strings.Contains(err.Error(), "5 rows, and a request may have 4") {
		t.Errorf("more rows than may be: %v", err)
	}
	r := ask(s, "POST", inferPath, inJSON(pixels, ""))
	if b := string(all(t, r)); r.StatusCode != 400 || !strings.Contains(b, "[-1 64] is taken") {
		t.Errorf("the model's own shape: %s %s", r.Status, b)
	}
	v, _ := s.look("digits", "")
	got, b := v.admission(), v.batches.Load()
	if got.Queue != 9 || got.Levels != 4 || got.Default != 2 || got.Batch.Max != 4 ||
		got.Batch.Delay != 100*time.Microsecond || !slices.Equal(got.Batch.Preferred,
		[]int{2, 4}) || b.why != "up to 4 rows, as configured" {
		t.Errorf("admission %+v, batches %q", got, b.why)
	}
	c, err := s.Config("digits", "")
	if err != nil || c.Name != "digits" || c.MaxBatchSize != 4 || c.Backend != "weir" ||
		c.Parameters["author"].StringValue != "ann" || c.Parameters["instances"] ==
		(oip.ConfigText{}) || c.DefaultModelFilename != repo.File ||
		!slices.Equal(c.Input[0].Dims, []int64{64}) {
		t.Errorf("configuration %+v (%v)", c, err)
	}
	if runs := v.job.Usage().Runs; runs < 2 {
		t.Errorf("%d runs: it was not warmed up", runs)
	}
}

// TestConfiguredLittle: a configuration that leaves things open leaves them to weir.
func TestConfiguredLittle(t *testing.T) {
	for text, want := range map[string]string{`name: "digits"`: "up to",
		`max_batch_size: 8`: "up to",
		`input { name: "image" data_type: TYPE_FP32 dims: [ -1, 1, 8, 8 ] }`: "off: max_batch_size " +
			"is 0",
		`max_batch_size: 1`: "off"} {
		s := begin(t, Options{Batch: 32}, configured(t, digitsSource(), text))
		s.background.Wait()
		c, err := s.Config("digits", "")
		if err != nil || !strings.HasPrefix(c.Parameters["batching"].StringValue, want) ||
			len(c.Input) != 1 || len(c.Output) != 1 ||
			len(c.Input[0].Dims) != 4-min(int(c.MaxBatchSize), 1) {
			t.Errorf("%s: %+v (%v)", text, c, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestConfigurationRefused: what does not hold, or weir does not do, keeps the model from being
// served, with the reason.
func TestConfigurationRefused(t *testing.T) {
	input := func(text string) string { return `input { name: "image" ` + text + ` }` }
	s := begin(t, Options{})
	queue := func(text string) string {
		return `max_batch_size: 4 dynamic_batching { ` + text + ` }`
	}
	for _, c := range [][2]string{
		{`name: "x"`, "the folder is called digits"},
		{`backend: "python"`, "weir computes ONNX models"},
		{`platform: "tensorrt_plan"`, "weir computes ONNX models"},
		{`max_batch_size: -1`, "give 0 or more"},
		{`sequence_batching { control_input { name: "no" control { kind: CONTROL_SEQUENCE_START } } }`,
			"sequence_batching"},
		{`ensemble_scheduling { }`, "need each other"},
		{`response_cache { enable: true } model_transaction_policy { decoupled: true }`,
			"are not kept"},
		{`dynamic_batching { }`, "needs a max_batch_size"},
		{queue(`preserve_ordering: true`), "preserve_ordering"},
		{queue(`preferred_batch_size: 5`), "give 1 to max_batch_size"},
		{queue(`priority_levels: 2`), "default_priority_level"},
		{queue(`default_queue_policy { timeout_action: DELAY }`), "DELAY"},
		{`input { name: "no" data_type: TYPE_FP32 dims: 1 }`, `has no input "no"`},
		{input(`data_type: TYPE_FP16 dims: [ -1, 1, 8, 8 ]`), "the model has TYPE_FP32"},
		{input(`data_type: TYPE_FP32 dims: [ 1, 8, 8 ]`), "the model has [-1 1 8 8]"},
		{input(`data_type: TYPE_FP32 dims: [ -1, 1, 8, 9 ]`), "the model has [-1 1 8 8]"},
		{input(`data_type: TYPE_FP32 dims: [ -1, 1, 8, 0 ]`), "dims has 0"},
		{input(`data_type: TYPE_FP32 dims: 9 reshape { shape: [ 1, 8 ] }`), "cannot become"},
		{input(`data_type: TYPE_FP32 dims: [ -1, 1, 8, 8 ] optional: true`), "must be given"},
		{`model_warmup { name: "w" inputs { key: "image" value { data_type: TYPE_FP32 ` +
			`dims: 3 zero_data: true } } }`,
			"model_warmup w"},
	} {
		text, want := c[0], c[1]
		err := s.LoadAll(t.Context(), []Source{configured(t, digitsSource(), text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if now := s.Status(); len(now.Jobs) > 0 || now.Promised > 0 {
		t.Errorf("%d jobs are left, %v promised", len(now.Jobs), now.Promised)
	}
}

// TestConfiguredTimes: the time that a configuration gives requests holds for all of them, and can
// be shortened where it may.
func TestConfiguredTimes(t *testing.T) {
	for _, c := range []struct {
		policy string
		asked  any
		want   time.Duration
	}{
		{"default_timeout_microseconds: 3000000", nil, 3 * time.Second},
		{"default_timeout_microseconds: 3000000", int64(1000000), 3 * time.Second},
		{"default_timeout_microseconds: 3000000 allow_timeout_override: true", int64(1000000),
			time.Second},
		{"default_timeout_microseconds: 3000000 allow_timeout_override: true", int64(9000000),
			3 * time.Second},
		{"", int64(1000000), time.Second},
	} {
		v := &version{source: configured(t, Source{}, "max_batch_size: 4 dynamic_batching { "+
			"default_queue_policy { "+c.policy+" } }")}
		synctest.Test(t, func(t *testing.T) {
			p := oip.Parameters{}
			if c.asked != nil {
				p["timeout"] = c.asked
			}
			ctx, cancel, err := v.deadline(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer cancel()
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != c.want {
				t.Errorf("%s, asked %v: %v", c.policy, c.asked, time.Until(at))
			}
		})
	}
}

// laid is a folder with the digits as versions of a model, and a configuration if there is one.
func laid(t *testing.T, config string, versions ...int) string {
	t.Helper()
	folder := t.TempDir()
	for _, n := range versions {
		put1(t, folder, n)
	}
	if config != "" {
		if err := os.WriteFile(filepath.Join(folder, "m", repo.ConfigFile), []byte(config),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// put1 puts a version of m into a folder.
func put1(t *testing.T, folder string, n int) {
	t.Helper()
	path := filepath.Join(folder, "m", fmt.Sprint(n), repo.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, digits.Model, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFolder: a folder's versions are served as its configuration says, loaded anew where they have
// changed, and a configuration that is wrong leaves what is served.
func TestFolder(t *testing.T) {
	folder := laid(t, "version_policy { latest { num_versions: 2 } }", 1, 2, 3)
	from := &Folder{Path: folder}
	offers, err := from.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, Options{Catalogue: from}, offers[0].Sources...)
	is := func(want ...string) {
		t.Helper()
		s.background.Wait()
		if got := lines(s); !slices.Equal(got, want) {
			t.Errorf("index %q, want %q", got, want)
		}
	}
	is("m/2 READY", "m/3 READY")
	three, _ := s.look("m", "3")
	put1(t, folder, 4)
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	is("m/3 READY", "m/4 READY")
	if now, _ := s.look("m", "3"); now != three {
		t.Error("a version that has not changed was loaded anew")
	}
	config := filepath.Join(folder, "m", repo.ConfigFile)
	if err := os.WriteFile(config, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = s.LoadModel(t.Context(), "m", nil)
	if err == nil || !strings.Contains(err.Error(), "config.pbtxt: line 1") {
		t.Errorf("a wrong configuration: %v", err)
	}
	is("m/ UNAVAILABLE: model m: config.pbtxt: line 1: there is no key \"nonsense\" here",
		"m/3 READY", "m/4 READY")
	if err := s.LoadModel(t.Context(), "m", oip.Parameters{"config": `{"version_policy":{` +
		`"specific":{"versions":[1]}}}`}); err != nil {
		t.Error(err)
	}
	is("m/1 READY")
	if err := s.LoadModel(t.Context(), "m", oip.Parameters{"config": "{}",
		"file:7/model.onnx": string(digits.Model)}); err != nil {
		t.Error(err)
	}
	is("m/7 READY")
	for _, c := range []struct{ config, file, says string }{
		{`{"nam":1}`, "", `failed to load "m": parameter config: there is no key "nam"`},
		{`"a": {{`, "", "failed to load"}, {"", "7/model.onnx", "needs the parameter config"},
		{"{}", "model.onnx", "failed to poll from model repository"},
		{"{}", "1/x", "give VERSION/model.onnx"},
		{"{}", strings.Repeat("A", 256), "failed to poll from model repository"},
		{`{"default_model_filename":"a/b"}`, "", "name of a file"},
	} {
		p := oip.Parameters{}
		if c.config != "" {
			p["config"] = c.config
		}
		if c.file != "" {
			p["file:"+c.file] = "x"
		}
		err := s.LoadModel(t.Context(), "m", p)
		kind := oip.Invalid
		if c.file != "" && c.config != "" {
			kind = oip.Misplaced
		}
		if oip.KindOf(err) != kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRepositoryLists: what the folder has and nobody loaded is listed, unlike what is no model.
func TestRepositoryLists(t *testing.T) {
	folder := laid(t, "", 1)
	for _, name := range []string{"a/1", "z/1", ".git/1", "none/x"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := begin(t, Options{Catalogue: &Folder{Path: folder}}, times("b", 1))
	want := []oip.IndexEntry{{Name: "a", State: stateUnavailable}, {Name: "b", Version: "1",
		State: stateReady}, {Name: "m", State: stateUnavailable}, {Name: "z",
		State: stateUnavailable}}
	if got := s.Repository(false); !slices.Equal(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
	if got := s.Repository(true); !slices.Equal(got, want[1:2]) {
		t.Errorf("ready are %+v, want %+v", got, want[1:2])
	}
	if err := s.LoadModel(t.Context(), "m", oip.Parameters{"config": `{"maxBatchSize":"2"}`}); err !=
		nil {
		t.Fatal(err)
	}
	if c, err := s.Config("m", ""); err != nil || c.MaxBatchSize != 2 {
		t.Errorf("configured %+v, %v", c, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if got := s.Repository(false); len(got) != 2 {
		t.Errorf("without its folder it lists %+v", got)
	}
}

// TestWatch: the folder is followed: what is new is served, what fails says why and is tried again
// once it changes, and what is gone is served no more.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{}
		marked := func(src Source, mark string) Source {
			src.Mark = mark
			return src
		}
		one := marked(times("m", 1), "a")
		from.put("m", one)
		s := begin(t, Options{Catalogue: from, Fixed: true}, one)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Watch(ctx, time.Minute)
		defer cancel()
		is := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
			if got := lines(s); !slices.Equal(got, want) {
				t.Errorf("index %q, want %q", got, want)
			}
		}
		is("m/1 READY")
		from.put("m", marked(times("m", 2), "b"))
		from.put("new", marked(times("new", 1), "a"))
		is("m/2 READY", "new/1 READY")
		opened := 0
		bad := marked(Source{Name: "m", Version: 3, Open: func() (*weir.Model, error) {
			opened++
			return nil, errors.New("broken by itself")
		}}, "c")
		from.put("m", bad)
		is("m/2 READY", "m/3 UNAVAILABLE: model m, version 3: broken by itself", "new/1 READY")
		is("m/2 READY", "m/3 UNAVAILABLE: model m, version 3: broken by itself", "new/1 READY")
		if opened != 1 {
			t.Errorf("it was opened %d times", opened)
		}
		from.mu.Lock()
		delete(from.has, "new")
		from.mu.Unlock()
		is("m/2 READY", "m/3 UNAVAILABLE: model m, version 3: broken by itself")
		for what, err := range map[string]error{"load": s.LoadModel(t.Context(), "m", nil),
			"unload": s.UnloadModel(t.Context(), "m", nil)} {
			if oip.KindOf(err) != oip.Unavailable {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.Rollback(t.Context(), "m"); err != nil {
			t.Error(err)
		}
		is("m/1 READY")
		from.put("m", marked(times("m", 4), "d"))
		is("m/4 READY")
	})
}

// TestPushAndRollback: a version is pushed over HTTP, loaded, and rolled back.
func TestPushAndRollback(t *testing.T) {
	folder := laid(t, "", 1)
	from := &Folder{Path: folder}
	offers, err := from.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, Options{Catalogue: from}, offers[0].Sources...)
	for _, c := range []struct {
		method, path string
		body         []byte
		digest       string
		status       int
		says         string
	}{
		{"POST", "/v1/models/m/rollback", nil, "", 400, "no other version"},
		{"PUT", "/v1/models/m", digits.Model, "", 201, `"model":"m","version":"2"`},
		{"PUT", "/v1/models/m/2", digits.Model, "", 400, "give another number"},
		{"PUT", "/v1/models/m/x", digits.Model, "", 400, "whole number"},
		{"PUT", "/v1/models/a%2Fb", digits.Model, "", 400, "no name of a model"},
		{"PUT", "/v1/models/m", digits.Model, "sha-256=:AAAA:", 400, "32 bytes"},
		{"PUT", "/v1/models/m", digits.Model, "sha-256=:" + strings.Repeat("A", 43) + "=:", 400,
			"not what was sent"},
		{"POST", "/v2/repository/models/m/load", nil, "", 200, ""},
		{"GET", "/v2/models/m", nil, "", 200, `"versions":["2"]`},
		{"POST", "/v1/models/m/rollback", nil, "", 200, `"version":"1"`},
		{"GET", "/v2/models/m", nil, "", 200, `"versions":["1"]`},
		{"POST", "/v1/models/no/rollback", nil, "", 404, "unknown model"},
	} {
		var headers []string
		if c.digest != "" {
			headers = []string{"Content-Digest", c.digest}
		}
		r := ask(s, c.method, c.path, c.body, headers...)
		if b := string(all(t, r)); r.StatusCode != c.status || !strings.Contains(b, c.says) {
			t.Errorf("%s %s: %s %s, want %d with %s", c.method, c.path, r.Status, b, c.status,
				c.says)
		}
	}
	left, err := os.ReadDir(filepath.Join(folder, "m"))
	if len(left) != 2 || err != nil {
		t.Errorf("left %v (%v)", left, err)
	}
}

// TestPushNowhere: a server without a folder takes no versions.
func TestPushNowhere(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	if r := ask(s, "PUT", "/v1/models/digits", digits.Model); r.StatusCode !=
		http.StatusNotImplemented {
		t.Errorf("%s %s", r.Status, all(t, r))
	}
}

// TestUnloadAnswers: requests that an unloaded version has taken are answered, and it holds its
// memory until then.
func TestUnloadAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
		s := begin(t, Options{}, held("hold", entered, leave, nil))
		var answers []<-chan *http.Response
		for range 2 {
			c := make(chan *http.Response, 1)
			answers = append(answers, c)
			go func() { c <- ask(s, "POST", "/v2/models/hold/infer", []byte(holdBody)) }()
		}
		<-entered
		synctest.Wait()
		if err := s.UnloadModel(t.Context(), "hold", nil); err != nil {
			t.Fatal(err)
		}
		if got := lines(s); !slices.Equal(got, []string{"hold/1 UNLOADING"}) {
			t.Errorf("index %v", got)
		}
		if r := ask(s, "POST", "/v2/models/hold/infer", []byte(holdBody)); r.StatusCode != 503 {
			t.Errorf("a request after it: %s", r.Status)
		}
		leave <- struct{}{}
		leave <- struct{}{}
		for _, c := range answers {
			if r := <-c; r.StatusCode != 200 {
				t.Errorf("a request before it: %s %s", r.Status, all(t, r))
			}
		}
		synctest.Wait()
		if got := lines(s); !slices.Equal(got, []string{"hold/1 UNAVAILABLE: unloaded"}) {
			t.Errorf("index %v", got)
		}
		if now := s.Status(); now.Promised > 0 || now.Held > 0 || len(now.Jobs) > 0 {
			t.Errorf("promised %v, held %v", now.Promised, now.Held)
		}
		runtime.KeepAlive(s)
	})
}

// TestNoRoom: a model for which there is no memory is refused with what there is and what to do,
// and those that are served go on. Nobody is told to unload others where that would not help.
func TestNoRoom(t *testing.T) {
	for memory, want := range map[weir.Bytes]string{
		weir.MiB: "the device has 1MiB: not enough device memory left, whatever others leave: " +
			"lower its memory",
		8_000_000: "of the device's 7.63MiB (8000000B) are promised: unload a model, or have one " +
			"take less",
	} {
		noRoom(t, memory, want)
	}
}

func noRoom(t *testing.T, memory weir.Bytes, want string) {
	t.Helper()
	from := &shelf{}
	s := begin(t, Options{Catalogue: from, Host: weir.HostOptions{Memory: memory}}, times("m", 1))
	big := written("big", `graph "big" {
	  opset "" 17
	  input %x: float32[1000,1000]
	  %y: float32[1000,1000] = Neg@13 (%x)
	  output %y
	}`)
	from.put("big", big)
	err := s.LoadModel(t.Context(), "big", nil)
	if oip.KindOf(err) != oip.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("no room: %v", err)
	}
	if y, _, err := product(t.Context(), s, "m", ""); y != 1 || err != nil {
		t.Errorf("then the other answers %v (%v)", y, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnloadBesideWatch: a request to unload that meets the end of a model leaves none of its name
// in the index.
func TestUnloadBesideWatch(t *testing.T) {
	from := &shelf{}
	s := begin(t, Options{Catalogue: from})
	seen := s.watching()
	for range 100 {
		one := times("m", 1)
		one.Mark = "a"
		from.put("m", one)
		s.follow(t.Context(), seen)
		from.mu.Lock()
		delete(from.has, "m")
		from.mu.Unlock()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := s.UnloadModel(t.Context(), "m", nil); err != nil &&
					oip.KindOf(err) != oip.NotFound {
					t.Error(err)
				}
			})
		}
		s.follow(t.Context(), seen)
		all.Wait()
		s.background.Wait()
		if got := lines(s); len(got) > 0 {
			t.Fatalf("once it is gone: %q", got)
		}
	}
}
