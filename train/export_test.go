package train

// SetRoom sets Options.Room of a run that is open.
func (r *Run) SetRoom(room func(error) bool) { r.opts.Room = room }
