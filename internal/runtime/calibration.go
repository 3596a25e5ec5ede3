package runtime

import (
	"bytes"
	"context"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// calibrationURI is where it is kept how models count tokens.
func calibrationURI() resource.URI { return resource.Root("llm.Calibration", "all") }

// recallCalibration takes up what was learned of how models count. What
// cannot be read is learned anew.
func (n *Node) recallCalibration(ctx context.Context) error {
	r, err := n.opt.Store.Get(ctx, store.ForNode(resource.System), calibrationURI())
	if fault.Is(err, fault.NotFound) {
		n.calibration = n.opt.Models.Calibration().Save()
		return nil
	}
	if err != nil {
		return err
	}
	if err := n.opt.Models.Calibration().Load(r.Body); err != nil {
		n.log.Warn("how models count tokens is learned anew", "error", err)
	}
	n.calibration = r.Body
	return nil
}

// keepCalibration keeps what was learned since.
func (n *Node) keepCalibration(ctx context.Context) error {
	now := n.opt.Models.Calibration().Save()
	if bytes.Equal(now, n.calibration) {
		return nil
	}
	_, err := n.opt.Store.Commit(ctx, store.ForNode(resource.System), store.Batch{
		Changes: []store.Change{{URI: calibrationURI(), Body: now}}})
	if err == nil {
		n.calibration = now
	}
	return err
}
