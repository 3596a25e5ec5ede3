package api

import (
	"context"

	"steward/client"
	"steward/internal/fault"
)

// servesHeartbeat reports an error where there is no scheduler.
func (f *server) servesHeartbeat() error {
	if f.Heartbeat.Jobs == nil {
		return fault.New(fault.Unsupported, "heartbeat_unsupported", "the heartbeat is not served here")
	}
	return nil
}

// changesHeartbeat also refuses programs: only a person decides that Steward may speak by itself.
func (f *server) changesHeartbeat(c *call) error {
	if !c.Attended() {
		return fault.New(fault.Denied, "heartbeat_person", "only a person can change the heartbeat or begin it").WithHint("use a key of a user who is no service")
	}
	return f.servesHeartbeat()
}

// heartbeat answers with how the caller's heartbeat and reviews are.
func (f *server) heartbeat(ctx context.Context, c *call, _ struct{}) (client.Heartbeat, error) {
	if err := f.servesHeartbeat(); err != nil {
		return client.Heartbeat{}, err
	}
	return f.Heartbeat.Status(ctx, c.User)
}

// heartbeatOn turns the caller's heartbeat and reviews on, or changes how they are.
func (f *server) heartbeatOn(ctx context.Context, c *call, in struct {
	Body client.NewHeartbeat `body:""`
}) (client.Heartbeat, error) {
	if err := f.changesHeartbeat(c); err != nil {
		return client.Heartbeat{}, err
	}
	return f.Heartbeat.On(ctx, c.User, in.Body)
}

// heartbeatOff turns them off.
func (f *server) heartbeatOff(ctx context.Context, c *call, _ struct{}) (client.Heartbeat, error) {
	if err := f.changesHeartbeat(c); err != nil {
		return client.Heartbeat{}, err
	}
	return f.Heartbeat.Off(ctx, c.User)
}

// runHeartbeat looks now. The answer does not wait for its end.
func (f *server) runHeartbeat(ctx context.Context, c *call, in struct {
	Body struct {
		Kind string `json:"kind"`
	} `body:""`
}) (client.HeartbeatRun, error) {
	if err := f.changesHeartbeat(c); err != nil {
		return client.HeartbeatRun{}, err
	}
	return f.Heartbeat.Run(ctx, c.User, in.Body.Kind)
}
