package app

import (
	"net"
	"testing"

	"github.com/hashicorp/mdns"
)

func TestAnnouncedHome(t *testing.T) {
	for _, test := range []struct {
		name   string
		fields []string
		want   FoundHome
	}{
		{"Home._home-assistant._tcp.local.", []string{"location_name=Our home", "internal_url=http://ha.lan:8123/", "base_url=https://x.example"}, FoundHome{"Our home", "http://ha.lan:8123"}},
		{"Home._home-assistant._tcp.local.", []string{"internal_url=", "base_url=https://x.example"}, FoundHome{"", "https://x.example"}},
		{"Home._home-assistant._tcp.local.", nil, FoundHome{"", "http://192.168.1.7:8123"}},
		{"Home._home-assistant._tcp.local.", []string{"internal_url=javascript:alert(1)", "base_url=http://a:b@evil"}, FoundHome{"", "http://192.168.1.7:8123"}},
		{"printer._ipp._tcp.local.", []string{"internal_url=http://printer"}, FoundHome{}},
	} {
		got, ok := homeOf(&mdns.ServiceEntry{Name: test.name, InfoFields: test.fields, AddrV4: net.IPv4(192, 168, 1, 7), Port: 8123})
		if ok != (test.want.URL != "") || ok && got != test.want {
			t.Errorf("%s %q: %+v", test.name, test.fields, got)
		}
	}
	if h, ok := homeOf(&mdns.ServiceEntry{Name: "Home._home-assistant._tcp.local."}); ok {
		t.Errorf("%+v", h)
	}
}
