package server

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/shm"
	"github.com/weirgpu/weir/tensor"
)

// sharedFile makes shared memory of so many bytes, and returns its file and its key.
func sharedFile(t *testing.T, size int) (path, key string) {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "test-server-")
	if err != nil {
		t.Skip("no shared memory here:", err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name(), strings.TrimPrefix(f.Name(), "/dev/shm")
}

// TestSharedMemory: inputs are read from where a client has put them, and outputs are written to
// where it wants them; the endpoints say what is registered.
func TestSharedMemory(t *testing.T) {
	s := begin(t, Options{Memory: "/test-"}, pairSource)
	path, key := sharedFile(t, 64)
	in := append(tensor.From([]int32{1, -2}, 2).Data, oip.AppendBytes(nil,
		tensor.FromStrings([]string{"ab", ""}, 2))...)
	if err := os.WriteFile(path, append(in, make([]byte, 64-len(in))...), 0o600); err != nil {
		t.Fatal(err)
	}
	const region = "/v2/systemsharedmemory/region/r/"
	register := fmt.Sprintf(`{"key":%q,"offset":0,"byte_size":64}`, key)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", region + "register", register, 200, "{}"},
		{"POST", region + "register", register, 400, "already"},
		{"POST", region + "register", `{"key":1}`, 400, "no object"},
		{"GET", "/v2/systemsharedmemory/status", "", 200, `"byte_size":64`},
		{"GET", region + "status", "", 200, `"key":"/test-server-`},
		{"GET", "/v2/systemsharedmemory/region/q/status", "", 404, "Unable to find"},
		{"POST", "/v2/models/pair/infer", `{"inputs":[
			{"name":"x","datatype":"INT32","shape":[2],"parameters":
				{"shared_memory_region":"r","shared_memory_byte_size":8}},
			{"name":"s","datatype":"BYTES","shape":[2],"parameters":
				{"shared_memory_region":"r","shared_memory_byte_size":10,
				"shared_memory_offset":8}}],
			"outputs":[{"name":"y","parameters":{"shared_memory_region":"r",
				"shared_memory_byte_size":8,"shared_memory_offset":32}},
				{"name":"t","parameters":{"shared_memory_region":"r",
				"shared_memory_byte_size":24,"shared_memory_offset":40}}]}`, 200,
			`"shared_memory_byte_size":10`},
		{"POST", region + "unregister", "", 200, "{}"},
		{"POST", "/v2/systemsharedmemory/unregister", "", 200, "{}"},
		{"GET", "/v2/systemsharedmemory/status", "", 200, `[]`},
		{"GET", "/v2/cudasharedmemory/status", "", 200, `[]`},
		{"POST", "/v2/cudasharedmemory/unregister", "", 200, `{}`},
		{"POST", "/v2/cudasharedmemory/region/r/register", "{}", 501, "CUDA"},
	} {
		got := ask(s, c.method, c.path, []byte(c.body))
		if body := all(t, got); got.StatusCode != c.status || !bytes.Contains(body,
			[]byte(c.says)) {
			t.Errorf("%s %s: %d, %s, want %d, %s", c.method, c.path, got.StatusCode, body,
				c.status, c.says)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := tensor.From([]int32{-1, 2}, 2).Data; !bytes.Equal(got[32:40], want) ||
		!bytes.Equal(got[40:50], in[8:18]) {
		t.Errorf("%v", got)
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// TestSharedMemoryRefused: parts that are not there, or not the account's, are refused, before any
// memory is taken for them.
func TestSharedMemoryRefused(t *testing.T) {
	s := begin(t, Options{Memory: "/"}, pairSource)
	path, key := sharedFile(t, 4096)
	ann := auth.With(t.Context(), &auth.Account{Name: "ann"})
	if err := s.RegisterMemory(ann, shm.Info{Name: "r", Key: key, Size: 4096}); err != nil {
		t.Fatal(err)
	}
	words := tensor.FromStrings([]string{"a"}, 1)
	region := func(offset, size int64) *oip.Region {
		return &oip.Region{Name: "r", Offset: offset, Size: size}
	}
	request := func(n int, in, out *oip.Region) *oip.Request {
		r := &oip.Request{Inputs: []oip.Input{{Name: "x", Region: in,
			Tensor: &tensor.Tensor{DType: tensor.Int32, Shape: []int{n}}},
			{Name: "s", Tensor: words}}}
		if out != nil {
			r.Outputs = []oip.Output{{Name: "y", Region: out}}
		}
		return r
	}
	for _, c := range []struct {
		of   *oip.Request
		kind oip.Kind
		says string
	}{
		{request(2, region(4092, 8), nil), oip.Invalid, "Invalid offset + byte size"},
		{request(2, region(1<<62, 1<<62), nil), oip.Invalid, "Invalid offset + byte size"},
		{request(3, region(0, 8), nil), oip.Invalid, "takes 12 bytes"},
		{request(2, region(0, 0), nil), oip.Invalid, "takes 8 bytes"},
		{request(2, &oip.Region{Name: "q", Size: 8}, nil), oip.NotFound, "Unable to find"},
		{request(2, region(0, 8), region(4092, 8)), oip.Invalid, "Invalid offset"},
		{request(2, region(0, 8), region(4092, 4)), oip.Invalid, "has 8 bytes"},
	} {
		_, err := s.Infer(ann, "pair", "", c.of)
		if oip.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v, want %v, %s", err, c.kind, c.says)
		}
	}
	if _, err := s.Infer(t.Context(), "pair", "", request(2, region(0, 8),
		nil)); oip.KindOf(err) != oip.NotFound {
		t.Errorf("of another account: %v", err)
	}
	if err := os.Truncate(path, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Infer(ann, "pair", "", request(2, region(0, 8),
		nil)); oip.KindOf(err) != oip.Invalid {
		t.Errorf("cut off: %v", err)
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	if _, err := New(Options{Memory: "x"}); err == nil {
		t.Error("a prefix without a slash is taken")
	}
}

// TestSharedMemoryTogether: inputs that are small enough each and too large together are refused as
// such, and not for a want of memory that would pass.
func TestSharedMemoryTogether(t *testing.T) {
	s := begin(t, Options{Memory: "/", Bodies: 4096}, pairSource)
	_, key := sharedFile(t, 4096)
	if err := s.RegisterMemory(t.Context(), shm.Info{Name: "r", Key: key, Size: 4096}); err != nil {
		t.Fatal(err)
	}
	r := &oip.Request{}
	for _, name := range []string{"x", "s"} {
		r.Inputs = append(r.Inputs, oip.Input{Name: name,
			Region: &oip.Region{Name: "r", Size: 2400},
			Tensor: &tensor.Tensor{DType: tensor.Int32, Shape: []int{600}}})
	}
	if _, err := s.Infer(t.Context(), "pair", "", r); oip.KindOf(err) != oip.TooLarge {
		t.Error(err)
	}
}

// TestSharedMemoryGrown: text that is read from shared memory takes more than its bytes there, of
// the same bound.
func TestSharedMemoryGrown(t *testing.T) {
	s := begin(t, Options{Memory: "/", Bodies: 8192}, pairSource)
	_, key := sharedFile(t, 4096)
	if err := s.RegisterMemory(t.Context(), shm.Info{Name: "r", Key: key, Size: 4096}); err != nil {
		t.Fatal(err)
	}
	r := &oip.Request{Inputs: []oip.Input{{Name: "s", Region: &oip.Region{Name: "r", Size: 4000},
		Tensor: &tensor.Tensor{DType: tensor.String, Shape: []int{1000}}}}}
	if _, err := s.Infer(t.Context(), "pair", "", r); oip.KindOf(err) != oip.Unavailable {
		t.Error(err)
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held without a request", n)
	}
}

// TestSharedMemoryOff: who does not ask for it has none.
func TestSharedMemoryOff(t *testing.T) {
	s := begin(t, Options{}, pairSource)
	r := &oip.Request{Inputs: []oip.Input{{Name: "x", Region: &oip.Region{Name: "r", Size: 8},
		Tensor: &tensor.Tensor{DType: tensor.Int32, Shape: []int{2}}}}}
	if _, err := s.Infer(t.Context(), "pair", "", r); oip.KindOf(err) != oip.Unsupported {
		t.Error(err)
	}
}

// TestSharedMemoryOverflow: parts that are larger than numbers together are refused: memory that is
// shared may be of any size without being there.
func TestSharedMemoryOverflow(t *testing.T) {
	s := begin(t, Options{Memory: "/"}, pairSource)
	path, key := sharedFile(t, 8)
	if err := os.Truncate(path, math.MaxInt64); err != nil {
		t.Skip("no such file here:", err)
	}
	if err := s.RegisterMemory(t.Context(), shm.Info{Name: "r", Key: key,
		Size: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][]int64{{1 << 62, 1 << 62}, {1 << 62, 1 << 62, 1 << 62, 1 << 62},
		{math.MaxInt64, 8}} {
		r := &oip.Request{}
		for i, size := range sizes {
			r.Inputs = append(r.Inputs, oip.Input{Name: []string{"s", "x", "t", "u"}[i],
				Region: &oip.Region{Name: "r", Size: size},
				Tensor: &tensor.Tensor{DType: tensor.String, Shape: []int{1}}})
		}
		if _, err := s.Infer(t.Context(), "pair", "", r); oip.KindOf(err) != oip.TooLarge {
			t.Errorf("%v: %v", sizes, err)
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
