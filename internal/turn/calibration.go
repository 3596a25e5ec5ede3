package turn

import (
	"bytes"
	"context"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// calibrationURI is the resource that stores how models count tokens.
func calibrationURI() resource.URI { return resource.Root("llm.Calibration", "all") }

// LoadCalibration loads what was learned about how models count tokens and
// about the windows that they named. If it cannot be read, it is learned again.
func (e *Engine) LoadCalibration(ctx context.Context) error {
	r, err := e.opt.Store.Get(ctx, store.ForNode(resource.System), calibrationURI())
	if fault.Is(err, fault.NotFound) {
		e.calibration, err = e.opt.Models.Learned()
		return err
	}
	if err != nil {
		return err
	}
	if err := e.opt.Models.Recall(r.Body); err != nil {
		e.log.Warn("cannot read what was learned about how models count tokens: starting over", "error", err)
	}
	e.calibration = r.Body
	return nil
}

// SaveCalibration stores what was learned since.
func (e *Engine) SaveCalibration(ctx context.Context) error {
	e.calibrating.Lock()
	defer e.calibrating.Unlock()
	now, err := e.opt.Models.Learned()
	if err != nil || bytes.Equal(now, e.calibration) {
		return err
	}
	if e.life.Divided() { // other nodes have learned, too
		r, err := e.opt.Store.Get(ctx, store.ForNode(resource.System), calibrationURI())
		if err == nil && !bytes.Equal(r.Body, e.calibration) {
			if err := e.opt.Models.Join(r.Body); err != nil {
				e.log.Warn("cannot read what other nodes have learned about how models count tokens", "error", err)
			}
			if now, err = e.opt.Models.Learned(); err == nil && bytes.Equal(now, r.Body) {
				e.calibration = now
				return nil
			}
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	_, err = e.opt.Store.Commit(ctx, store.ForNode(resource.System), store.Batch{
		Changes: []store.Change{{URI: calibrationURI(), Body: now}}})
	if err == nil {
		e.calibration = now
	}
	return err
}
