package app

import (
	"context"
	"strings"

	"steward/internal/graph"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	graphtool "steward/internal/tools/graph"
	domainlocal "steward/internal/tools/local"
)
