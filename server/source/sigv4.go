package source

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// keys are those of an account of a store.
type keys struct {
	id, secret string
	session    string // of keys that are lent; "" of others
}

// unsigned stands for the digest of a body that TLS guards, or that is not there (Amazon S3, API
// Reference, Authenticating Requests: x-amz-content-sha256).
const unsigned = "UNSIGNED-PAYLOAD"

// sign signs a request for a store of a region (AWS Signature Version 4, header form). Its URL's
// path is as [escaped] writes it.
func (k *keys) sign(r *http.Request, region, body string, now time.Time) {
	now = now.UTC()
	stamp, day := now.Format("20060102T150405Z"), now.Format("20060102")
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", body)
	if k.session != "" {
		r.Header.Set("X-Amz-Security-Token", k.session)
	}
	names, text := k.headers(r)
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), query(r.URL.Query()), text,
		names, body}, "\n")
	scope := strings.Join([]string{day, region, "s3", "aws4_request"}, "/")
	sum := sha256.Sum256([]byte(canonical))
	said := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(sum[:])},
		"\n")
	key := []byte("AWS4" + k.secret)
	for _, part := range []string{day, region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.id+"/"+scope+
		",SignedHeaders="+names+",Signature="+hex.EncodeToString(mac(key, said)))
}

// headers are the names of those that are signed, and their lines.
func (k *keys) headers(r *http.Request) (names, lines string) {
	values := map[string]string{"host": r.URL.Host}
	list := []string{"host"}
	for name, v := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") || lower == "range" {
			values[lower] = strings.Join(v, ",")
			list = append(list, lower)
		}
	}
	slices.Sort(list)
	for _, name := range list {
		lines += name + ":" + strings.TrimSpace(values[name]) + "\n"
	}
	return strings.Join(list, ";"), lines
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// query writes parameters in the order of their names.
func query(q url.Values) string {
	var list []string
	for name, values := range q {
		for _, v := range values {
			list = append(list, escaped(name, false)+"="+escaped(v, false))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "&")
}

// escaped writes text with all but the unreserved characters of RFC 3986 as percent and two
// capital digits; of a path the slashes stay.
func escaped(text string, path bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~", c) >= 0, path && c == '/':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
