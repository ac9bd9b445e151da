package service

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/process/config"
)

func TestWhoComputesGroups(t *testing.T) {
	tests := []struct {
		engine, device string
		want           bool
	}{
		{"auto", "cpu", false},
		{"auto", "cuda", true},
		{"auto", "cuda:1", true},
		{"cpu", "cpu", false},
		{"cpu", "cuda", false},
		{"faiss", "cuda", false}, // the former name of cpu
		{"device", "cpu", true},
		{"device", "cuda", true},
	}
	for _, tt := range tests {
		if got := (Settings{Engine: tt.engine}).onDevice(tt.device); got != tt.want {
			t.Errorf("NEIGHBORS_ENGINE=%s, DEVICE=%s: on the device %v, want %v", tt.engine, tt.device, got, tt.want)
		}
	}
}

func TestEngineSetting(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "auto": "", "cpu": "", "faiss": "", "device": "", "gpu": `NEIGHBORS_ENGINE is "gpu", want "auto", "cpu" or "device"`, "Auto": `NEIGHBORS_ENGINE is "Auto"`,
	} {
		env := map[string]string{}
		if value != "" {
			env["NEIGHBORS_ENGINE"] = value
		}
		_, err := config.Parse[Settings](env)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", value, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want that %s", value, err, want)
		}
	}
}
