package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
)

// The servers that models are brought from in TestStores: the registry that CNCF's Distribution
// publishes, and a gateway that speaks S3 before a folder and holds every signature against its
// keys.
const (
	distribution = "github.com/distribution/distribution/v3/cmd/registry@v3.1.2"
	versity      = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
)

// TestStores: real servers are understood: lists, files, digests, accounts, and refusals. It builds
// them first, which takes minutes: with WEIR_LONG only.
func TestStores(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("WEIR_LONG is not set")
	}
	t.Run("registry", testRegistry)
	t.Run("bucket", testBucket)
}

// begin builds a server and starts it, and returns when it answers at an address.
func begin(t *testing.T, pkg, address string, args ...string) {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "install", pkg)
	build.Dir, build.Env = bin, append(os.Environ(), "GOBIN="+bin, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", pkg, err, out)
	}
	name, _, _ := strings.Cut(filepath.Base(strings.Split(pkg, "@")[0]), "@")
	cmd := exec.Command(filepath.Join(bin, name), args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said.Bytes())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = c.Close()
			return
		}
		select { // a server says when it listens in words of its own
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	t.Fatalf("%s does not answer on %s", name, address)
}

// free is an address where nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func testRegistry(t *testing.T) {
	dir, address := t.TempDir(), free(t)
	// the hash is bcrypt's of "open sesame", as htpasswd -B makes it
	lines := map[string]string{
		"htpasswd": "ali:" + hashOfPassword + "\n",
		"config.yml": fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\n"+
			"http: {addr: %q}\nauth: {htpasswd: {realm: r, path: %s}}\nlog: {level: error}\n",
			filepath.Join(dir, "blobs"), address, filepath.Join(dir, "htpasswd")),
		"config.json": fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, address,
			base64.StdEncoding.EncodeToString([]byte("ali:open sesame"))),
	}
	for name, text := range lines {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, distribution, address, "serve", filepath.Join(dir, "config.yml"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	if r, err := Parse("oci://"+address+"/team/net", nil); err != nil {
		t.Fatal(err)
	} else if _, err := r.Names(t.Context()); err == nil {
		t.Error("who has no account reads the registry")
	}
	t.Setenv("DOCKER_CONFIG", dir)
	first := pushTo(t, address, "1", map[string]string{"model.onnx": "one"})
	pushTo(t, address, "2", map[string]string{"model.onnx": "two", "config.pbtxt": "name: 'net'"})
	pushTo(t, address, "odd", map[string]string{"5/model.onnx": "five"})
	for ref, want := range map[string]map[string]string{
		"": {"net/1/model.onnx": "one", "net/2/model.onnx": "two",
			"net/config.pbtxt": "name: 'net'"},
		":odd":      {"net/5/model.onnx": "five"},
		"@" + first: {"net/1/model.onnx": "one"},
	} {
		r, err := Parse("oci://"+address+"/team/net"+ref, nil)
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		if err := mirror(t, folder, r).Bring(t.Context(), ""); err != nil {
			t.Errorf("%q: %v", ref, err)
		}
		if got := lies(t, folder); !maps.Equal(got, want) {
			t.Errorf("%q: %q", ref, got)
		}
	}
}

const hashOfPassword = "$2a$05$O3.G/SeCC6HTTDUGyVjLrud6MiCIJbw8b.Z0TRzYFKLIHAodudBd."

// pushTo puts an artifact into a registry as oras does, and returns its digest.
func pushTo(t *testing.T, address, tag string, files map[string]string) string {
	t.Helper()
	r, err := Parse("oci://"+address+"/team/net:"+tag, nil)
	if err != nil {
		t.Fatal(err)
	}
	repo := r.(*oci).repo
	push := func(to registry.BlobStore, kind, text string) ocispec.Descriptor {
		d := content.NewDescriptorFromBytes(kind, []byte(text))
		if err := to.Push(t.Context(), d, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: "application/onnx",
		Config:       push(repo.Blobs(), ocispec.MediaTypeEmptyJSON, "{}")}
	m.SchemaVersion = 2
	for path, text := range files {
		d := push(repo.Blobs(), "application/octet-stream", text)
		d.Annotations = map[string]string{ocispec.AnnotationTitle: path}
		m.Layers = append(m.Layers, d)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	d := content.NewDescriptorFromBytes(m.MediaType, text)
	body := bytes.NewReader(text)
	if err := repo.Manifests().PushReference(t.Context(), d, body, tag); err != nil {
		t.Fatal(err)
	}
	return string(d.Digest)
}

func testBucket(t *testing.T) {
	dir, address := t.TempDir(), free(t)
	begin(t, versity, address, "--access", "ali", "--secret", "open sesame", "--port", address,
		"posix", "--sidecar", t.TempDir(), dir)
	env := map[string]string{"AWS_ENDPOINT_URL": "http://" + address, "AWS_ACCESS_KEY_ID": "ali",
		"AWS_SECRET_ACCESS_KEY": "open sesame"}
	parse := func() *s3 {
		r, err := Parse("s3://shelf/our models", func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		return r.(*s3)
	}
	s := parse()
	put(t, s, "", "")
	all := map[string]string{"a/config.pbtxt": "max_batch_size: 4", "b+c ü/1/model.onnx": "three"}
	for i := range 1200 { // more than a page has
		all[fmt.Sprintf("a/%d/model.onnx", i+1)] = fmt.Sprint("version ", i)
	}
	for path, text := range all {
		put(t, s, "our models/"+path, text)
	}
	folder := t.TempDir()
	m := mirror(t, folder, s)
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := lies(t, folder); !maps.Equal(got, all) {
		t.Errorf("%d files of %d", len(got), len(all))
	}
	all["a/7/model.onnx"] = "another"
	put(t, s, "our models/a/7/model.onnx", "another")
	list, err := s.Files(t.Context(), "b+c ü")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "our models/b+c ü/1/model.onnx", "new")
	if text, err := read(t.Context(), s, &list[0]); err == nil {
		t.Errorf("%q came in the place of what was listed", text)
	}
	all["b+c ü/1/model.onnx"] = "new"
	if err := m.Bring(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := lies(t, folder); !maps.Equal(got, all) {
		t.Errorf("%d files of %d", len(got), len(all))
	}
	env["AWS_SECRET_ACCESS_KEY"] = "open barley"
	if _, err := parse().Names(t.Context()); err == nil || !strings.Contains(err.Error(),
		"SignatureDoesNotMatch") {
		t.Error(err)
	}
	delete(env, "AWS_SECRET_ACCESS_KEY")
	delete(env, "AWS_ACCESS_KEY_ID")
	if _, err := parse().Names(t.Context()); err == nil || !strings.Contains(err.Error(),
		"set AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
}

// put puts an object into a bucket, or makes the bucket.
func put(t *testing.T, s *s3, key, text string) {
	t.Helper()
	r, err := s.request(t.Context(), http.MethodPut, key, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	answer, err := s.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(s.refused(answer, key))
	}
}
