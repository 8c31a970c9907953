//go:build !unix

package main

import "os"

func catchSignals() func(*os.Process) { return func(*os.Process) {} }

func exitCode(s *os.ProcessState) int { return s.ExitCode() }
