package training

import "time"

// LookAgain has trainings ask for memory, and for room on the disk, again after so long.
func LookAgain(after time.Duration) { lookAgain = after }
