package sqlite

import (
	"context"
	"fmt"
	"testing"

	"steward/internal/fault"
)

// A cancelled context says nothing about the database.
func TestACancelledContextIsNoBrokenDatabase(t *testing.T) {
	for cause, kind := range map[error]fault.Kind{context.Canceled: fault.Cancelled, context.DeadlineExceeded: fault.Timeout} {
		if err := broken("x.db", fmt.Errorf("reading: %w", cause)); !fault.Is(err, kind) || fault.HasCode(err, "store_broken") {
			t.Errorf("%v: %v", cause, err)
		}
	}
	if err := broken("x.db", fmt.Errorf("odd")); !fault.HasCode(err, "store_broken") {
		t.Error(err)
	}
}
