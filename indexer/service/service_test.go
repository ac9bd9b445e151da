package service

import (
	"testing"
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
		{"device", "cpu", true},
		{"device", "cuda", true},
	}
	for _, tt := range tests {
		if got := (Settings{Engine: tt.engine}).onDevice(tt.device); got != tt.want {
			t.Errorf("engine %s, DEVICE=%s: on the device %v, want %v", tt.engine, tt.device, got, tt.want)
		}
	}
}
