//go:build !amd64 || noasm

package conv

// run computes a call by its definition: there are no tiles.
func (c *tiledCall) run() { c.model() }
