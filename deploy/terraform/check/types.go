package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// block is what a provider accepts in a resource, or in a block of one.
type block struct {
	Required   bool             `json:"required,omitempty"`
	Exports    []string         `json:"exports,omitempty"`    // what others may refer to, of a resource
	Attributes map[string]bool  `json:"attributes,omitempty"` // whether it is required
	Blocks     map[string]block `json:"blocks,omitempty"`
}

var (
	interfaceLine = regexp.MustCompile(`^export interface (\w+)`)
	docLine       = regexp.MustCompile(`^\s*\* Docs at Terraform Registry: .*#(\w+) `)
	blockLine     = regexp.MustCompile(`^\s*\* (\w+) block$`)
	fieldLine     = regexp.MustCompile(`^\s*readonly \w+(\??): (.*)$`)
	typeLine      = regexp.MustCompile(`tfResourceType = "(\w+)"`)
	typeName      = regexp.MustCompile(`\w+`)
	classLine     = regexp.MustCompile(`(?m)^class \w+ extends cdktf\.TerraformResource \{`)
	exportedName  = regexp.MustCompile(`\.get\w+Attribute\('(\w+)'\)|new \w+\(this, "(\w+)"`)
)

// readTypes extracts the schemas of the resource types (comma-separated) from unpacked packages of TypeScript declarations. A
// declaration documents each field with the name that the provider has for it.
func readTypes(types string, packages []string) (map[string]block, error) {
	schema := map[string]block{}
	for _, name := range strings.Split(types, ",") {
		_, short, _ := strings.Cut(name, "_")
		found := false
		for _, folder := range packages {
			files, _ := filepath.Glob(filepath.Join(folder, "lib", strings.ReplaceAll(short, "_", "-"), "*.d.ts"))
			more, _ := filepath.Glob(filepath.Join(folder, "lib", strings.ReplaceAll(short, "_", "-"), "*", "*.d.ts"))
			var text strings.Builder
			for _, file := range append(files, more...) {
				content, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				text.Write(content)
				text.WriteByte('\n')
			}
			declared := typeLine.FindStringSubmatch(text.String())
			if declared == nil || declared[1] != name {
				continue
			}
			resource, err := declaration(text.String())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			program, err := os.ReadFile(filepath.Join(folder, "lib", strings.ReplaceAll(short, "_", "-"), "index.js"))
			if err != nil {
				return nil, err
			}
			if resource.Exports = exports(string(program)); len(resource.Exports) == 0 {
				return nil, fmt.Errorf("%s: no class of it", name)
			}
			schema[name], found = resource, true
		}
		if !found {
			return nil, fmt.Errorf("no package declares %s", name)
		}
	}
	return schema, nil
}

// exports lists the arguments and results of a resource, by the provider's names, from the program beside its declaration.
func exports(program string) []string {
	at := classLine.FindStringIndex(program)
	if at == nil {
		return nil
	}
	var names []string
	for _, found := range exportedName.FindAllStringSubmatch(program[at[1]:], -1) {
		names = append(names, found[1]+found[2])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

type field struct {
	name     string
	required bool
	isBlock  bool
	types    []string
}

func declaration(text string) (block, error) {
	interfaces := map[string][]field{}
	current, config, name, isBlock := "", "", "", false
	for _, line := range strings.Split(text, "\n") {
		if found := interfaceLine.FindStringSubmatch(line); found != nil {
			current = found[1]
			interfaces[current] = nil
			if strings.Contains(line, "extends cdktf.TerraformMetaArguments") {
				config = current
			}
		} else if strings.HasPrefix(line, "}") {
			current = ""
		} else if found := blockLine.FindStringSubmatch(line); found != nil {
			isBlock = true
		} else if found := docLine.FindStringSubmatch(line); found != nil {
			name = found[1]
		} else if found := fieldLine.FindStringSubmatch(line); found != nil && current != "" && name != "" {
			interfaces[current] = append(interfaces[current], field{name, found[1] == "", isBlock, typeName.FindAllString(found[2], -1)})
			name, isBlock = "", false
		}
	}
	if config == "" {
		return block{}, fmt.Errorf("no interface of its arguments")
	}
	return resolve(config, interfaces, 0), nil
}

func resolve(name string, interfaces map[string][]field, depth int) block {
	result := block{Attributes: map[string]bool{}, Blocks: map[string]block{}}
	for _, field := range interfaces[name] {
		result.Attributes[field.name] = field.required
		// Statements of firewalls nest without end.
		if depth > 6 {
			continue
		}
		nested, found := block{}, field.isBlock
		for _, candidate := range field.types {
			if _, known := interfaces[candidate]; known {
				nested, found = resolve(candidate, interfaces, depth+1), true
			}
		}
		if !found {
			continue
		}
		// An attribute of objects may be written as blocks too, and then either form is enough.
		if field.isBlock {
			delete(result.Attributes, field.name)
		}
		nested.Required = field.isBlock && field.required
		result.Blocks[field.name] = nested
	}
	return result
}
