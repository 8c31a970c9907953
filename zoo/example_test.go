package zoo_test

import (
	"fmt"

	"github.com/weirgpu/weir/zoo"
)

func ExampleNew() {
	g, err := zoo.New("bert-base", zoo.Options{Seed: 1, Layers: 2, Hidden: 128, Vocabulary: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Output("last_hidden_state").Type, len(g.Nodes), "nodes", zoo.Parameters(g),
		"parameters")
	// Output: float32[batch,sequence,128] 182 nodes 607104 parameters
}
