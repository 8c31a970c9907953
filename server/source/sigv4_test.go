package source

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSign: requests are signed as Amazon's examples are (Amazon S3 API Reference, "Examples:
// Signature Calculations in AWS Signature Version 4").
func TestSign(t *testing.T) {
	k := &keys{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for path, want := range map[string]string{
		"test.txt":             "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
		"?lifecycle":           "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		"?max-keys=2&prefix=J": "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
	} {
		r, err := http.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "test.txt" {
			r.Header.Set("Range", "bytes=0-9")
		}
		k.sign(r, "us-east-1", empty, at)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestEscaped: all but the unreserved characters are escaped, and slashes of paths are not.
func TestEscaped(t *testing.T) {
	for in, want := range map[string]string{"a b/c": "a%20b/c", "ü": "%C3%BC", "~-._": "~-._",
		"+&=": "%2B%26%3D"} {
		if got := escaped(in, true); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := escaped("a/b", false); got != "a%2Fb" {
		t.Error(got)
	}
}
