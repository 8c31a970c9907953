package far

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
)

// TestBusInOrder: copies take the bus in the order in which they come, one that comes when it is
// free at once, and one of a few bytes too, which delays those that come later.
func TestBusInOrder(t *testing.T) {
	b := bus{of: device.Bus{BytesPerS: 1e9, PerTransfer: time.Millisecond}}
	begin := time.Now()
	for _, c := range []struct {
		come  time.Duration
		bytes int
		end   time.Duration
	}{
		{0, 9e6, 10 * time.Millisecond},
		{2 * time.Millisecond, 0, 3 * time.Millisecond},
		{3 * time.Millisecond, 1e6, 13 * time.Millisecond},
		{20 * time.Millisecond, 4e6, 25 * time.Millisecond},
	} {
		if end := b.take(begin.Add(c.come), c.bytes).Sub(begin); end != c.end {
			t.Errorf("%d bytes that come after %v end after %v, want %v", c.bytes, c.come, end,
				c.end)
		}
	}
}
