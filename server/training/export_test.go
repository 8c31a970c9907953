package training

import "time"

// SetLookAgain has trainings ask for memory, and for room on the disk, again after so long, until
// the function that is returned is called.
func SetLookAgain(after time.Duration) (reset func()) {
	was := lookAgain
	lookAgain = after
	return func() { lookAgain = was }
}
