// Package site tests the pages of the documentation site in a browser, as `make test-site` does.
//
// PAIRSTREAM_SITE names the folder of a built site, PAIRSTREAM_AXE the file axe.min.js of axe-core, and
// PAIRSTREAM_CHROMIUM the browser.
package site
