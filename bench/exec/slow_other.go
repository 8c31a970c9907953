//go:build !linux

package main

import "errors"

func slow() (float64, error) {
	return 0, errors.New("no thread ahead of all others: this is not Linux")
}
