package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Arguments that the language adds to every resource.
var meta = []string{"count", "for_each", "depends_on", "provider", "lifecycle"}

// What may say "from or to everywhere": ways out, and the default of the gateway's own clients.
var everywhere = []string{"aws_route", "aws_vpc_security_group_egress_rule"}

type module struct {
	folder   string
	schema   map[string]block
	findings []string
	declared map[string]bool
}

func (m *module) report(at hcl.Range, format string, values ...any) {
	m.findings = append(m.findings, fmt.Sprintf("%s:%d: %s", at.Filename, at.Start.Line, fmt.Sprintf(format, values...)))
}

// checkModule returns what is wrong with a folder of .tf files, each finding with its file and line.
func checkModule(folder string, schema map[string]block) []string {
	m := &module{folder: folder, schema: schema, declared: map[string]bool{}}
	files, _ := filepath.Glob(filepath.Join(folder, "*.tf"))
	if len(files) == 0 {
		return []string{folder + ": no .tf file"}
	}
	parser := hclparse.NewParser()
	var blocks hclsyntax.Blocks
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return []string{err.Error()}
		}
		parsed, problems := parser.ParseHCL(text, file)
		if problems.HasErrors() {
			return []string{problems.Error()}
		}
		if !bytes.Equal(hclwrite.Format(text), text) {
			m.findings = append(m.findings, file+": not formatted; run: tofu fmt "+folder)
		}
		blocks = append(blocks, parsed.Body.(*hclsyntax.Body).Blocks...)
	}
	for _, b := range blocks {
		m.declare(b)
	}
	for _, b := range blocks {
		if b.Type == "module" {
			m.call(b)
		}
	}
	for _, b := range blocks {
		if b.Type == "resource" {
			if resource, known := schema[b.Labels[0]]; known {
				m.arguments(b.Body, resource, b.Labels[0], true)
			} else {
				m.report(b.TypeRange, "%s is not in the schemas; run deploy/terraform/check/schema.sh", b.Labels[0])
			}
		}
		m.references(b)
		m.policy(b)
	}
	m.containers(blocks)
	return m.findings
}

func (m *module) declare(b *hclsyntax.Block) {
	switch b.Type {
	case "resource":
		m.declared[b.Labels[0]+"."+b.Labels[1]] = true
	case "module":
		m.declared["module."+b.Labels[0]] = true
	case "variable":
		m.declared["var."+b.Labels[0]] = true
	case "locals":
		for name := range b.Body.Attributes {
			m.declared["local."+name] = true
		}
	}
}

// arguments compares a body with what the provider accepts there.
func (m *module) arguments(body *hclsyntax.Body, schema block, where string, top bool) {
	seen := map[string]bool{}
	for name, attribute := range body.Attributes {
		seen[name] = true
		if _, known := schema.Attributes[name]; !known && !(top && slices.Contains(meta, name)) {
			m.report(attribute.NameRange, "%s has no attribute %s", where, name)
		}
	}
	for _, b := range body.Blocks {
		name, inner := b.Type, b.Body
		if top && name == "lifecycle" {
			continue
		}
		if name == "dynamic" {
			name = b.Labels[0]
			for _, content := range b.Body.Blocks {
				inner = content.Body
			}
		}
		seen[name] = true
		if nested, known := schema.Blocks[name]; known {
			m.arguments(inner, nested, where+"."+name, false)
		} else {
			m.report(b.TypeRange, "%s has no block %s", where, name)
		}
	}
	for name, required := range schema.Attributes {
		if required && !seen[name] {
			m.report(body.SrcRange, "%s lacks the attribute %s", where, name)
		}
	}
	for name, nested := range schema.Blocks {
		if nested.Required && !seen[name] {
			m.report(body.SrcRange, "%s lacks the block %s", where, name)
		}
	}
}

// references reports names of resources, variables and locals that the module does not declare.
func (m *module) references(b *hclsyntax.Block) {
	for _, attribute := range b.Body.Attributes {
		for _, traversal := range attribute.Expr.Variables() {
			m.reference(traversal)
		}
	}
	for _, nested := range b.Body.Blocks {
		m.references(nested)
	}
}

func (m *module) reference(traversal hcl.Traversal) {
	root := traversal.RootName()
	isResource := false
	for _, provider := range []string{"azurerm_", "aws_", "google_"} {
		isResource = isResource || strings.HasPrefix(root, provider)
	}
	if root != "var" && root != "local" && root != "module" && !isResource {
		return
	}
	if len(traversal) > 1 {
		if step, ok := traversal[1].(hcl.TraverseAttr); ok && m.declared[root+"."+step.Name] {
			if root == "module" {
				m.outputOf(traversal)
			}
			m.attributeOf(traversal)
			return
		}
	}
	m.report(traversal.SourceRange(), "%s is not declared", strings.TrimSpace(string(sourceOf(traversal))))
}

// attributeOf reports a reference to something that a resource neither takes nor makes.
func (m *module) attributeOf(traversal hcl.Traversal) {
	exports := m.schema[traversal.RootName()].Exports
	for _, step := range traversal[2:] {
		if name, isName := step.(hcl.TraverseAttr); isName {
			if len(exports) > 0 && !slices.Contains(exports, name.Name) {
				m.report(traversal.SourceRange(), "%s has nothing with the name %s", traversal.RootName(), name.Name)
			}
			return
		}
	}
}

func sourceOf(traversal hcl.Traversal) []byte {
	at := traversal.SourceRange()
	text, err := os.ReadFile(at.Filename)
	if err != nil {
		return []byte(traversal.RootName())
	}
	return at.SliceBytes(text)
}

// policy: nothing is open to everybody but the gateway's own port, and SSH only to the network that the variable ssh_cidr names.
func (m *module) policy(b *hclsyntax.Block) {
	isGateway := filepath.Base(m.folder) != "gauge"
	if b.Type == "variable" {
		if b.Labels[0] == "client_cidrs" && isGateway {
			return
		}
		if b.Labels[0] == "ssh_cidr" && !validated(b.Body) {
			m.report(b.TypeRange, "ssh_cidr needs a validation that refuses /0")
		}
		if b.Labels[0] == "ssh_cidr" && b.Body.Attributes["default"] != nil {
			m.report(b.TypeRange, "ssh_cidr must have no default")
		}
	}
	if b.Type == "resource" && slices.Contains(everywhere, b.Labels[0]) {
		return
	}
	m.noWildcards(b.Body)
	if b.Type == "resource" {
		m.sshSource(b, b.Body)
	}
}

func validated(body *hclsyntax.Body) bool {
	return slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "validation" })
}

// Attributes in which a network is named; `*` in another one is a port.
func isNetwork(name string) bool {
	return strings.Contains(name, "cidr") || strings.HasPrefix(name, "source_") || name == "default" || name == "ipv6_cidr_blocks"
}

func (m *module) noWildcards(body *hclsyntax.Body) {
	for name, attribute := range body.Attributes {
		_ = hclsyntax.VisitAll(attribute.Expr, func(node hclsyntax.Node) hcl.Diagnostics {
			literal, ok := node.(*hclsyntax.LiteralValueExpr)
			if !ok || literal.Val.Type() != cty.String || literal.Val.IsNull() {
				return nil
			}
			text := literal.Val.AsString()
			open := strings.HasSuffix(text, "/0") && !strings.Contains(text, "%")
			if isNetwork(name) && !strings.Contains(name, "port") {
				open = open || text == "*" || text == "Internet" || text == "Any"
			}
			if open && name != "condition" && name != "error_message" {
				m.report(attribute.NameRange, "%s is open to everybody: %q", name, text)
			}
			return nil
		})
	}
	for _, nested := range body.Blocks {
		if nested.Type != "validation" {
			m.noWildcards(nested.Body)
		}
	}
}

// sshSource: a body that names port 22 takes its source from var.ssh_cidr and from nowhere else.
func (m *module) sshSource(resource *hclsyntax.Block, body *hclsyntax.Body) {
	isSSH := false
	for name, attribute := range body.Attributes {
		if !strings.Contains(name, "port") {
			continue
		}
		_ = hclsyntax.VisitAll(attribute.Expr, func(node hclsyntax.Node) hcl.Diagnostics {
			if literal, ok := node.(*hclsyntax.LiteralValueExpr); ok && !literal.Val.IsNull() {
				if literal.Val.Type() == cty.Number && literal.Val.RawEquals(cty.NumberIntVal(22)) {
					isSSH = true
				}
				if literal.Val.Type() == cty.String && literal.Val.AsString() == "22" {
					isSSH = true
				}
			}
			return nil
		})
	}
	source := resource.Body
	if !isSSH {
		for _, nested := range body.Blocks {
			m.sshSource(resource, nested.Body)
		}
		return
	}
	if body.Attributes["cidr_ipv4"] != nil || body.Attributes["source_address_prefix"] != nil {
		source = body
	}
	named := false
	for name, attribute := range source.Attributes {
		if !isNetwork(name) || strings.Contains(name, "port") || name == "source_security_group_id" {
			continue
		}
		for _, traversal := range attribute.Expr.Variables() {
			step, ok := traversal[1].(hcl.TraverseAttr)
			if traversal.RootName() != "var" || !ok || step.Name != "ssh_cidr" {
				m.report(attribute.NameRange, "port 22 is open to something else than var.ssh_cidr")
			}
			named = true
		}
	}
	if !named {
		m.report(body.SrcRange, "port 22 does not take its source from var.ssh_cidr")
	}
}
