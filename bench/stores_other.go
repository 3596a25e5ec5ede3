//go:build !linux

package main

import "errors"

func (b *bench) stores() error { return errors.New("the stores are compared on Linux only") }
