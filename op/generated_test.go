package op_test

import (
	"testing"

	"github.com/weirgpu/weir/internal/generated"
)

// TestGenerated holds that op.go is what internal/op exports for those who write operators.
func TestGenerated(t *testing.T) { generated.Current(t) }
