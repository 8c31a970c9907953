package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// s3 is a folder of models in a bucket of a store that speaks Amazon's S3 (ListObjectsV2,
// GetObject). Where it is, and with whose keys, the variables say that Amazon's own tools read:
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. Without keys requests are not signed, as public
// buckets have it.
type s3 struct {
	address string
	base    url.URL // of the bucket, with a slash at its end
	prefix  string  // "" or with a slash at its end
	region  string
	keys    *keys // nil without
	http    *http.Client
	now     func() time.Time
}

func parseS3(address, rest string, env func(string) string) (Remote, error) {
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	if bucket == "" || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" ||
		strings.Contains(bucket, "..") {
		return nil, fmt.Errorf("%w: %.200q: the bucket's name has small letters, digits, points "+
			"and hyphens: s3://BUCKET[/PREFIX]", ErrAddress, address)
	}
	if prefix != "" {
		prefix += "/"
	}
	s := &s3{address: address, prefix: prefix, now: time.Now,
		region: cmp.Or(env("AWS_REGION"), env("AWS_DEFAULT_REGION"), "us-east-1")}
	endpoint := cmp.Or(env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"))
	if err := s.at(bucket, endpoint); err != nil {
		return nil, err
	}
	id, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")
	if (id == "") != (secret == "") {
		return nil, fmt.Errorf("%w: %s: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: set both",
			ErrAddress, address)
	}
	if id != "" {
		s.keys = &keys{id, secret, env("AWS_SESSION_TOKEN")}
	}
	s.http = client(s.base.Hostname())
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // whose signature would not hold there
	}
	return s, nil
}

// at says where the bucket is: of Amazon's, whose names have no points, a host of its own.
func (s *s3) at(bucket, endpoint string) error {
	if endpoint == "" {
		s.base = url.URL{Scheme: "https", Host: "s3." + s.region + ".amazonaws.com", Path: "/"}
		if strings.ContainsAny(bucket, "._") {
			s.base.Path += bucket + "/"
		} else {
			s.base.Host = bucket + "." + s.base.Host
		}
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" {
		return fmt.Errorf("%w: AWS_ENDPOINT_URL %.200q: give http:// or https:// and a host",
			ErrAddress, endpoint)
	}
	s.base = url.URL{Scheme: u.Scheme, Host: u.Host,
		Path: strings.TrimSuffix(u.Path, "/") + "/" + bucket + "/"}
	return nil
}

func (s *s3) String() string { return s.address }

// page is a ListBucketResult.
type page struct {
	keys     []object
	prefixes []string
	next     string // "" of the last
}

type object struct{ key, size, tag, time string }

// Names implements [Remote].
func (s *s3) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := s.list(ctx, url.Values{"prefix": {s.prefix}, "delimiter": {"/"}}, func(p *page) error {
		for _, folder := range p.prefixes {
			name, ok := strings.CutPrefix(strings.TrimSuffix(folder, "/"), s.prefix)
			if ok && local(name) {
				names = append(names, name)
			}
		}
		if len(names) > mostModels {
			return fmt.Errorf("%w: more than %d models", ErrLayout, mostModels)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// Files implements [Remote].
func (s *s3) Files(ctx context.Context, model string) ([]File, error) {
	own := s.prefix + model + "/"
	var list []File
	err := s.list(ctx, url.Values{"prefix": {own}}, func(p *page) error {
		for _, o := range p.keys {
			at, _ := strings.CutPrefix(o.key, own)
			if at == "" || strings.HasSuffix(at, "/") {
				continue // a folder, as consoles make them
			}
			size, err := strconv.ParseInt(o.size, 10, 64)
			if err != nil || size < 0 || !local(at) || !strings.HasPrefix(o.key, own) {
				return fmt.Errorf("%s: %w: %.200q (%.20s bytes) is no file of a model",
					s.address, ErrLayout, o.key, o.size)
			}
			f := File{Path: at, Size: size, Mark: cmp.Or(o.tag, o.time), key: o.key}
			if !strings.HasPrefix(o.tag, "W/") { // which If-Match never finds (RFC 9110, 13.1.1)
				f.tag = o.tag
			}
			list = append(list, f)
		}
		if len(list) > mostFiles {
			return fmt.Errorf("%s: %w: more than %d files", s.address, ErrLayout, mostFiles)
		}
		return nil
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: model %.200q: %w", s.address, model, fs.ErrNotExist)
	}
	return list, err
}

// list asks for all pages of a list. Keys are asked for as they are: stores do not agree on how a
// plus is written with encoding-type=url, and what XML cannot hold is no name of a file of a model.
func (s *s3) list(ctx context.Context, q url.Values, each func(*page) error) error {
	q.Set("list-type", "2")
	for range mostPages {
		body, _, err := s.get(ctx, "", q, nil)
		if err != nil {
			return err
		}
		p, err := readPage(body)
		_ = body.Close()
		if err != nil {
			return fmt.Errorf("%s: %w: %w", s.address, ErrLayout, err)
		}
		if err := each(p); err != nil || p.next == "" {
			return err
		}
		if p.next == q.Get("continuation-token") {
			return fmt.Errorf("%s: %w: the list goes round", s.address, ErrLayout)
		}
		q.Set("continuation-token", p.next)
	}
	return fmt.Errorf("%s: %w: a list of more than %d pages", s.address, ErrLayout, mostPages)
}

// Open implements [Remote]. The object must be the one of the list, and where the store knows its
// SHA-256 the content is held against that.
func (s *s3) Open(ctx context.Context, f *File) (io.ReadCloser, error) {
	asks := http.Header{"X-Amz-Checksum-Mode": {"ENABLED"}}
	if f.tag != "" {
		asks.Set("If-Match", f.tag)
	}
	body, h, err := s.get(ctx, f.key, nil, asks)
	if err != nil {
		return nil, err
	}
	whole := &sized{body, s.address + ": " + f.Path, f.Size}
	want, err := base64.StdEncoding.DecodeString(h.Get("X-Amz-Checksum-Sha256"))
	if err != nil || len(want) != sha256.Size || h.Get("X-Amz-Checksum-Type") == "COMPOSITE" {
		return whole, nil // there is none, or it is one of digests of parts
	}
	return &summed{whole, sha256.New(), string(want)}, nil
}

// summed is a body that is held against a digest at its end.
type summed struct {
	io.ReadCloser
	sum  hash.Hash
	want string
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.sum.Write(p[:n])
	if err == io.EOF && string(s.sum.Sum(nil)) != s.want {
		return n, fmt.Errorf("%w: its SHA-256 is another", ErrContent)
	}
	return n, err
}

// get asks for an object, or with an empty key for the bucket.
func (s *s3) get(ctx context.Context, key string, q url.Values, h http.Header) (io.ReadCloser,
	http.Header, error) {
	r, err := s.request(ctx, http.MethodGet, key, q, h)
	if err != nil {
		return nil, nil, err
	}
	answer, err := s.http.Do(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.address, unsaid{err})
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, nil, s.refused(answer, key)
	}
	return answer.Body, answer.Header, nil
}

// request is one, signed where there are keys.
func (s *s3) request(ctx context.Context, method, key string, q url.Values,
	h http.Header) (*http.Request, error) {
	u := s.base
	u.Path += key
	u.RawPath = escaped(u.Path, true)
	u.RawQuery = query(q)
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, v := range h {
		r.Header[name] = v
	}
	if s.keys != nil {
		s.keys.sign(r, s.region, unsigned, s.now())
	}
	return r, nil
}

// refused is what a store answers that gives nothing.
func (s *s3) refused(r *http.Response, key string) error {
	code, text := readError(io.LimitReader(r.Body, 64<<10))
	err := fmt.Errorf("%s: %.200s: status %d %s %.300s", s.address, key, r.StatusCode, code, text)
	switch {
	case code == "NoSuchKey" || code == "NoSuchBucket":
		err = fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	case r.StatusCode == http.StatusPreconditionFailed:
		err = fmt.Errorf("%w: %w: it has changed meanwhile", err, ErrContent)
	case r.Header.Get("X-Amz-Bucket-Region") != "":
		err = fmt.Errorf("%w: the bucket is in region %.40s: set AWS_REGION", err,
			r.Header.Get("X-Amz-Bucket-Region"))
	case r.StatusCode == http.StatusForbidden && s.keys == nil:
		err = fmt.Errorf("%w: there are no keys: set AWS_ACCESS_KEY_ID and "+
			"AWS_SECRET_ACCESS_KEY", err)
	}
	return err
}

// mostPage is how long a page of a list may be: 1,000 keys of 1,024 bytes, with what XML escapes.
const mostPage = 8 << 20

// readPage reads a ListBucketResult by its tokens.
func readPage(r io.Reader) (*page, error) {
	p := &page{}
	seen := false
	var o object
	truncated := false
	err := elements(io.LimitReader(r, mostPage), func(path, text string) error {
		switch path {
		case "ListBucketResult":
			seen = true
		case "ListBucketResult/Contents/Key":
			o.key = text
		case "ListBucketResult/Contents/Size":
			o.size = text
		case "ListBucketResult/Contents/ETag":
			o.tag = text
		case "ListBucketResult/Contents/LastModified":
			o.time = text
		case "ListBucketResult/Contents":
			p.keys = append(p.keys, o)
			o = object{}
		case "ListBucketResult/CommonPrefixes/Prefix":
			p.prefixes = append(p.prefixes, text)
		case "ListBucketResult/NextContinuationToken":
			p.next = text
		case "ListBucketResult/IsTruncated":
			truncated = text == "true"
		}
		return nil
	})
	switch {
	case err == nil && !seen:
		err = errors.New("it is no ListBucketResult")
	case err == nil && truncated && p.next == "":
		err = errors.New("a list is cut off, and says not where it goes on")
	}
	if !truncated {
		p.next = ""
	}
	return p, err
}

// readError reads what a store says of an error.
func readError(r io.Reader) (code, text string) {
	_ = elements(r, func(path, s string) error {
		switch path {
		case "Error/Code":
			code = s
		case "Error/Message":
			text = s
		}
		return nil
	})
	return code, text
}

// elements calls f at the end of each element, with the names that lead to it and the text that it
// begins with.
func elements(r io.Reader, f func(path, text string) error) error {
	d := xml.NewDecoder(r)
	var path []string
	var text strings.Builder
	for {
		t, err := d.Token()
		if err == io.EOF && len(path) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			if len(path) > 16 {
				return errors.New("elements in elements without end")
			}
			text.Reset()
		case xml.CharData:
			text.Write(t)
		case xml.EndElement:
			if err := f(strings.Join(path, "/"), text.String()); err != nil {
				return err
			}
			path = path[:len(path)-1]
			text.Reset()
		}
	}
}
