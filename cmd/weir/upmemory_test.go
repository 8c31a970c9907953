package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/server/config"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
)

// TestUpMemory: twenty models of weir model new in memory for four are all served without an error,
// each with its own answer whenever it comes back, and the page has those that are away.
func TestUpMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 270 MB of models")
	}
	folder := t.TempDir()
	t.Setenv("WEIR_CACHE", t.TempDir())
	for n := range 20 {
		path := filepath.Join(folder, fmt.Sprint("m", n), "1", "model.onnx")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if code := execute(t.Context(), []string{"model", "new", "mobilenetv2", path, "--seed",
			fmt.Sprint(n)}, nil, io.Discard, t.Output()); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	printed, end := up(t, "--models", folder, "--memory", "100MiB")
	line, _ := printed.ReadString('\n')
	url := strings.TrimSuffix(line, "/ is the page\n")
	for !strings.HasPrefix(line, "curl ") {
		var err error
		if line, err = printed.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	pixels := make([]float32, 3*224*224)
	for i := range pixels {
		pixels[i] = float32(i%13) / 13
	}
	head := fmt.Sprintf(`{"inputs":[{"name":"input","datatype":"FP32","shape":[1,3,224,224],`+
		`"parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`,
		4*len(pixels))
	body := append([]byte(head), tensor.Bytes(pixels)...)
	var mu sync.Mutex
	answers := map[string]bool{}
	var wait sync.WaitGroup
	for k := range 2 {
		wait.Go(func() {
			for n := range 40 {
				name := fmt.Sprint("m", (n*(2*k+1))%20)
				r, _ := http.NewRequest("POST", url+"/v2/models/"+name+"/infer",
					bytes.NewReader(body))
				r.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(head)))
				got, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(got.Body)
				got.Body.Close()
				if err != nil || got.StatusCode != http.StatusOK {
					t.Errorf("%s: %s %.200s (%v)", name, got.Status, b, err)
				}
				mu.Lock()
				answers[string(b)] = true
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(answers) != 20 {
		t.Errorf("%d answers of 20 models", len(answers))
	}
	var state struct {
		Devices []struct {
			Memory   int64 `json:"memory_bytes"`
			Promised int64 `json:"promised_bytes"`
		} `json:"devices"`
		Models []struct {
			Where string `json:"where"`
		} `json:"models"`
	}
	if err := json.Unmarshal([]byte(read(t, url+"/v1/state")), &state); err != nil {
		t.Fatal(err)
	}
	away := 0
	for _, m := range state.Models {
		if m.Where == "away" {
			away++
		}
	}
	if away < 12 || state.Devices[0].Memory != 100<<20 {
		t.Errorf("%d models are away of %+v", away, state.Devices)
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestUpKeeps: what models keep means something only where memory is given up, and the flag is a
// size above 0.
func TestUpKeeps(t *testing.T) {
	f := upFile{path: "weir.yaml", file: &config.File{Models: []config.Model{{Name: "a",
		Share: share.Share{Keep: 1}}}}}
	if err := f.keeps(0); err == nil || !strings.Contains(err.Error(), "device.memory") {
		t.Errorf("without memory: %v", err)
	}
	if err := f.keeps(1); err != nil {
		t.Error(err)
	}
	var b byteSize
	for text, want := range map[string]string{"2GiB": "2GiB", "0": "", "-1": "", "x": ""} {
		if err := b.Set(text); (err == nil) != (want != "") || err == nil && b.String() != want {
			t.Errorf("%s: %v, %v", text, b.String(), err)
		}
	}
}
