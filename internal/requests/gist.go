package requests

import (
	"context"
	"iter"
	"strings"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// LastRun returns the newest run of an interaction.
func LastRun(ctx context.Context, st store.Store, sc store.Scope, inter resource.URI) (run record.Run, found bool, err error) {
	for it, err := range store.Items(ctx, st, sc, store.Query{Under: inter, Type: record.TypeRun}) {
		if err != nil {
			return run, false, err
		}
		var r record.Run
		if err := record.Decode(it.URI, it.Body, &r); err != nil {
			return run, false, err
		}
		if r.ID, _ = id.Parse(it.URI.ID()); !found || r.Started.After(run.Started) {
			run, found = r, true
		}
	}
	return run, found, nil
}

// Outcome sums up all messages below a place.
type Outcome struct {
	Final   *message.Message // the newest one; nil: there is none
	Labels  message.Labels
	Sources []string
	Denied  []string // tools, sorted
	Called  []string // tools, sorted
	Replies int      // of models
	Offline bool     // the offline model wrote one of them
	Failed  bool     // a call did
}

// SumUp reads all messages below a place.
func SumUp(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) (s Outcome, err error) {
	for m, err := range MessagesUnder(ctx, st, sc, under) {
		if err != nil {
			return Outcome{}, err
		}
		s.Labels |= message.LabelsOf(m.Blocks)
		s.Sources = message.JoinSources(s.Sources, message.SourcesOf(m.Blocks))
		if m.Model != "" {
			s.Replies++
			s.Offline = s.Offline || strings.HasPrefix(m.Model, "offline/")
		}
		for _, c := range m.Calls() {
			s.Called = message.JoinSources(s.Called, []string{c.Name})
		}
		if r := m.Result(); r != nil {
			s.Failed = s.Failed || r.Status != message.OK && r.Status != message.Accepted && r.Status != message.Queued
			s.Denied = message.JoinSources(s.Denied, r.Denied)
			if r.Status == message.DeniedCall {
				s.Denied = message.JoinSources(s.Denied, []string{r.Name})
			}
		}
		if m.Final && (s.Final == nil || m.At.After(s.Final.At)) {
			s.Final = m
		}
	}
	return s, nil
}

// MessagesUnder yields the messages stored at or below a place.
func MessagesUnder(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) iter.Seq2[*message.Message, error] {
	return func(yield func(*message.Message, error) bool) {
		for it, err := range store.Items(ctx, st, sc, store.Query{Under: under, Type: record.TypeMessage}) {
			var m *message.Message
			if err == nil {
				m, err = record.DecodeMessage(it.URI, it.Body)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}
