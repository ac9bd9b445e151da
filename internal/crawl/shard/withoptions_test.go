package shard

import "testing"

func TestPlacesTakeTheOptionsOfTheirRoot(t *testing.T) {
	roots := []string{"file:///data", "s3://crawl?region=a", " s3://crawl/2026/?region=b&use_path_style=true", "gs://crawl?x=y"}
	for p, want := range map[string]string{
		"dir/a.tar": "dir/a.tar", "/data": "/data", "s3://other/x/": "s3://other/x/", "s3://crawl/2025/": "s3://crawl/2025/?region=a",
		"s3://crawl/2026/a.tar": "s3://crawl/2026/a.tar?region=b&use_path_style=true", "s3://crawl/2026": "s3://crawl/2026?region=b&use_path_style=true",
		"s3://crawl/20261": "s3://crawl/20261?region=a", "s3://crawl/2026/?region=c": "s3://crawl/2026/?region=c", "s3://crawl": "s3://crawl?region=a",
		"file:///data/a.tar": "file:///data/a.tar",
	} {
		if got := withOptions(p, roots); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}
