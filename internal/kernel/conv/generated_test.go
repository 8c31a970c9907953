package conv

import (
	"testing"

	"github.com/weirgpu/weir/internal/generated"
)

func TestGeneratedFilesAreCurrent(t *testing.T) { generated.Current(t) }

// TestAssemblyOfTilesDisassembles holds what nhwc16_amd64.s has as bytes against binutils'
// disassembler and the text beside it.
func TestAssemblyOfTilesDisassembles(t *testing.T) {
	generated.Disassembles(t, "nhwc16_amd64.s", 60)
}
