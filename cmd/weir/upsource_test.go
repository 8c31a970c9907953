package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/server/source"
)

// TestUpFromElsewhere: models of a bucket are served; a version that is put there is served once
// the model is loaded again; what is pushed would be lost, and is refused.
func TestUpFromElsewhere(t *testing.T) {
	model, err := os.ReadFile(filepath.Join(root, "examples", "digits", "digits.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	versions := 1
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/shelf/" {
			_, _ = w.Write(model)
			return
		}
		fmt.Fprint(w, "<ListBucketResult>")
		if r.URL.Query().Get("delimiter") != "" {
			fmt.Fprint(w, "<CommonPrefixes><Prefix>m/mine/</Prefix></CommonPrefixes>")
		}
		for v := range versions {
			fmt.Fprintf(w, "<Contents><Key>m/mine/%d/model.onnx</Key><Size>%d</Size><ETag>x"+
				"</ETag></Contents>", v+1, len(model))
		}
		fmt.Fprint(w, "</ListBucketResult>")
	}))
	defer store.Close()
	t.Setenv("AWS_ENDPOINT_URL", store.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	printed, end := up(t, "--json", "--no-cache", "--models", "s3://shelf/m")
	var at struct {
		HTTP  string
		Ready bool
	}
	if err := json.NewDecoder(printed).Decode(&at); err != nil || !at.Ready {
		t.Fatalf("%+v (%v)", at, err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"ls"}, 0, "mine   1        READY"},
		{[]string{"push", "mine", path}, 1, "brought from elsewhere"},
		{[]string{"load", "mine"}, 0, "model mine is loaded"},
		{[]string{"ls", "--json"}, 0, `"version": "2"`},
		{[]string{"load", "other"}, 1, "failed to load"},
	} {
		var out strings.Builder
		code := execute(t.Context(), append(append([]string{"model"}, c.args...), "--server",
			at.HTTP), nil, &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: %d, %s", c.args, code, &out)
		}
		mu.Lock()
		versions = 2
		mu.Unlock()
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	// without its store, with what was brought
	store.Close()
	for _, how := range [][]string{nil, {"--control", "explicit", "--load", "mine"}} {
		printed, end = up(t, append([]string{"--json", "--no-cache", "--models", "s3://shelf/m"},
			how...)...)
		at.Ready = false
		if err := json.NewDecoder(printed).Decode(&at); err != nil || !at.Ready {
			t.Errorf("%q: %+v (%v)", how, at, err)
		}
		if code := end(); code != 0 {
			t.Errorf("%q: exit code %d", how, code)
		}
	}
}

// TestOthersAreServed: a model that does not come is told at the begin, and is an error of its own
// load later; the others of its place are served as they are there.
func TestOthersAreServed(t *testing.T) {
	lost := fmt.Errorf("%w: model b: no", source.ErrSome)
	down := errors.New("down")
	bring := others(func(_ context.Context, model string) error {
		return map[string]error{"": lost, "b": lost, "c": down}[model]
	})
	ctx := t.Context()
	if bring(ctx, "") != nil || bring(ctx, "b") != lost || bring(ctx, "c") != down {
		t.Error("errors of all models and of one are alike")
	}
	if others(nil) != nil {
		t.Error("models of a folder are brought")
	}
}

// TestUpPlaces: places that do not fit together are refused with what to do.
func TestUpPlaces(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct{ models, says string }{
		{"a,b", "give one folder"},
		{"ftp://x", "give oci://"},
		{"s3://UP", "small letters"},
		{"oci://x", "give oci://"},
	} {
		var out strings.Builder
		code := execute(t.Context(), []string{"up", "--http", "localhost:0", "--grpc", "",
			"--metrics", "", "--models", c.models}, nil, &out, &out)
		if code != 2 || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %d, %s", c.models, code, &out)
		}
	}
}
