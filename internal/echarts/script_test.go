package echarts

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// TestScript: what is carried is what the authors published.
func TestScript(t *testing.T) {
	sum := sha256.Sum256([]byte(Script()))
	const want = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("the library's SHA-256 is %s, want %s", got, want)
	}
}
