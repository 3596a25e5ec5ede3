package email_test

import (
	"testing"

	"steward/internal/channel/channeltest"
	_ "steward/test/seed"
)

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Service { return newDouble(t) })
}
