package admit

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is the urgency of requests: a class across models, and a priority within one. Both are
// offsets to the tag that fair.go gives, in virtual time, so that less urgent work is later by a
// bounded amount and its turn comes.

// DefaultPatience is the patience of a [Control] whose options name none.
const DefaultPatience = 10 * time.Second

// ranks order the classes.
var ranks = [...]time.Duration{share.Latency: 0, share.Standard: 1, share.Opportunistic: 2}

// level returns the offset of a request: a patience for each class before it, and less than one for
// its priority within the model.
func (c *Control) level(m *model, priority int) time.Duration {
	if priority < 1 || priority > m.Levels {
		priority = m.Default
	}
	return ranks[m.Class]*c.patience + c.patience/time.Duration(m.Levels)*time.Duration(priority-1)
}
