package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	probe        = block{Attributes: map[string]bool{"path": false}}
	policyBlocks = map[string]block{
		"azurerm_container_app": {
			Attributes: map[string]bool{"name": false, "password": false},
			Blocks: map[string]block{"template": {
				Attributes: map[string]bool{"termination_grace_period_seconds": false},
				Blocks: map[string]block{"container": {
					Attributes: map[string]bool{"image": true},
					Blocks:     map[string]block{"startup_probe": probe, "readiness_probe": probe, "liveness_probe": probe},
				}},
			}},
		},
		"aws_ecs_task_definition":     {Attributes: map[string]bool{"container_definitions": true}},
		"aws_iam_role_policy":         {Attributes: map[string]bool{"policy": true}},
		"aws_iam_access_key":          {},
		"google_run_iam_member":       {Attributes: map[string]bool{"member": true, "count": false}},
		"google_cloud_run_v2_service": {Blocks: map[string]block{"startup_probe": probe, "liveness_probe": probe}},
	}
)

const (
	called = "variable \"config\" {\n}\n\nvariable \"longest\" {\n}\n\nvariable \"ports\" {\n  default = []\n}\n\noutput \"stop_seconds\" {\n  value = 1\n}\n"
	inputs = "variable \"image\" {\n  validation {\n    condition     = can(regex(\"^x@sha256:[0-9a-f]{64}$\", var.image))\n    error_message = \"a digest\"\n  }\n}\n\n" +
		"variable \"config\" {\n  sensitive = true\n}\n\n"
	call  = "module \"config\" {\n  source  = \"../config\"\n  config  = var.config\n  longest = 600\n}\n\n"
	azure = "resource \"azurerm_container_app\" \"a\" {\n  name = \"a\"\n  template {\n    termination_grace_period_seconds = module.config.stop_seconds\n    container {\n" +
		"      image = var.image\n      startup_probe {\n      }\n      readiness_probe {\n      }\n      liveness_probe {\n      }\n    }\n  }\n}\n"
	aws = "resource \"aws_ecs_task_definition\" \"a\" {\n  container_definitions = jsonencode([{ stopTimeout = module.config.stop_seconds, healthCheck = 1, logConfiguration = 1, readonlyRootFilesystem = true, drop = [\"ALL\"] }])\n}\n"
	gcp = "resource \"google_cloud_run_v2_service\" \"a\" {\n  startup_probe {\n  }\n  liveness_probe {\n  }\n}\n"
)

// Each module has one fault, which the finding names; those without a finding have none.
func TestContainers(t *testing.T) {
	good := inputs + call + azure
	seconds := func(text, longest string) string { return strings.Replace(text, "600", longest, 1) }
	without := func(text, part string) string {
		if !strings.Contains(text, part) {
			t.Fatalf("the module has no %q", part)
		}
		return strings.Replace(text, part, "", 1)
	}
	for name, c := range map[string]struct{ text, finding string }{
		"Azure":                {good, ""},
		"AWS":                  {seconds(inputs+call, "120") + aws, ""},
		"Google Cloud":         {seconds(inputs+call, "10") + gcp, ""},
		"no startup probe":     {without(good, "      startup_probe {\n      }\n"), "has no startup_probe"},
		"no readiness probe":   {without(good, "      readiness_probe {\n      }\n"), "has no readiness_probe"},
		"no liveness probe":    {seconds(inputs+call, "10") + without(gcp, "  liveness_probe {\n  }\n"), "has no liveness_probe"},
		"no time to stop":      {without(good, "    termination_grace_period_seconds = module.config.stop_seconds\n"), "does not take termination_grace_period_seconds"},
		"own time to stop":     {strings.Replace(good, "module.config.stop_seconds", "30", 1), "does not take termination_grace_period_seconds"},
		"no stopTimeout":       {seconds(inputs+call, "120") + without(aws, "stopTimeout = module.config.stop_seconds, "), "does not say stopTimeout"},
		"no health check":      {seconds(inputs+call, "120") + without(aws, "healthCheck = 1, "), "does not say healthCheck"},
		"writable root":        {seconds(inputs+call, "120") + strings.Replace(aws, "readonlyRootFilesystem = true", "readonlyRootFilesystem = false", 1), "does not say readonlyRootFilesystem"},
		"another limit":        {seconds(good, "900"), "longest = 600"},
		"configuration unread": {strings.Replace(inputs+call+azure, "module \"config\"", "module \"other\"", 1), "module.config.stop_seconds is not declared"},
		"image by tag":         {strings.Replace(good, "@sha256:[0-9a-f]{64}$", ":.*", 1), "demands a digest"},
		"printed config":       {without(good, "  sensitive = true\n"), "config must be sensitive"},
		"unknown variable":     {strings.Replace(good, "  config  = var.config\n", "  config  = var.config\n  confg   = var.config\n", 1), "has no variable confg"},
		"missing variable":     {without(good, "  config  = var.config\n"), "lacks the variable config"},
		"unknown output":       {good + "\noutput \"a\" {\n  value = module.config.seconds\n}\n", "has no output seconds"},
		"no such module":       {strings.Replace(good, "../config", "../confg", 1), "has no source"},
		"password":             {strings.Replace(good, "  name = \"a\"\n", "  name     = \"a\"\n  password = \"x\"\n", 1), "password is a credential"},
		"access key":           {good + "\nresource \"aws_iam_access_key\" \"a\" {\n}\n", "makes a credential"},
		"rights for all":       {good + "\nresource \"aws_iam_role_policy\" \"a\" {\n  policy = jsonencode({ Action = \"s3:Get\", Resource = \"*\" })\n}\n", "rights for everything"},
		"rights for one":       {good + "\nresource \"aws_iam_role_policy\" \"a\" {\n  policy = jsonencode({ Action = \"s3:Get\", Resource = \"arn:aws:s3:::a\" })\n}\n", ""},
		"public":               {good + "\nresource \"google_run_iam_member\" \"a\" {\n  member = \"allUsers\"\n}\n", "everybody may call"},
		"public, always":       {good + "\nresource \"google_run_iam_member\" \"a\" {\n  count  = 1\n  member = \"allUsers\"\n}\n", "everybody may call"},
		"public by a variable": {good + "\nresource \"google_run_iam_member\" \"a\" {\n  count  = var.image == null ? 1 : 0\n  member = \"allUsers\"\n}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range map[string]string{"config/main.tf": called, "service/main.tf": c.text} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			found := checkModule(filepath.Join(root, "service"), policyBlocks)
			if c.finding == "" && len(found) > 0 {
				t.Fatalf("findings in a good module: %q", found)
			}
			if all := strings.Join(found, "\n"); c.finding != "" && !strings.Contains(all, c.finding) {
				t.Fatalf("want a finding with %q, got %q", c.finding, found)
			}
		})
	}
}

// The command that writes the configuration into the volume of a Fargate task, with a configuration that would be commands if a shell read it.
func TestFargateConfig(t *testing.T) {
	text, err := os.ReadFile("../aws/fargate/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*command\s*= \["(umask .*)"\]$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the task has another form than this test expects")
	}
	folder := t.TempDir()
	command := strings.ReplaceAll(strings.ReplaceAll(string(found[1]), `\"`, `"`), "/etc/weir", folder)
	hostile := fmt.Sprintf("a: '%%s \\n $(touch %s/broken)' # \"`touch %s/broken`\n-n\n", folder, folder)
	run := exec.Command("sh", "-c", command)
	run.Env = append(os.Environ(), "WEIR_CONFIG="+hostile)
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	written, err := os.ReadFile(filepath.Join(folder, "weir.yaml"))
	if err != nil || string(written) != hostile {
		t.Fatalf("%v: %q", err, written)
	}
	if _, err := os.Stat(filepath.Join(folder, "broken")); err == nil {
		t.Fatal("the configuration was run as a command")
	}
	// Weir reads it as another user.
	if about, err := os.Stat(filepath.Join(folder, "weir.yaml")); err != nil || about.Mode().Perm() != 0o644 {
		t.Fatalf("%v: %v", err, about)
	}
}
