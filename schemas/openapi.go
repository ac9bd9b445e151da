package schemas

import _ "embed"

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the HTTP front door, in YAML.
func OpenAPI() []byte { return openAPI }
