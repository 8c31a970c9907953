package pass

import (
	"testing"

	"github.com/weirgpu/weir/graph"
)

func TestRoomBoundsFolding(t *testing.T) {
	g, err := graph.Parse(`graph "g" {
		opset "" 17
		const %s: int64[1] = {1024}
		%y: float32[1024] = ConstantOfShape@17 (%s)
		output %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	o, err := g.Nodes[0].Op()
	if err != nil {
		t.Fatal(err)
	}
	for room, want := range map[int]bool{4096: true, 4088: true, 4087: false, 0: false} {
		if got := (&scope{room: &room}).worthFolding(o, g.Nodes[0]); got != want {
			t.Errorf("4,096 bytes from 8 with room for %d: %v, want %v", room, got, want)
		}
	}
}
