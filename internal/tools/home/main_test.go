package home_test

import (
	"testing"

	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
