package gemm

import (
	"testing"

	"github.com/weirgpu/weir/internal/generated"
)

func TestGeneratedFilesAreCurrent(t *testing.T) { generated.Current(t) }
