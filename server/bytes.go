package server

// Hold takes n bytes of those that bodies and answers may have at once ([Options.Bodies]), for
// whoever reads or sends some by another protocol; [Server.Release] gives them back. The error is
// an *oip.Fault of kind Unavailable, and nothing is held then.
func (s *Server) Hold(n int64) error {
	if all := s.bodies.Add(n); all > s.o.Bodies {
		s.bodies.Add(-n)
		return busy("requests and answers that are sent and wait have %d bytes, of %d that they "+
			"may have: ask again later", all-n, s.o.Bodies)
	}
	return nil
}

// Take is [Server.Hold] of bytes that are there already, whatever the bound.
func (s *Server) Take(n int64) { s.bodies.Add(n) }

// Release gives back n bytes of Hold or Take.
func (s *Server) Release(n int64) { s.bodies.Add(-n) }

// Limits returns the largest body that is taken ([Options.Body]), and the bound of all of them
// ([Options.Bodies]).
func (s *Server) Limits() (body, bodies int64) { return s.o.Body, s.o.Bodies }
