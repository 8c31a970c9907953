package process

import (
	"runtime"
	"testing"
	"time"
)

func TestSinceStartGrows(t *testing.T) {
	a := SinceStart()
	if a <= 0 || a > time.Hour {
		t.Fatalf("SinceStart is %v in a test that has just begun", a)
	}
	if b := SinceStart(); b < a {
		t.Errorf("SinceStart went back from %v to %v", a, b)
	}
}

func TestPeakRSSCoversWhatIsTouched(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	const n = 64 << 20
	block := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		block[i] = 1
	}
	if got := PeakRSS(); got < n {
		t.Errorf("PeakRSS is %d after touching %d bytes", got, n)
	}
	runtime.KeepAlive(block)
}
