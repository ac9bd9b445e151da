package console

import (
	"strings"
	"testing"
)

func TestDocumentationIsThatOfTheVersion(t *testing.T) {
	for version, want := range map[string]string{"v0.1.0": "/v0.1.0/", "v1.2": "/v1.2/", "dev-05eb738f2a91": "/main/", "v1.2.3-rc1": "/main/", "": "/main/"} {
		if got := documentation(version); !strings.HasSuffix(got, want+"console/") {
			t.Errorf("version %q: %s", version, got)
		}
	}
}
