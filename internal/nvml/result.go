package nvml

import (
	"errors"
	"fmt"
)

// Errors of opening the library; test for them with [errors.Is].
var (
	// ErrNoDriver: no NVIDIA driver on this machine, or none that answers.
	ErrNoDriver = errors.New("no NVIDIA driver")
	// ErrNotBuilt: this program was built without GPU support.
	ErrNotBuilt = errors.New("built without GPU support")
)

// PathVariable names the environment variable that holds the path of the library to open instead of
// the system's.
const PathVariable = "WEIR_NVML"

// Result is what a call of the library returns; every one but [Success] is an error. The numbers
// are those of nvmlReturn_t.
type Result int32

// The results that this package decides by.
const (
	Success          Result = 0
	InvalidArgument  Result = 2
	NotSupported     Result = 3
	NoPermission     Result = 4
	NotFound         Result = 6
	InsufficientSize Result = 7
	DriverNotLoaded  Result = 9
	FunctionNotFound Result = 13
	GPULost          Result = 15
	VersionMismatch  Result = 18
)

var resultText = map[Result]string{
	Success:          "success",
	1:                "not initialized",
	InvalidArgument:  "invalid argument",
	NotSupported:     "not supported",
	NoPermission:     "no permission",
	NotFound:         "not found",
	InsufficientSize: "insufficient size",
	8:                "power cables not attached",
	DriverNotLoaded:  "driver not loaded",
	10:               "timeout",
	11:               "interrupt trouble",
	12:               "library not found",
	FunctionNotFound: "function not in this library",
	14:               "info ROM corrupted",
	GPULost:          "GPU is lost",
	16:               "GPU needs a reset",
	17:               "blocked by the operating system",
	VersionMismatch:  "library and kernel driver differ in version",
	19:               "in use",
	20:               "out of memory",
	999:              "unknown error",
}

// Error implements error.
func (r Result) Error() string {
	if text, ok := resultText[r]; ok {
		return "nvml: " + text
	}
	return fmt.Sprintf("nvml: error %d", int32(r))
}

// err returns the result as an error, nil for Success.
func (r Result) err() error {
	if r == Success {
		return nil
	}
	return r
}
