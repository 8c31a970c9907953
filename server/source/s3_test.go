package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// bucket is a store with one bucket, for faults that a real one does not have on demand. That real
// ones are understood, TestStores shows.
type bucket struct {
	mu     sync.Mutex
	files  map[string]string
	page   int                                                // keys of a page; 0: all
	before func(w http.ResponseWriter, key string) (end bool) // of each object, where it is not nil
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := strings.CutPrefix(r.URL.Path, "/shelf/")
	switch {
	case !ok:
		http.Error(w, "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>", 404)
	case key == "":
		b.list(w, r)
	case b.before != nil && b.before(w, key):
	case b.files[key] == "":
		http.Error(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", 404)
	case r.Header.Get("If-Match") != tag(b.files[key]):
		http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>",
			http.StatusPreconditionFailed)
	default:
		sum := sha256.Sum256([]byte(b.files[key]))
		w.Header().Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
		_, _ = io.WriteString(w, b.files[key])
	}
}

func tag(text string) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(text))))
}

func (b *bucket) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var keys []string
	folders := map[string]bool{}
	for key := range b.files {
		rest, ok := strings.CutPrefix(key, q.Get("prefix"))
		if !ok || key <= q.Get("continuation-token") {
			continue
		}
		if folder, _, deeper := strings.Cut(rest, "/"); deeper && q.Get("delimiter") == "/" {
			folders[q.Get("prefix")+folder+"/"] = true
			continue
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	fmt.Fprint(w, xml.Header, `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	if b.page > 0 && len(keys) > b.page {
		keys = keys[:b.page]
		fmt.Fprintf(w, "<IsTruncated>true</IsTruncated><NextContinuationToken>%s"+
			"</NextContinuationToken>", keys[b.page-1])
	}
	for _, k := range keys {
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><ETag>%s</ETag></Contents>",
			escapedXML(k), len(b.files[k]), strings.ReplaceAll(tag(b.files[k]), `"`, "&quot;"))
	}
	for f := range folders {
		fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", escapedXML(f))
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

func escapedXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

// shelf serves a bucket, and returns how it is asked.
func shelf(t *testing.T, b *bucket) Remote {
	t.Helper()
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	r, err := Parse("s3://shelf/our models", func(name string) string {
		return map[string]string{"AWS_ENDPOINT_URL": s.URL}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// files are those of two models.
func files() map[string]string {
	return map[string]string{"our models/a/1/model.onnx": "one", "our models/a/2/model.onnx": "two",
		"our models/a/config.pbtxt": "max_batch_size: 4", "our models/a/2/": "",
		"our models/b+c/1/model.onnx": "three", "our models/readme": "text", "other/x/1": "no"}
}

// TestLists: all pages of a bucket are read, with names that are escaped in it.
func TestLists(t *testing.T) {
	b := &bucket{files: files(), page: 1}
	r := shelf(t, b)
	names, err := r.Names(t.Context())
	if err != nil || !slices.Equal(names, []string{"a", "b+c"}) {
		t.Errorf("%q, %v", names, err)
	}
	list, err := r.Files(t.Context(), "a")
	var paths []string
	for _, f := range list {
		paths = append(paths, f.Path)
	}
	want := []string{"1/model.onnx", "2/model.onnx", "config.pbtxt"}
	if err != nil || !slices.Equal(paths, want) {
		t.Errorf("%q, %v", paths, err)
	}
	if _, err := r.Files(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	list, err = r.Files(t.Context(), "b+c")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if text, err := read(t.Context(), r, &list[0]); text != "three" || err != nil {
		t.Error(text, err)
	}
}

func read(ctx context.Context, r Remote, f *File) (string, error) {
	body, err := r.Open(ctx, f)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

// TestContent: what comes and is not what was announced is an error.
func TestContent(t *testing.T) {
	b := &bucket{files: files()}
	r := shelf(t, b)
	list, err := r.Files(t.Context(), "b+c")
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]func(w http.ResponseWriter, _ string) bool{
		"shorter": func(w http.ResponseWriter, _ string) bool {
			_, _ = io.WriteString(w, "thr")
			return true
		},
		"longer": func(w http.ResponseWriter, _ string) bool {
			_, _ = io.WriteString(w, "threee")
			return true
		},
		"another digest": func(w http.ResponseWriter, _ string) bool {
			w.Header().Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(
				bytes.Repeat([]byte{1}, 32)))
			_, _ = io.WriteString(w, "three")
			return true
		},
		"changed meanwhile": func(http.ResponseWriter, string) bool {
			b.files["our models/b+c/1/model.onnx"] = "thr33"
			return false
		},
	} {
		b.before = before
		if text, err := read(t.Context(), r, &list[0]); !errors.Is(err, ErrContent) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestNoTags: files of a store without tags, or with weak ones, come, and not again while they are
// as they were.
func TestNoTags(t *testing.T) {
	for tag, match := range map[string]string{"": "", `W/"a"`: "", `"a"`: `"a"`} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".onnx") {
				asked++
				if got := strings.Join(r.Header["If-Match"], ","); got != match {
					t.Errorf("%s: If-Match is %q", tag, got)
				}
				_, _ = io.WriteString(w, "one")
				return
			}
			fmt.Fprintf(w, "<ListBucketResult>"+
				"<CommonPrefixes><Prefix>m/</Prefix></CommonPrefixes><Contents>"+
				"<Key>m/1/model.onnx</Key><Size>3</Size><ETag>%s</ETag>"+
				"<LastModified>2026-11-28T00:00:00Z</LastModified></Contents>"+
				"</ListBucketResult>", escapedXML(tag))
		}))
		r, err := Parse("s3://shelf", func(name string) string {
			return map[string]string{"AWS_ENDPOINT_URL": s.URL}[name]
		})
		if err != nil {
			t.Fatal(err)
		}
		m := mirror(t, t.TempDir(), r)
		for range 2 {
			if err := m.Bring(t.Context(), ""); err != nil {
				t.Errorf("%s: %v", tag, err)
			}
		}
		if asked != 1 {
			t.Errorf("%s: the file was asked for %d times", tag, asked)
		}
		s.Close()
	}
}

// TestAnswers: what a store refuses is said with its words and with what helps.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		head   string
		body   string
		want   string
	}{
		"keys": {403, "", "<Error><Code>AccessDenied</Code></Error>", "set AWS_ACCESS_KEY_ID"},
		"region": {301, "eu-west-3", "<Error><Code>PermanentRedirect</Code></Error>",
			"region eu-west-3"},
		"no XML":  {200, "", "{}", "not laid out"},
		"no list": {200, "", "<Other></Other>", "no ListBucketResult"},
		"cut off": {200, "", "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
			"cut off"},
		"deep": {200, "", strings.Repeat("<a>", 100), "without end"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.head != "" {
				w.Header().Set("X-Amz-Bucket-Region", c.head)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		r, err := Parse("s3://shelf", func(name string) string {
			return map[string]string{"AWS_ENDPOINT_URL_S3": s.URL}[name]
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Names(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
}

// TestAddresses: addresses are read whole or refused, and say where they lead.
func TestAddresses(t *testing.T) {
	none := func(string) string { return "" }
	for address, want := range map[string]string{
		"s3://models":          "https://models.s3.us-east-1.amazonaws.com/",
		"s3://our.models/a/b/": "https://s3.us-east-1.amazonaws.com/our.models/",
	} {
		r, err := Parse(address, none)
		if err != nil || r.(*s3).base.String() != want || r.String() != address {
			t.Errorf("%s: %v, %v", address, r, err)
		}
	}
	for _, address := range []string{"", "ftp://x/y", "s3://", "s3://UP", "s3://a..b", "s3:///x",
		"oci://", "oci://host", "oci://host/UPPER", "oci://host/a:", "oci://host/a@sha256:1"} {
		if _, err := Parse(address, none); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "x", "AWS_ENDPOINT_URL": "ftp://x"} {
		_, err := Parse("s3://a", func(n string) string { return map[string]string{name: value}[n] })
		if !errors.Is(err, ErrAddress) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// FuzzList: whatever a store answers is read or refused.
func FuzzList(f *testing.F) {
	f.Add([]byte("<ListBucketResult><Contents><Key>a%2Fb</Key><Size>1</Size></Contents>" +
		"</ListBucketResult>"))
	f.Add([]byte("<ListBucketResult><IsTruncated>true</IsTruncated><CommonPrefixes><Prefix>%"))
	f.Add([]byte("<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;</ListBucketResult>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readPage(bytes.NewReader(text))
		if err == nil && len(p.keys)*len("<Contents/>") > len(text) {
			t.Errorf("%d keys of %d bytes", len(p.keys), len(text))
		}
		_, _ = readError(bytes.NewReader(text))
	})
}
