package main

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

var schema = map[string]block{
	"azurerm_rule": {
		Attributes: map[string]bool{"name": true, "source_address_prefix": false, "destination_port_range": false},
		Blocks:     map[string]block{"rule": {Attributes: map[string]bool{"source_address_prefix": false, "destination_port_range": false, "source_port_range": false}}},
	},
	"google_compute_firewall": {
		Attributes: map[string]bool{"source_ranges": false},
		Blocks:     map[string]block{"allow": {Required: true, Attributes: map[string]bool{"ports": false}}},
	},
	"aws_route": {Attributes: map[string]bool{"destination_cidr_block": true}},
	"aws_vpc":   {Exports: []string{"arn", "id"}},
}

const sshVariable = "variable \"ssh_cidr\" {\n  type = string\n  validation {\n    condition     = !endswith(var.ssh_cidr, \"/0\")\n    error_message = \"a network\"\n  }\n}\n"

// Each module has one fault, which the finding names; those without a finding have none.
func TestModules(t *testing.T) {
	for name, c := range map[string]struct{ role, text, finding string }{
		"not formatted":     {"gauge", sshVariable + "resource \"azurerm_rule\" \"a\" {\n  name                  = \"a\"\n  source_address_prefix = var.ssh_cidr\n  destination_port_range = \"22\"\n}\n", "not formatted"},
		"nested":            {"gauge", sshVariable + "resource \"azurerm_rule\" \"a\" {\n  name = \"a\"\n  rule {\n    source_address_prefix  = var.ssh_cidr\n    source_port_range      = \"*\"\n    destination_port_range = \"22\"\n  }\n}\n", ""},
		"syntax":            {"gauge", "resource \"azurerm_rule\" {", "Unclosed"},
		"unknown resource":  {"gauge", "resource \"aws_none\" \"a\" {\n}\n", "aws_none is not in the schemas"},
		"unknown attribute": {"gauge", "resource \"azurerm_rule\" \"a\" {\n  name = \"a\"\n  nmae = \"b\"\n}\n", "azurerm_rule has no attribute nmae"},
		"missing attribute": {"gauge", "resource \"azurerm_rule\" \"a\" {\n}\n", "lacks the attribute name"},
		"unknown block":     {"gauge", "resource \"azurerm_rule\" \"a\" {\n  name = \"a\"\n  rules {\n  }\n}\n", "has no block rules"},
		"missing block":     {"gauge", "resource \"google_compute_firewall\" \"a\" {\n}\n", "lacks the block allow"},
		"undeclared":        {"gauge", "resource \"azurerm_rule\" \"a\" {\n  name = var.naem\n}\n", "var.naem is not declared"},
		"no such resource":  {"gauge", "output \"a\" {\n  value = azurerm_rule.b.id\n}\n", "azurerm_rule.b.id is not declared"},
		"no such result":    {"gauge", "resource \"aws_vpc\" \"a\" {\n}\n\noutput \"a\" {\n  value = aws_vpc.a[0].arm\n}\n", "aws_vpc has nothing with the name arm"},
		"a result":          {"gauge", "resource \"aws_vpc\" \"a\" {\n}\n\noutput \"a\" {\n  value = [aws_vpc.a.arn, aws_vpc.a]\n}\n", ""},
		"open":              {"gauge", "resource \"google_compute_firewall\" \"a\" {\n  source_ranges = [\"0.0.0.0/0\"]\n  allow {\n  }\n}\n", "open to everybody"},
		"open, IPv6":        {"weir", "resource \"google_compute_firewall\" \"a\" {\n  source_ranges = [\"::/0\"]\n  allow {\n  }\n}\n", "open to everybody"},
		"open, any":         {"gauge", "resource \"azurerm_rule\" \"a\" {\n  name                  = \"a\"\n  source_address_prefix = \"*\"\n}\n", "open to everybody"},
		"open by default":   {"gauge", "variable \"client_cidrs\" {\n  default = [\"0.0.0.0/0\"]\n}\n", "open to everybody"},
		"the gateway's":     {"weir", "variable \"client_cidrs\" {\n  default = [\"0.0.0.0/0\"]\n}\n", ""},
		"a way out":         {"gauge", "resource \"aws_route\" \"a\" {\n  destination_cidr_block = \"0.0.0.0/0\"\n}\n", ""},
		"ssh from another":  {"gauge", "variable \"x\" {\n}\n\nresource \"google_compute_firewall\" \"a\" {\n  source_ranges = var.x\n  allow {\n    ports = [\"22\"]\n  }\n}\n", "something else than var.ssh_cidr"},
		"ssh from none":     {"gauge", "resource \"google_compute_firewall\" \"a\" {\n  source_ranges = [\"10.0.0.0/8\"]\n  allow {\n    ports = [\"22\"]\n  }\n}\n", "does not take its source from var.ssh_cidr"},
		"ssh not validated": {"gauge", "variable \"ssh_cidr\" {\n}\n", "needs a validation"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), c.role)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "main.tf"), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			found := checkModule(folder, schema)
			if c.finding == "" && len(found) > 0 {
				t.Fatalf("findings in a good module: %q", found)
			}
			if c.finding != "" && (len(found) != 1 || !strings.Contains(found[0], c.finding)) {
				t.Fatalf("want one finding with %q, got %q", c.finding, found)
			}
		})
	}
}

// What others may refer to, of the program that declares a resource; not of the blocks in it.
func TestExports(t *testing.T) {
	program := "class AVpcTimeouts extends cdktf.ComplexObject {\n  get create() { return this.getStringAttribute('create'); }\n}\n" +
		"class AVpc extends cdktf.TerraformResource {\n  constructor() { this._route = new AVpcRouteList(this, \"route\", true); }\n" +
		"  get arn() { return this.getStringAttribute('arn'); }\n  get tags() { return this.getStringMapAttribute('tags'); }\n}\n"
	if found := strings.Join(exports(program), " "); found != "arn route tags" {
		t.Fatalf("got %q", found)
	}
	if found := exports("class A extends B {\n}\n"); found != nil {
		t.Fatalf("got %q", found)
	}
}

// The first boot's script, rendered as a module does, with values that would be commands if a shell read them.
func TestBoot(t *testing.T) {
	text, err := os.ReadFile("../boot/weir.sh.tftpl")
	if err != nil {
		t.Fatal(err)
	}
	template, problems := hclsyntax.ParseTemplate(text, "weir.sh.tftpl", hcl.InitialPos)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	folder := t.TempDir()
	encode := func(text string) cty.Value { return cty.StringVal(base64.StdEncoding.EncodeToString([]byte(text))) }
	hostile := "https://example.com/'; touch " + folder + "/broken; $(touch " + folder + "/broken)\n"
	rendered, problems := template.Value(&hcl.EvalContext{Variables: map[string]cty.Value{
		"package_url": encode(hostile), "package_sha256": encode(hostile), "config": encode(hostile),
	}})
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	// Up to the first command that changes the machine.
	script, _, found := strings.Cut(rendered.AsString(), "\npackage=")
	if !found {
		t.Fatal("the script has another form than this test expects")
	}
	output, err := exec.Command("sh", "-c", script+"\nprintf '%s|' \"$url\" \"$sum\"").CombinedOutput()
	want := strings.TrimRight(hostile, "\n")
	if err != nil || string(output) != want+"|"+want+"|" {
		t.Fatalf("%v: %q", err, output)
	}
	if _, err := os.Stat(folder + "/broken"); err == nil {
		t.Fatal("a value was run as a command")
	}
	if output, err := exec.Command("sh", "-n", "-c", rendered.AsString()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}
