package producer

import "testing"

// TestSightings notes files over three listings. What is gone is forgotten.
func TestSightings(t *testing.T) {
	var s sightings
	s.begin()
	if s.same("a", "1") || s.same("b", "1") {
		t.Error("a file that was never seen is the same")
	}
	s.begin()
	if !s.same("a", "1") || s.same("c", "1") {
		t.Error("the second listing: want a the same, and c not")
	}
	s.begin()
	if s.same("a", "2") || s.same("b", "1") || len(s.now) != 2 || len(s.before) != 2 {
		t.Errorf("the third listing: %+v, want a changed, and b forgotten", s)
	}
}
