// Command check reads the modules of deploy/terraform without their providers.
//
//	check modules SCHEMA.json FOLDER...   parses, compares with the providers' schemas, and applies the network policy
//	check types TYPE,... PACKAGE...        prints the schemas of resource types, from unpacked @cdktf packages
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: check modules SCHEMA.json FOLDER... | check types TYPES,... PACKAGE..."))
	}
	switch os.Args[1] {
	case "modules":
		schema := map[string]block{}
		text, err := os.ReadFile(os.Args[2])
		if err == nil {
			err = json.Unmarshal(text, &schema)
		}
		if err != nil {
			fail(fmt.Errorf("%s: %w", os.Args[2], err))
		}
		findings := 0
		for _, folder := range os.Args[3:] {
			for _, finding := range checkModule(folder, schema) {
				fmt.Println(finding)
				findings++
			}
		}
		if findings > 0 {
			os.Exit(1)
		}
	case "types":
		schema, err := readTypes(os.Args[2], os.Args[3:])
		if err != nil {
			fail(err)
		}
		text, err := json.MarshalIndent(schema, "", " ")
		if err != nil {
			fail(err)
		}
		fmt.Println(string(text))
	default:
		fail(fmt.Errorf("unknown command %q; expected modules or types", os.Args[1]))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "check:", err)
	os.Exit(2)
}
