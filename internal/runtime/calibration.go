package runtime

import (
	"bytes"
	"context"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// calibrationURI is the resource that stores how models count tokens.
func calibrationURI() resource.URI { return resource.Root("llm.Calibration", "all") }

// recallCalibration loads what was learned about how models count tokens and
// about the windows that they named. If it cannot be read, it is learned again.
func (n *turnEngine) recallCalibration(ctx context.Context) error {
	r, err := n.opt.Store.Get(ctx, store.ForNode(resource.System), calibrationURI())
	if fault.Is(err, fault.NotFound) {
		n.calibration, err = n.opt.Models.Learned()
		return err
	}
	if err != nil {
		return err
	}
	if err := n.opt.Models.Recall(r.Body); err != nil {
		n.log.Warn("how models count tokens is learned anew", "error", err)
	}
	n.calibration = r.Body
	return nil
}

// keepCalibration stores what was learned since.
func (n *turnEngine) keepCalibration(ctx context.Context) error {
	n.calibrating.Lock()
	defer n.calibrating.Unlock()
	now, err := n.opt.Models.Learned()
	if err != nil || bytes.Equal(now, n.calibration) {
		return err
	}
	_, err = n.opt.Store.Commit(ctx, store.ForNode(resource.System), store.Batch{
		Changes: []store.Change{{URI: calibrationURI(), Body: now}}})
	if err == nil {
		n.calibration = now
	}
	return err
}
