package oip

import "fmt"

// Region is a part of memory that a client shares with the server, in which it has an input or
// wants an output (Triton, extension_shared_memory.md).
type Region struct {
	Name         string // under which it was registered
	Offset, Size int64  // in bytes, neither negative
}

// parameters say where an output was put, as Triton does.
func (r *Region) parameters() Parameters {
	p := Parameters{"shared_memory_region": r.Name, "shared_memory_byte_size": r.Size}
	if r.Offset != 0 {
		p["shared_memory_offset"] = r.Offset
	}
	return p
}

// regionOf reads what parameters say of a region; nil where they say nothing.
func regionOf(p Parameters) (*Region, error) {
	const region, offset, size = "shared_memory_region", "shared_memory_offset",
		"shared_memory_byte_size"
	v, given := p[region]
	if !given {
		for _, key := range []string{offset, size} {
			if _, given := p[key]; given {
				return nil, fmt.Errorf("%w: %s is given without %s", ErrRequest, key, region)
			}
		}
		return nil, nil
	}
	var r Region
	var ok bool
	if r.Name, ok = v.(string); !ok || r.Name == "" {
		return nil, fmt.Errorf("%w: %s is %.200v: give a name", ErrRequest, region, v)
	}
	if r.Size, ok = p[size].(int64); !ok || r.Size < 0 {
		return nil, fmt.Errorf("%w: %s must be given with %s, as a number of bytes", ErrRequest,
			size, region)
	}
	if v, given := p[offset]; given {
		if r.Offset, ok = v.(int64); !ok || r.Offset < 0 {
			return nil, fmt.Errorf("%w: %s is %.40v: give a number of bytes", ErrRequest, offset, v)
		}
	}
	return &r, nil
}
